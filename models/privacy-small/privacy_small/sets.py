"""The evaluation sets: texts with the personal data that a system should find.

faker, presidio    the shared sets in DATA (faker_privacy_filter_labels.json, presidio_synth_v2_half.json)
held               generated documents with held-out names and templates
real               real texts, persons only, kept for comparing models (WNUT-17 dev, a part of the Broad Twitter Corpus)
wnut, tweets, ewt  real texts, persons only, used for nothing but these scores
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from .generator.generator import Generator
from .generator.material import LABELLED_FILE, read_json_gz
from .labels import ACCOUNT, ADDRESS, DATE, EMAIL, PERSON, PHONE, URL, Span

PERSONS_ONLY = {"real": "held", "wnut": "test_wnut", "tweets": "test_tweets", "ewt": "test_ewt"}
HELD_DOCUMENTS, HELD_SEED = 2000, 777_002
PRESIDIO_LABELS = {
    "PERSON": PERSON,
    "CREDIT_CARD": ACCOUNT,
    "US_SSN": ACCOUNT,
    "IBAN_CODE": ACCOUNT,
    "US_DRIVER_LICENSE": ACCOUNT,
    "PHONE_NUMBER": PHONE,
    "EMAIL_ADDRESS": EMAIL,
    "DOMAIN_NAME": URL,
    "DATE_TIME": DATE,
}
PRESIDIO_ADDRESS = ("STREET_ADDRESS", "GPE", "ZIP_CODE")
BETWEEN_ADDRESS_PARTS = re.compile(r"[\s,>]*(?:[A-Z]{2}|nan)?[\s,>]*")
YEAR_OR_WEEKDAY = re.compile(r"\d{4}|[A-Za-z]+")


@dataclass
class Example:
    text: str
    spans: list[Span]
    ignored: list[tuple[int, int]] = field(default_factory=list)  # neither right nor wrong
    language: str = "en"
    kind: str = ""


def faker_set(path: Path) -> list[Example]:
    examples = json.loads(path.read_text(encoding="utf-8"))
    return [Example(e["text"], [(s["start"], s["end"], s["label"]) for s in e["spans"]]) for e in examples]


def presidio_set(path: Path) -> list[Example]:
    """Street, place and postcode with only spaces and commas between them are one private_address.

    A place or postcode alone, a year, a weekday and an IP address are ignored: our labels have no place for them.
    """
    return [_presidio_example(e["text"], e["spans"]) for e in json.loads(path.read_text(encoding="utf-8"))]


def _presidio_example(text: str, spans: list[dict]) -> Example:
    example, chain = Example(text, []), []

    def close_chain() -> None:
        if any(part["label"] == "STREET_ADDRESS" for part in chain):
            example.spans.append((chain[0]["start"], chain[-1]["end"], ADDRESS))
        else:
            example.ignored.extend((part["start"], part["end"]) for part in chain)
        chain.clear()

    for span in sorted(spans, key=lambda span: span["start"]):
        start, end = span["start"], span["end"]
        if span["label"] in PRESIDIO_ADDRESS:
            if chain and not BETWEEN_ADDRESS_PARTS.fullmatch(text[chain[-1]["end"] : start]):
                close_chain()
            chain.append(span)
            continue
        close_chain()
        category = PRESIDIO_LABELS.get(span["label"])
        if span["label"] == "IP_ADDRESS" or (category == DATE and YEAR_OR_WEEKDAY.fullmatch(text[start:end])):
            example.ignored.append((start, end))
        elif category:
            example.spans.append((start, end, category))
    close_chain()
    return example


def held_set(inputs: Path) -> list[Example]:
    generator = Generator(inputs, "held", HELD_SEED)
    documents = (generator.document() for _ in range(HELD_DOCUMENTS))
    # Real texts are a set of their own.
    return [Example(d.text, d.spans, [], d.language, d.kind) for d in documents if d.kind != "labelled"]


def persons_set(inputs: Path, part: str) -> list[Example]:
    texts = read_json_gz(inputs / LABELLED_FILE)[part]
    return [Example(text, [(start, end, PERSON) for start, end in persons]) for text, persons in texts]


def load(name: str, inputs: Path, data: Path) -> list[Example]:
    if name == "faker":
        return faker_set(data / "faker_privacy_filter_labels.json")
    if name == "presidio":
        return presidio_set(data / "presidio_synth_v2_half.json")
    if name == "held":
        return held_set(inputs)
    if name in PERSONS_ONLY:
        return persons_set(inputs, PERSONS_ONLY[name])
    raise ValueError(f"unknown set {name!r}: expected faker, presidio, held, real, wnut, tweets or ewt")
