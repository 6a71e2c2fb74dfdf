"""Scores systems on evaluation sets.

    python -m privacy_small.score --sets faker,presidio --data DATA [--inputs INPUTS] [--json FILE] SYSTEM...

SYSTEM: rules, or the folder of a checkpoint, or FOLDER:int8 (weights as int8, one scale per output channel).
exact: same category and same characters, after spaces, punctuation at the edges, a leading title and a possessive 's
are taken off. overlap: same category, and at least half of the characters of both together are common. left in:
the share of personal characters that no span covers, whatever its category.
"""

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from .checkpoint import as_int8, read_checkpoint
from .decode import snap, spans_of_labels, viterbi
from .forward import Network
from .labels import ADDRESS, CATEGORIES, PERSON, PHONE, SECRET, Span
from .rules import Rules
from .sets import PERSONS_ONLY, Example, load

System = Callable[[str], list[Span]]

TITLE = re.compile(
    r"^(?:(?:mr|mrs|ms|miss|dr|prof|professor|sir|herr|frau|hr|fr|mme|mlle|m|monsieur|madame|sr|sra|srta|don|doña|dott"
    r"|dott\.ssa|dottor|sig|sig\.ra|signor|signora|dhr|mevr|pan|pani|dipl\.-ing|ing|mag|univ\.prof|med|dra|bay|bayan|ing"
    r"|mgr|κ|κα|г-н|г-жа|тов|и\.о)\b\.?\s*)+(?=\S)",
    re.I,
)
EDGE = " \t\r\n.,;:!?\"'“”«»„()[]<>|*"


def trim(text: str, span: Span) -> Span:
    """The span without what may or may not belong to it."""
    start, end, category = span
    if category != SECRET:
        while start < end and text[start] in EDGE and not (category == PHONE and text[start] == "("):
            start += 1
        while end > start and text[end - 1] in EDGE and not (category == ADDRESS and text[end - 1] == ")"):
            end -= 1
    if category == PERSON:
        title = TITLE.match(text[start:end])
        if title and title.end() < end - start:
            start += title.end()
        if text[start:end].endswith(("'s", "’s")):
            end -= 2
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end, category


def overlaps_half(a: Span, b: Span) -> bool:
    common = min(a[1], b[1]) - max(a[0], b[0])
    return a[2] == b[2] and common > 0 and 2 * common >= max(a[1], b[1]) - min(a[0], b[0])


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@dataclass
class Count:
    wanted: int = 0
    found: int = 0
    exact: int = 0
    wanted_overlapped: int = 0
    found_overlapped: int = 0

    def scores(self) -> dict[str, float]:
        precision, recall = ratio(self.found_overlapped, self.found), ratio(self.wanted_overlapped, self.wanted)
        return {
            "wanted": self.wanted,
            "found": self.found,
            "precision": ratio(self.exact, self.found),
            "recall": ratio(self.exact, self.wanted),
            "f1": ratio(2 * self.exact, self.wanted + self.found),
            "overlap_f1": ratio(2 * precision * recall, precision + recall),
        }


def score(examples: list[Example], predictions: list[list[Span]], persons_only: bool = False) -> dict:
    counts = {category: Count() for category in [*CATEGORIES, "all"]}
    personal = left_in = clean = clean_hit = 0
    for example, predicted in zip(examples, predictions, strict=True):
        wanted = [trim(example.text, span) for span in example.spans]
        found = [span for span in (trim(example.text, span) for span in predicted) if span[1] > span[0]]
        found = [span for span in found if span in wanted or not _is_ignored(span, wanted, example.ignored)]
        if persons_only:
            found = [span for span in found if span[2] == PERSON]
        _count(counts, wanted, found)
        covered = {i for start, end, _ in found for i in range(start, end)}
        private = {i for start, end, _ in wanted for i in range(start, end)}
        covered |= private & {i for start, end in example.ignored for i in range(start, end)}
        personal += len(private)
        left_in += len(private - covered)
        if not wanted:
            clean += 1
            clean_hit += bool(found)
    return {
        "all": counts["all"].scores(),
        "labels": {c: counts[c].scores() for c in CATEGORIES if counts[c].wanted or counts[c].found},
        "left_in": ratio(left_in, personal),
        "clean_texts": clean,
        "clean_texts_hit": ratio(clean_hit, clean),
    }


def _is_ignored(span: Span, wanted: list[Span], ignored: list[tuple[int, int]]) -> bool:
    touches = any(start < span[1] and span[0] < end for start, end in ignored)
    return touches and not any(start < span[1] and span[0] < end for start, end, _ in wanted)


def _count(counts: dict[str, Count], wanted: list[Span], found: list[Span]) -> None:
    for span in wanted:
        for count in (counts[span[2]], counts["all"]):
            count.wanted += 1
            count.wanted_overlapped += any(overlaps_half(span, other) for other in found)
    for span in found:
        for count in (counts[span[2]], counts["all"]):
            count.found += 1
            count.exact += span in wanted
            count.found_overlapped += any(overlaps_half(span, other) for other in wanted)


class Model:
    """A checkpoint as a system."""

    def __init__(self, folder: Path, int8: bool = False):
        config, weights = read_checkpoint(folder)
        self.network = Network(config, as_int8(weights) if int8 else weights)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def __call__(self, text: str) -> list[Span]:
        encoding = self.tokenizer.encode(text)
        if not encoding.ids:
            return []
        labels = viterbi(self.network.log_probabilities(encoding.ids).astype(np.float64))
        return snap(text, spans_of_labels(text, encoding.offsets, labels))


def make_system(name: str, inputs: Path) -> System:
    if name == "rules":
        return Rules(inputs)
    folder, _, form = name.partition(":")
    if form not in ("", "int8"):
        raise ValueError(f"{name}: unknown form {form!r}, expected int8")
    return Model(Path(folder), int8=form == "int8")


def show(set_name: str, system: str, result: dict) -> None:
    total = result["all"]
    print(
        f"{set_name} | {system} | exact F1 {total['f1']:.3f} (precision {total['precision']:.3f}, recall "
        f"{total['recall']:.3f}), overlap F1 {total['overlap_f1']:.3f}, left in {result['left_in']:.1%}, "
        f"clean texts with a hit {result['clean_texts_hit']:.1%} of {result['clean_texts']}"
    )
    labels = result["labels"].items()
    print("    " + ", ".join(f"{name} {s['f1']:.3f} ({s['overlap_f1']:.3f}, n {s['wanted']})" for name, s in labels))


def show_groups(examples: list[Example], predictions: list[list[Span]]) -> None:
    """Scores by kind of document and by language."""
    for attribute in ("kind", "language"):
        parts = []
        for value in sorted({getattr(example, attribute) for example in examples}):
            rows = [i for i, example in enumerate(examples) if getattr(example, attribute) == value]
            result = score([examples[i] for i in rows], [predictions[i] for i in rows])
            parts.append(f"{value} {result['all']['f1']:.3f}")
        print("    " + ", ".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("systems", nargs="+", metavar="SYSTEM")
    parser.add_argument("--sets", default="faker,presidio")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the faker and presidio sets")
    parser.add_argument("--inputs", type=Path, default=Path("inputs"), help="folder of the recipe's inputs")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    options = parser.parse_args()
    results: dict = {}
    for set_name in options.sets.split(","):
        examples = load(set_name, options.inputs, options.data)
        for name in options.systems:
            system = make_system(name, options.inputs)
            predictions = [system(example.text) for example in examples]
            result = score(examples, predictions, persons_only=set_name in PERSONS_ONLY)
            show(set_name, name, result)
            if set_name == "held":
                show_groups(examples, predictions)
            results.setdefault(set_name, {})[name] = result
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
