"""Looks for text of the test sets in what the model is trained on.

    python -m privacy_small.overlap --data DATA --inputs INPUTS [--documents 200000] [--words 6]

Personal data and everything else that is ignored is taken out of the test texts; what stays is cut into sequences of
words. Prints the sequences that also stand in the sentences, the labelled texts, or in generated documents.
"""

import argparse
import re
from pathlib import Path

from .generator.generator import Generator
from .generator.material import LABELLED_FILE, SENTENCE_FILE, read_json_gz
from .sets import Example, load

WORD = re.compile(r"[^\W_]+")
SEED = 424_242


def sequences(text: str, length: int) -> set[tuple[str, ...]]:
    words = [word.lower() for word in WORD.findall(text)]
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def own_words(example: Example) -> list[str]:
    """The pieces of a test text between its spans."""
    edges = sorted([(start, end) for start, end, _ in example.spans] + example.ignored)
    pieces, at = [], 0
    for start, end in edges:
        pieces.append(example.text[at:start])
        at = max(at, end)
    return [*pieces, example.text[at:]]


def training_texts(inputs: Path, documents: int):
    sentences = read_json_gz(inputs / SENTENCE_FILE)
    yield from sentences.pop("code")
    for texts in sentences.values():
        yield from texts["plain"]
        yield from texts["slotted"]
    yield from (text for text, _ in read_json_gz(inputs / LABELLED_FILE)["train"])
    generator = Generator(inputs, "train", SEED)
    for _ in range(documents):
        yield generator.document().text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--words", type=int, default=6)
    options = parser.parse_args()
    wanted: dict[tuple[str, ...], set[str]] = {}
    for name in ("faker", "presidio"):
        for example in load(name, options.inputs, options.data):
            for piece in own_words(example):
                for sequence in sequences(piece, options.words):
                    wanted.setdefault(sequence, set()).add(name)
    found: set[tuple[str, ...]] = set()
    for text in training_texts(options.inputs, options.documents):
        found |= sequences(text, options.words) & wanted.keys()
    print(f"{len(wanted)} sequences of {options.words} words in the test sets, {len(found)} of them in training texts")
    for sequence in sorted(found):
        print(f"  {', '.join(sorted(wanted[sequence]))}: {' '.join(sequence)}")


if __name__ == "__main__":
    main()
