"""Writes labelled documents without end; the same seed gives the same documents.

generator = Generator(Path("inputs"), split="train", seed=1)
document = generator.document()
document.text, document.spans        # spans: (start, end, category) in characters
"""

import unicodedata
from dataclasses import dataclass
from pathlib import Path

from ..labels import EMAIL, SECRET, URL, Segment, Span
from .draw import Draw, Weighted
from .letters import Letters
from .material import Material
from .people import without_accents
from .records import Records
from .sentences import Sentences
from .slots import Slots
from .technical import Technical

KINDS = Weighted(
    {
        "prose": 37,
        "negatives": 9,
        "message": 5,
        "mail": 5,
        "form": 7.5,
        "records": 5.5,
        "log": 3,
        "config": 5.5,
        "chat": 4,
        "listing": 5.5,
        "signature": 3.5,
        "code": 3,
        "labelled": 8,
    }
)
ENGLISH_SHARE = 0.58


@dataclass
class Document:
    text: str
    spans: list[Span]
    language: str
    kind: str


class Generator:
    def __init__(self, inputs: Path, split: str, seed: int):
        self.material = Material(inputs, split)
        self.reseed(seed)
        self.other_languages = [
            code for code, language in self.material.languages.items() if code != "en" and language.sentences
        ]

    def reseed(self, seed: int) -> None:
        """Starts again with another seed; cheaper than a new generator."""
        draw = Draw(seed)
        slots = Slots(draw, self.material)
        sentences = Sentences(draw, self.material, slots)
        self.draw = draw
        letters = Letters(draw, self.material, slots, sentences)
        records = Records(draw, self.material, slots)
        technical = Technical(draw, self.material, slots, sentences)
        makers = [
            letters.prose, letters.negatives, letters.message, letters.mail, letters.chat, letters.signature,
            letters.labelled, records.form, records.records, records.listing, technical.log, technical.config,
            technical.code,
        ]  # fmt: skip
        self.makers = {maker.__name__: maker for maker in makers}

    def document(self) -> Document:
        """A document that is not empty."""
        while True:
            kind = KINDS.pick(self.draw)
            english = kind == "labelled" or self.draw.chance(ENGLISH_SHARE)
            language = "en" if english else self.draw.choice(self.other_languages)
            document = assemble(self._noisy(self.makers[kind](language)), language, kind)
            if document.text:
                return document

    def _noisy(self, segments: list[Segment]) -> list[Segment]:
        """Case, accents, typing errors, spaces, quotes: in one document of five."""
        kind = self.draw.uniform()
        if kind < 0.05:
            return [(text if label == SECRET else text.lower(), label) for text, label in segments]
        if kind < 0.075:
            fixed = (SECRET, EMAIL, URL)
            return [(text if label in fixed else text.upper(), label) for text, label in segments]
        if kind < 0.12:
            return [(text if label else self._with_gaps(text), label) for text, label in segments]
        if kind < 0.15:
            return [(without_accents(text), label) for text, label in segments]
        if kind < 0.17:
            return [(text if label else text.replace(" ", "  "), label) for text, label in segments]
        if kind < 0.19:
            return [(unicodedata.normalize("NFD", text), label) for text, label in segments]
        if kind < 0.21:
            quote = self.draw.choice("“”«")
            return [(text if label else text.replace("'", "’").replace('"', quote), label) for text, label in segments]
        if kind < 0.22:
            return [(text if label else misread(text), label) for text, label in segments]
        return segments

    def _with_gaps(self, text: str) -> str:
        return "".join(c for c in text if not self.draw.chance(0.02))


def misread(text: str) -> str:
    """Signs of UTF-8 that a program read as Windows-1252."""
    return text.replace("'", "â€™").replace(" - ", " â€“ ").replace('"', "â€œ")


def assemble(segments: list[Segment], language: str, kind: str) -> Document:
    """Text and spans; spaces at the edges of spans and of the document are left out."""
    spans: list[Span] = []
    at = 0
    for text, label in segments:
        if label and (core := text.strip()):
            start = at + len(text) - len(text.lstrip())
            spans.append((start, start + len(core), label))
        at += len(text)
    text = "".join(part for part, _ in segments)
    cut = len(text) - len(text.lstrip())
    return Document(text.strip(), [(start - cut, end - cut, label) for start, end, label in spans], language, kind)
