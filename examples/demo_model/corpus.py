"""Writes our own training text: short stories, letters, dialogues, questions and answers, all from templates and a seed.

    python3 corpus.py --count 5 --seed 1              # print five pieces
    python3 corpus.py --count 600000 -o corpus.txt    # one piece a block, blocks separated by a line with <|eos|>

The same seed gives the same text on every machine and for any number of processes.
"""
import argparse
import multiprocessing
import pathlib
import random
import sys

from grammar import Pair, Person, Writer
from lexicon import BANKS, BOYS, CREATURES, GIRLS, KIN, PLACES, SEASONS, TRADES, TRAITS, bank

SEPARATOR = "<|eos|>"
BLOCK = 1000  # pieces that share one random source; the unit of parallel work
INDOORS = {"kitchen", "library", "workshop"}
# Where some plots can happen, and which animals may play in them; the others take any.
SHORE = ["beach", "harbour", "tide pool", "island"]
PLOT_PLACES = {"growing": ["garden"], "baking": ["kitchen", "village", "market"], "storm": ["harbour", "lighthouse", "beach"], "stranded": SHORE,
               "journey": SHORE + ["forest"], "howto_pool": ["tide pool"], "child_asks": SHORE, "howto_cook": ["kitchen", "garden"]}
STRANDED = bank("crab, hermit crab, octopus, starfish, seahorse, sea turtle, seal, gull, puffin, sea urchin, shrimp, lobster, sea snail, eel, ray")
THIEVES = bank("crab, hermit crab, otter, gull, puffin, hedgehog, owl, seal, pelican")
POOL = bank("crab, hermit crab, sea anemone, starfish, limpet, mussel, sea urchin, shrimp, sea snail")
LAND = bank("bee, hedgehog, owl, snail, gull")
PLOT_ANIMALS = {"": list(CREATURES), "child_asks": list(CREATURES), "journey": bank("dolphin, whale, seal, otter, sea turtle"),
                "stranded": STRANDED, "mystery": THIEVES, "howto_pool": POOL, "lost": THIEVES}
FEARS = bank("the deep water, the dark cave, the high stairs of the lighthouse, the old dog of the baker, thunder, speaking to strangers, "
             "the big waves, the long bridge, the cellar, crabs")
TALK = bank("the tides, the weather, old ships, the stars, the price of fish, whales, faraway islands, bread, the moon, the new boat, "
            "songs, the garden, the best way to tie a knot, winter, the feast, birds")
HUNTERS = bank("shark, eel, seal, gull, octopus")


def load(path):
    """Reads a template file into {plot name: [(optional, [alternative, ...]), ...]}; see tales.txt for the format."""
    plots = {}
    for section in pathlib.Path(__file__).with_name(path).read_text().split("\n== ")[1:]:
        name, _, body = section.partition("\n")
        beats = []
        for block in body.split("\n\n"):
            lines = [line.replace("\\n", "\n") for line in block.split("\n") if line.strip()]
            if lines and lines[0] == "?":
                beats.append((True, lines[1:]))
            elif lines:
                beats.append((False, lines))
        plots[name] = beats
    return plots


TALES, PIECES = load("tales.txt"), load("pieces.txt")
PLACE_WORDS = {name: (at, bank(there), bank(sense), bank(spots)) for name, (at, there, sense, spots) in PLACES.items()}
WEATHER = {season: (bank(weather), bank(looks)) for season, (weather, looks) in SEASONS.items()}


def relative(writer, hero, kind, taken):
    """A person that is something to the hero, for example "her cousin Tom"."""
    gender = writer.pick("fm")
    name = writer.pick([n for n in (GIRLS if gender == "f" else BOYS) if n not in taken])
    word = writer.pick(KIN[kind][gender == "m"])
    owner = hero.form("his")
    if word in ("aunt", "uncle"):
        person = Person(f"{word.capitalize()} {name}", gender, f"{owner} {word} {name}")
    elif kind == "elder":
        person = Person(f"{owner} {word}", gender)
    else:
        person = Person(name, gender, f"{owner} {word} {name}")
    person.young = writer.pick(["dear", "child"])
    return person, name


def cast(writer, plot, first_person):
    """Everybody and everything that one text may speak about, chosen once so that the text stays consistent."""
    pick = writer.pick
    gender = pick("fm")
    name = pick(GIRLS if gender == "f" else BOYS)
    trait, trade = pick(TRAITS), pick(TRADES)
    if pick("aab") == "a":
        who = f"a {pick([trait, 'small', 'young'])} {'girl' if gender == 'f' else 'boy'}"
    else:
        who = f"a {pick([trait, 'old', 'young'])} {trade}"
    hero = Person(name, "i" if first_person else gender, intro=None if first_person else pick([name, name, f"{name}, {who},"]))
    hero.real = "I" if first_person and plot not in ("letter", "talk") else name
    if hero.intro.endswith(",") and pick("ab") == "a":
        hero.intro = f"{who} named {name}"
    taken = {name}
    peer, peer_name = relative(writer, hero, "peer", taken)
    elder, _ = relative(writer, hero, "elder", taken | {peer_name})
    stranger_gender = pick("fm")
    stranger_job = f"{pick(['old', 'young', 'tall', trait, pick(TRAITS)])} {pick(TRADES)}"
    stranger = Person("the " + stranger_job, stranger_gender, "a " + stranger_job)

    place = pick(PLOT_PLACES.get(plot, list(PLACE_WORDS)))
    at, there, sense, spots = PLACE_WORDS[place]
    there1, there2 = writer.rng.sample(there, 2)
    season = pick(list(WEATHER))
    weather, season_looks = WEATHER[season]
    animal = pick(PLOT_ANIMALS.get(plot, STRANDED if place in SHORE else LAND))
    home, eats, moves, danger, looks, fact = CREATURES[animal]
    ing1, ing2, ing3 = writer.rng.sample(BANKS["ingredient"], 3)
    work, work2 = writer.rng.sample(BANKS["work"], 2)
    first, second = writer.rng.sample([k for k in CREATURES if k not in ("bee", "hedgehog", "owl", "snail", "coral")], 2)
    thing = pick(BANKS["thing"])
    look = pick([word for word in BANKS["thing_look"] if word not in thing])
    look = pick(BANKS["colour"]) if look == "{colour}" else look
    if plot in ("letter", "talk"):  # both sides know each other: bare names from the start
        hero.mentioned = peer.mentioned = elder.mentioned = True
    return {
        "A": hero, "B": peer, "E": elder, "S": stranger, "W": Pair(hero, peer, False), "AB": Pair(hero, peer, True),
        "C": Person("the " + animal, "n", "a " + animal), "animal": animal, "home": home, "eats": eats, "moves": moves,
        "danger": danger, "looks": looks, "fact": fact, "who": who,
        "X": Person("the " + first, pick("fmn"), "a " + first), "Y": Person("the " + second, pick("fmn"), "a " + second),
        "hunter": pick([h for h in HUNTERS if h not in (first, second)]),
        "over": "outside the window" if place in INDOORS else "over the " + place, "place": place, "at": at,
        "there1": there1, "there2": there2, "sense": sense, "spots": spots, "spot": pick(spots),
        "season": season, "weather": weather, "season_adj": season_looks,
        "thing": thing, "look": look, "food": pick(BANKS["food"]),
        "ing1": ing1, "ing2": ing2, "ing3": ing3, "plant": pick(BANKS["plant"]), "work": work, "work2": work2,
        "bare": pick(["flour", "butter", "salt", "sugar", "milk", "honey", "cinnamon", "cheese", "cream", "pepper"]),
        "fear": pick(FEARS), "talk": pick(TALK), "saying": pick(BANKS["saying"]),
    }


def compose(writer, plots, name, context):
    """Writes one plot: a line of each beat, never the same shared line twice."""
    used, parts = set(), []
    for optional, lines in plots[name]:
        if optional and writer.rng.random() < 0.4:
            continue
        if lines[0].startswith("@"):
            lines = plots[lines[0]][0][1]
        lines = [line for line in lines if line not in used]
        line = writer.pick(lines)
        used.add(line)
        parts.append(writer.text(line, context))
        if plots is TALES and name != "fable" and len(parts) > 1 and writer.rng.random() < 0.12:  # small talk on the way
            parts.append(writer.text(writer.pick(plots["@chat"][0][1]), context))
    return " ".join(parts).replace("\n ", "\n").replace(" \n", "\n")


def question_piece(writer, context):
    """One to four questions with answers, all about the same animal or the same place."""
    pairs = []
    heads = writer.pick([("Question: ", "Answer: "), ("Q: ", "A: "), ("", "")])
    lines = PIECES["@qa"][0][1]
    for line in writer.rng.sample(lines, 1 + int(writer.rng.random() * 4)):
        question, *answers = writer.raw(line.replace("[a|the]", "a").replace("[A|The]", "A"), context).split("|")
        pairs.append(heads[0] + writer.text(question, context) + "\n" + heads[1] + writer.text(writer.pick(answers), context))
    return "\n\n".join(pairs)


TALE_NAMES = [name for name in TALES if not name.startswith("@")]
PIECE_NAMES = [name for name in PIECES if not name.startswith("@")]


def piece(writer):
    """One text of a random kind, about 100 to 300 words long."""
    roll = writer.rng.random()
    if roll < 0.12:
        writer.past = False
        return question_piece(writer, cast(writer, "", False))
    if roll < 0.30:
        name = writer.pick(PIECE_NAMES)
        writer.past = name in ("diary", "child_asks")
        return compose(writer, PIECES, name, cast(writer, name, name in ("letter", "diary")))
    name = writer.pick(TALE_NAMES)
    writer.past = writer.rng.random() < 0.75
    return compose(writer, TALES, name, cast(writer, name, name != "fable" and writer.rng.random() < 0.2))


def block(job):
    """Pieces of one block; the random source depends on the seed and the block's number alone."""
    seed, index, count = job
    writer = Writer(random.Random(f"{seed}/{index}"), BANKS)
    return [piece(writer) for _ in range(count)]


def blocks(count, seed, processes):
    """Yields lists of pieces, in order."""
    jobs = [(seed, i, min(BLOCK, count - i * BLOCK)) for i in range((count + BLOCK - 1) // BLOCK)]
    if processes <= 1 or len(jobs) == 1:
        yield from map(block, jobs)
    else:
        with multiprocessing.Pool(processes) as pool:
            yield from pool.imap(block, jobs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    out = open(args.output, "w") if args.output else sys.stdout
    for pieces in blocks(args.count, args.seed, args.processes):
        for text in pieces:
            out.write(text + "\n" + SEPARATOR + "\n")


if __name__ == "__main__":
    main()
