"""A small template language for writing English text.

    Writer(random.Random(1)).text("{A} A:walk to [the sea|the shop].", {"A": Person("Mara", "f")})
    -> "Mara walked to the sea."

[a|b]      one of the alternatives, nested at will
{key}      a value of the context (one of them if it is a list), or else a random entry of the word bank of that name in lexicon.BANKS
{A}        the person A, introduced at the first mention ("her brother Tom", later "Tom")
{A.his}    a form of the person: he, him, his, himself, real (the bare name)
A:walk     the verb in the tense of the text, agreeing with person A; T: any singular subject, P: any plural one
"""
import re

PRONOUNS = {
    "f": ("she", "her", "her", "herself"),
    "m": ("he", "him", "his", "himself"),
    "n": ("it", "it", "its", "itself"),
    "i": ("I", "me", "my", "myself"),
    "w": ("we", "us", "our", "ourselves"),
    "p": ("they", "them", "their", "themselves"),
}
FORMS = {"he": 0, "him": 1, "his": 2, "himself": 3, "they": 0, "them": 1, "their": 2}

IRREGULAR = dict(pair.split(":") for pair in """
be:was have:had do:did go:went come:came see:saw say:said tell:told find:found lose:lost think:thought know:knew take:took
give:gave get:got make:made leave:left feel:felt keep:kept hold:held stand:stood sit:sat lie:lay run:ran swim:swam
begin:began sing:sang ring:rang drink:drank sink:sank rise:rose ride:rode write:wrote drive:drove break:broke speak:spoke
choose:chose wake:woke wear:wore tear:tore bring:brought buy:bought catch:caught teach:taught fall:fell grow:grew
hit:hit strike:struck kneel:knelt quarrel:quarrelled
blow:blew fly:flew draw:drew throw:threw hear:heard read:read put:put set:set let:let cut:cut shut:shut hurt:hurt
meet:met feed:fed lead:led sleep:slept sweep:swept creep:crept weep:wept eat:ate hide:hid shine:shone stick:stuck
dig:dug hang:hung swing:swung spin:spun win:won build:built send:sent spend:spent bend:bent lend:lent shake:shook
forget:forgot understand:understood can:could will:would may:might must:must light:lit slide:slid dream:dreamed
bite:bit pay:paid lay:laid sell:sold steal:stole fight:fought seek:sought spread:spread split:split cost:cost become:became
""".split())
DOUBLED = set("stir stop drop grab hum nod plan slip step tap trip wrap hug rub beg tug skip clap chat dip drag pat knit fit hop grin".split())
MODALS = {"can", "will", "may", "must"}


def inflect(verb, gender, past):
    """The form of a verb: inflect("go", "f", past=False) -> "goes"."""
    plural = gender in "wp"
    if verb == "be":
        if past:
            return "were" if plural else "was"
        return "am" if gender == "i" else "are" if plural else "is"
    if past:
        if verb in IRREGULAR:
            return IRREGULAR[verb]
        if verb in DOUBLED:
            return verb + verb[-1] + "ed"
        if verb.endswith("e"):
            return verb + "d"
        if verb.endswith("y") and verb[-2] not in "aeiou":
            return verb[:-1] + "ied"
        return verb + "ed"
    if plural or gender == "i" or verb in MODALS:
        return verb
    if verb == "have":
        return "has"
    if verb.endswith(("s", "x", "sh", "ch", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


class Person:
    """Someone a text speaks about; gender is a key of PRONOUNS."""

    def __init__(self, name, gender, intro=None):
        self.name = "I" if gender == "i" else name
        self.gender = gender
        self.intro = intro or self.name
        self.real = self.name
        self.mentioned = False

    def form(self, what):
        if what in FORMS:
            return PRONOUNS[self.gender][FORMS[what]]
        if what in ("name", "intro"):  # the first mention introduces, whatever the template asked for
            what = "name" if self.mentioned else "intro"
        self.mentioned = True
        return getattr(self, what)


class Pair(Person):
    """The hero and a friend: "Mara and her brother Tom", afterwards "they" unless always_named; with a hero "I": "we"."""

    def __init__(self, hero, friend, always_named):
        self.hero, self.friend, self.always_named = hero, friend, always_named
        self.gender = "w" if hero.gender == "i" else "p"

    def form(self, what):
        if what in FORMS:
            return PRONOUNS[self.gender][FORMS[what]]
        if self.friend.mentioned and not self.always_named:
            return PRONOUNS[self.gender][0]
        if self.hero.gender == "i":
            return f"{self.friend.form('name')} and I"
        first = self.hero.form("he" if self.hero.mentioned and not self.always_named else "name")
        return f"{first} and {self.friend.form('name')}"


CHOICE = re.compile(r"\[([^\[\]]*)\]")
KEY = re.compile(r"\{([A-Za-z_0-9]+)(?:\.([a-z]+))?\}")
VERB = re.compile(r"\b([A-Z]):([a-z]+)")
ARTICLE = re.compile(r"\b([Aa]) (?=(?:[aeio]|u(?!s[eu]|ni)|hour|honest)(?!ne\b|nce\b))")
# A capital follows a full stop, a line break and an opening quote; after ?" and !" the sentence may go on.
SENTENCE = re.compile(r'(^|[.!?]\s+|\."\s+|\n|(?:^|\s)")([a-z])')


class Writer:
    """Expands templates with one random source; `past` is the tense of the text being written."""

    def __init__(self, rng, banks):
        self.rng = rng
        self.banks = banks
        self.past = True

    def pick(self, options):
        return options[int(self.rng.random() * len(options))]

    def _key(self, match, context):
        key, form = match[1], match[2]
        value = context.get(key)
        if value is None:
            return self.pick(self.banks[key])
        if isinstance(value, list):
            return self.pick(value)
        if isinstance(value, Person):
            return value.form(form or "name")
        return value

    def _verb(self, match, context):
        who = match[1]
        gender = "n" if who == "T" else "p" if who == "P" else context[who].gender
        return inflect(match[2], gender, self.past)

    def raw(self, template, context):
        """Expands choices and keys (the values may hold templates themselves) but not verbs."""
        while True:
            if "[" in template:
                template = CHOICE.sub(lambda m: self.pick(m[1].split("|")), template)
            elif "{" in template:
                template = KEY.sub(lambda m: self._key(m, context), template)
            else:
                return template

    def text(self, template, context):
        """Expands everything; sentences start with capitals and "a" becomes "an" where needed."""
        result = self.raw(template, context)
        result = VERB.sub(lambda m: self._verb(m, context), result)
        result = ARTICLE.sub(r"\1n ", result).replace(",.", ".").replace(",,", ",")
        return SENTENCE.sub(lambda m: m[1] + m[2].upper(), result)
