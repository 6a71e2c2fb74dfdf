"""Prints a few documents: python -m privacy_small.generator INPUTS [SPLIT [SEED [COUNT]]]"""

import sys
import time
from collections import Counter
from pathlib import Path

from .generator import Generator


def main(inputs: str, split: str = "train", seed: str = "0", count: str = "25") -> None:
    generator = Generator(Path(inputs), split, int(seed))
    for _ in range(int(count)):
        document = generator.document()
        found = [(document.text[start:end], label) for start, end, label in document.spans]
        print(f"--- {document.language} {document.kind}\n{document.text}\n    {found}")
    labels, characters, total, started = Counter(), 0, 2000, time.time()
    for _ in range(total):
        document = generator.document()
        characters += len(document.text)
        labels.update(label for _, _, label in document.spans)
    speed = total / (time.time() - started)
    print(f"{dict(labels)}, {characters / total:.0f} characters a document, {speed:.0f} documents a second")


if __name__ == "__main__":
    main(*sys.argv[1:])
