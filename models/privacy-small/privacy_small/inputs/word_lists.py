"""Words that decide, in build_sentences.py, whether a capitalised word could be a name."""

# Capitalised, and no name of a person.
HARMLESS = set(
    """
    Africa African Amazon America American Android Apple April Asia Asian August Australia Beijing Berlin Bible
    Brazil British Canada China Chinese Christmas December Dutch EU Earth Easter Egypt English Europe European
    Facebook February Firefox France French Friday German Germany God Google Greece Greek I I'd I'll I'm I've
    India Indian Internet Italian Italy January Japan Japanese July June Latin Linux London Lundi Madrid March
    Mardi Mars Mexico Microsoft Monday Moon Moscow Mozilla November October Paris Polish Rome Russia Russian
    Saturday September Spain Spanish Sun Sunday Swedish TV Thursday Tokyo Tuesday Turkish Twitter UK USA Vienna
    Wednesday Wikipedia Windows
    """.split()
)

# English words that names of places and institutions are made of.
GENERAL_WORDS = set(
    """
    Americans Avenue Bank Bridge Catholic Central Christian Christianity Church City College Common Congress
    Council Court Day East Eastern Egyptian Egyptians Europeans Germans Greeks Heaven Hell Indians Internet
    Irish Island Italians Java JavaScript Jewish Kingdom Lake Library Madam Majesty Ministry Monday's Mount
    Museum Muslim New North Northern Ocean Office Parliament Party Persian Protestant Python Republic River Road
    Roman Romans Russians Saxon School Scottish Sea Senate Sir South Southern Square States Street TypeScript
    Unicode Union United University Voice War Web West Western Year
    """.split()
)

# Given names that are more often something else: never taken as a name.
AMBIGUOUS_NAMES = set(
    """
    Africa Ali Alma Amber America Amparo Angel April Archer Art Asia August Austin Autumn Ay Bahar Baron Barış
    Bella Bill Bishop Blanca Brook Brooklyn Buddy Can Carolina Carson Carter Chance Chase Chelsea China
    Christian Cliff Constance Consuelo Cooper Crystal Daisy Dakota Dale Dallas Dawn Dean Deniz Dolores Domingo
    Drew Duke Earl Eden Estrella Faith Fiore Flor Florence Forest Fortuna Gene Georgia Gioia Glen Gloria Grace
    Grant Guy Gül Güneş Harmony Heath Hope Houston Hunter India Israel Ivy Jack Jackson Jesus Jordan Joy June
    Junior Justice King Lane Lily Lincoln Logan Luce Luz Madison Major Mar Maria Marina Mark Mason Max May
    Melody Mercedes Mercy Miles Misty Nur Paris Parker Pat Patience Paz Pearl Penny Pilar Pope Porter Price
    Prince Prudence Reed Reyes Rich Rocky Rosa Rose Ruby Rusty Sandy Santos Savannah Savaş Sierra Sky Sol Star
    Su Summer Sunny Tanner Taylor Umut Victoria Viola Violet Virginia Vita Washington Will Yıldız
    """.split()
)

# Of these, the ones that are names often enough to leave the sentence out.
OFTEN_NAMES = set(
    """
    Ali Alma Amber Angel Bill Buddy Carson Carter Cooper Daisy Dawn Dean Drew Faith Gene Grace Grant Guy Hope
    Hunter Ivy Jack Jackson Jesus Jordan Joy Lily Logan Maria Marina Mark Mason Max Miles Parker Pat Penny Robin
    Rosa Rose Ruby Rusty Sandy Taylor Violet
    """.split()
)
