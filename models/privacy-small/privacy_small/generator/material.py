"""What the generator draws from: value pools, real sentences, labelled texts, and the languages/ folder.

A part of the names, templates and sentences is held out. split="train" never uses that part; split="held" uses only
it. So scores on documents of "held" say how well a model treats names and wordings that it has not seen.
"""

import gzip
import json
import re
import tomllib
import zlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .template import Part, parse

LANGUAGES = Path(__file__).parent.parent / "languages"
# Scripts without capital letters and, mostly, without spaces between words.
CJK = ("zh", "ja", "ko")
HELD_NAMES = 20  # one name in 20 is held out
HELD_TEXTS = 12  # one template or sentence in 12
POOL_FILE, SENTENCE_FILE, LABELLED_FILE = "pools.json.gz", "sentences.json.gz", "labelled.json.gz"


@dataclass
class Language:
    code: str
    locales: list[str]
    titles: list[str]
    months: list[str]
    graft_before: list[str]
    graft_after: list[str]
    fields: dict[str, list[str]]
    sentences: list[list[Part]]
    negatives: list[list[Part]]
    plain: list[str] = field(default_factory=list)  # real sentences with nothing private
    slotted: list[str] = field(default_factory=list)  # real sentences whose names became {P}, {F}, {T}, {C}
    about_persons: list[tuple[str, list[tuple[int, int]]]] = field(default_factory=list)  # sentence, replaceable words


def read_json_gz(path: Path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def is_held(text: str, one_in: int) -> bool:
    return zlib.crc32(text.encode()) % one_in == 0


class Material:
    def __init__(self, inputs: Path, split: str):
        if split not in ("train", "held"):
            raise ValueError(f"unknown split {split!r}: expected train or held")
        self.held = split == "held"
        self.pools = read_json_gz(inputs / POOL_FILE)
        self.places = self.pools.pop("places")
        self.locales = [name for name in self.pools if name not in ("en_XX", "xx_XX")]
        for pool in self.pools.values():
            self._split_names(pool)
        for extra in ("en_XX", "xx_XX"):  # these two hold names only; the rest is as in the United States
            self.pools[extra] = {**self.pools["en_US"], "name": [], **self.pools[extra]}
        self.words = tomllib.loads((LANGUAGES / "words.toml").read_text(encoding="utf-8"))
        sentences = read_json_gz(inputs / SENTENCE_FILE)
        self.code = self._keep_texts(sentences.pop("code"))
        self.languages = {path.stem: self._language(path, sentences) for path in language_files()}
        self.labelled = self._labelled(inputs / LABELLED_FILE)
        self.labelled_persons = [(text, persons) for text, persons in self.labelled if persons]
        # Sentences that say when: a date may take the place of the word.
        when = re.compile(r"\b(yesterday|today|tomorrow|tonight)\b")
        self.about_time = [(s, m.span()) for s in self.languages["en"].plain if (m := when.search(s))]
        self.us = self.pools["en_US"]

    def _split_names(self, pool: dict[str, list[str]]) -> None:
        for key in ("first", "last"):
            if key in pool:
                pool[key] = [n for n in pool[key] if is_held(n, HELD_NAMES) == self.held] or pool[key]
        if "name" not in pool:
            return
        held_part = [n for n in pool["name"] if any(is_held(w, HELD_NAMES) for w in re.split(r"[\s-]+", n))]
        pool["name"] = held_part if self.held else sorted(set(pool["name"]) - set(held_part))

    def _keep_texts(self, texts: list[str]) -> list[str]:
        return [t for t in texts if is_held(t, HELD_TEXTS) == self.held]

    def _language(self, path: Path, sentences: dict) -> Language:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        kept = {key: [parse(t) for t in self._keep_texts(lines(data[key]))] for key in ("sentences", "negatives")}
        real = sentences.get(path.stem, {"plain": [], "slotted": []})
        language = Language(
            code=path.stem,
            months=data.get("months", []),
            plain=self._keep_texts(real["plain"]),
            slotted=self._keep_texts(real["slotted"]),
            **{k: data[k] for k in ("locales", "titles", "graft_before", "graft_after", "fields")},
            **kept,
        )
        if words := data.get("person_words"):
            find = re.compile("|".join(words))
            found = ((s, [m.span() for m in find.finditer(s)]) for s in language.plain)
            language.about_persons = [(s, places) for s, places in found if places]
        return language

    def _labelled(self, path: Path) -> list[tuple[str, list[tuple[int, int]]]]:
        """Real texts with the places of persons; the parts that are used here never hold test data."""
        return read_json_gz(path)["held" if self.held else "train"]


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


@cache
def language_files() -> list[Path]:
    return sorted(path for path in LANGUAGES.glob("*.toml") if path.stem != "words")
