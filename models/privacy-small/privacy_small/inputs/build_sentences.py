"""Builds sentences.json.gz: real sentences of Common Voice for 22 languages, and pieces of Python code.

    python -m privacy_small.inputs.build_sentences SOURCES INPUTS

For each language two lists. plain: nothing in the sentence looks like a name. slotted: given names that the pools know
became {P}, a given name with a family name {F}, a title with a name {T}, a place {C}; the generator puts drawn
values there. Sentences with other words that could be names are left out, so that no name stays without a label.
Needs pools.json.gz. The code is that of the running Python's own library (3.11 was used).
"""

import random
import re
import sys
import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..generator.material import CJK, POOL_FILE, SENTENCE_FILE, read_json_gz
from . import word_lists
from .files import write_json_gz

FOLDERS = {
    "en": "en", "de": "de", "fr": "fr", "es": "es", "it": "it", "pt": "pt", "nl": "nl", "sv": "sv-SE", "da": "da",
    "nb": "nb-NO", "fi": "fi", "pl": "pl", "cs": "cs", "tr": "tr", "ru": "ru", "uk": "uk", "el": "el", "ro": "ro",
    "hu": "hu", "zh": "zh-CN zh-TW", "ja": "ja", "ko": "ko",
}  # fmt: skip
LOCALES = {
    "en": "en_US en_GB en_IE en_AU en_XX", "de": "de_DE de_AT", "fr": "fr_FR fr_CA", "es": "es_ES es_MX", "it": "it_IT",
    "pt": "pt_BR pt_PT", "nl": "nl_NL nl_BE", "sv": "sv_SE", "da": "da_DK", "nb": "no_NO", "fi": "fi_FI", "pl": "pl_PL",
    "cs": "cs_CZ", "tr": "tr_TR", "ru": "ru_RU", "uk": "uk_UA", "el": "el_GR", "ro": "ro_RO", "hu": "hu_HU",
}  # fmt: skip
MOST_PLAIN = {"en": 40000}  # others: 8000
MOST_SLOTTED = {"en": 10000}  # others: 3000
TITLED = {
    "en": r"\b(?:Mr|Mrs|Ms|Miss|Dr|Doctor|Professor|Lady|Lord|Captain|Colonel|Inspector|Uncle|Aunt)\.? "
    r"[A-Z][a-z]+(?: [A-Z][a-z]+)?",
    "fr": r"\b(?:Mme|Mlle|Monsieur|Madame|Mademoiselle|M\.) [A-ZÉ][a-zéèï]+",
    "de": r"\b(?:Herrn?|Frau|Fräulein|Doktor) [A-ZÄÖÜ][a-zäöüß]+",
}
TITLE_MARK = "qzt"  # no word of these languages
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
BAD_SIGNS = re.compile(r"[\d@{}\[\]|<>\ufffd]")
AFTER_SLOT = re.compile(r"\}(?!['’ .,!?;:…\"»”)-]|$)")
# Code that could name a person, a link or a secret.
BAD_CODE = re.compile(
    r"@\w+\.\w|author|Author|copyright|Copyright|Written|Contributed|by [A-Z]|19\d\d|20\d\d|password|secret|https?:"
    r"|\b(Tim|Guido|Fred|Barry|Raymond|John|Bob|Jim|Alice)\b"
)


@dataclass
class Words:
    """What is known about the words of one language."""

    language: str
    first: set[str]
    last: set[str]
    places: set[str]
    harmless: set[str]  # capitalised words that are no names: weekdays, nations
    lower: Counter  # how often a word stands in lower case: then a capital letter means little

    def may_be_name(self, word: str) -> bool:
        return (word in self.first or word in self.last) and not self.lower[word.lower()]

    def is_given_name(self, word: str) -> bool:
        known = word in self.first and word not in word_lists.AMBIGUOUS_NAMES
        return known and len(word) > 2 and not self.lower[word.lower()]

    def is_place(self, word: str) -> bool:
        known = self.language == "en" and word in self.places and len(word) > 3
        return known and word not in self.first and word not in self.last


def read_lines(sources: Path, language: str) -> list[str]:
    lines: dict[str, None] = {}
    for folder in FOLDERS[language].split():
        for path in sorted((sources / "common-voice/server/data" / folder).glob("*.txt")):
            lines.update(dict.fromkeys(line.strip() for line in path.read_text(encoding="utf-8").split("\n")))
    return [line for line in lines if 8 <= len(line) <= 220 and not BAD_SIGNS.search(line)]


def words_of(language: str, lines: list[str], pools: dict) -> Words:
    own = [pools[locale] for locale in LOCALES[language].split()]
    places = {*pools["places"]["city"], *pools["places"]["country"]}
    harmless = word_lists.HARMLESS - places
    if language != "en":
        countries = {word for pool in own for country in pool.get("country", []) for word in country.split()}
        harmless = word_lists.HARMLESS | countries
    lower = Counter(word for line in lines for word in WORD.findall(line) if word[0].islower())
    first, last = ({name for pool in own for name in pool[kind]} for kind in ("first", "last"))
    return Words(language, first, last, places, harmless, lower)


def is_initial(line: str, start: int) -> bool:
    """Whether the word at `start` begins a sentence."""
    before = line[:start].rstrip(" \"'«„“”-–—")
    return not before or before[-1] in ".!?:…"


def sort_words(line: str, words: Words) -> tuple[list[re.Match], list[re.Match], list[re.Match]]:
    """The given names, the places, and the capitalised words that could be another name."""
    names, places, doubtful = [], [], []
    for match in WORD.finditer(line):
        word, initial = match[0], is_initial(line, match.start())
        abbreviation = len(word) > 1 and word.isupper() and not initial
        general = words.language == "en" and word in word_lists.GENERAL_WORDS
        if not word[0].isupper() or word in words.harmless or general or abbreviation:
            continue
        if words.is_given_name(word):
            names.append(match)
        elif words.is_place(word):
            places.append(match)
        elif word in word_lists.OFTEN_NAMES:
            doubtful.append(match)
        elif words.language == "de":  # every noun has a capital letter
            if word in words.first or word in words.last:
                doubtful.append(match)
        elif not initial or words.may_be_name(word):
            doubtful.append(match)
    return names, places, doubtful


def slotted(line: str, words: Words) -> tuple[str, bool] | None:
    """The sentence with slots, and whether it has any. None when a word in it could be another name."""
    if words.language in TITLED:
        line = re.sub(TITLED[words.language], TITLE_MARK, line)
    names, places, doubtful = sort_words(line, words)
    slots = [(match.start(), match.end(), "{C}") for match in places]
    following = {match.start(): match for match in WORD.finditer(line)}
    for match in names:  # a family name directly after the given name belongs to it
        after = following.get(match.end() + 1) if line[match.end() :].startswith(" ") else None
        has_family = after and after[0][0].isupper() and (after[0] in words.last or words.language != "de")
        slots.append((match.start(), after.end() if has_family else match.end(), "{F}" if has_family else "{P}"))
        if has_family:
            doubtful = [other for other in doubtful if other.start() != after.start()]
    most = 1 if words.language == "de" else 2
    if doubtful or len(names) > most:
        return None
    end_before = len(line) + 1
    for start, end, slot in sorted(slots, reverse=True):
        if end > end_before:
            return None  # two given names in a row: the second was taken as the family name
        line, end_before = line[:start] + slot + line[end:], start
    has_slots = bool(slots) or TITLE_MARK in line
    line = line.replace(TITLE_MARK, "{T}")
    return None if AFTER_SLOT.search(line) else (line, has_slots)


def sentences_of(language: str, lines: list[str], pools: dict, draw: random.Random) -> dict[str, list[str]]:
    if language in CJK:
        draw.shuffle(lines)
        return {"plain": lines[:12000], "slotted": []}
    words = words_of(language, lines, pools)
    found = [result for line in lines if (result := slotted(line, words))]
    plain = [line for line, has_slots in found if not has_slots]
    with_slots = [line for line, has_slots in found if has_slots]
    draw.shuffle(plain)
    draw.shuffle(with_slots)
    return {
        "plain": plain[: MOST_PLAIN.get(language, 8000)],
        "slotted": with_slots[: MOST_SLOTTED.get(language, 3000)],
    }


def code_pieces(draw: random.Random) -> list[str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    pieces = []
    for path in sorted([*library.glob("*.py"), *library.glob("[a-z]*/*.py")]):
        if re.search(r"site-packages|/test|lib2to3|dist-packages", str(path)):
            continue
        lines = path.read_text(encoding="utf-8", errors="ignore").split("\n")
        for start in range(0, len(lines), 40):
            first = start + draw.randrange(20)
            piece = "\n".join(lines[first : first + draw.randrange(3, 14)]).strip("\n")
            if 60 < len(piece) < 700 and piece.isascii() and not BAD_CODE.search(piece):
                pieces.append(piece)
    draw.shuffle(pieces)
    return pieces[:1500]


def main(sources: str, inputs: str) -> None:
    pools = read_json_gz(Path(inputs) / POOL_FILE)
    draw = random.Random(7)
    result: dict = {}
    for language in FOLDERS:
        result[language] = sentences_of(language, read_lines(Path(sources), language), pools, draw)
        counts = {kind: len(texts) for kind, texts in result[language].items()}
        print(language, counts, result[language]["slotted"][:2])
    result["code"] = code_pieces(draw)
    write_json_gz(Path(inputs) / SENTENCE_FILE, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
