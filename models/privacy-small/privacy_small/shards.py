"""Training data: documents as rows of tokens with labels, written in shards by as many processes as there are cores.

    python -m privacy_small.shards INPUTS TOKENIZER FOLDER --seed 1 --count 100 [--workers 8]

Shard i depends on the seed and on i alone, not on the number of workers. A row holds several documents; the third array
says which tokens belong together (1, 2, …; 0: padding).
"""

import argparse
import os
from bisect import bisect_right
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from .generator.generator import Document, Generator
from .labels import BEGIN, END, INSIDE, SINGLE, category_of, label_id, tag_of

ROW = 256  # tokens
ROWS = 1024  # of a shard
OPEN_ROWS = 24  # a document goes to the first of these where it fits

_state: dict = {}


def encode(tokenizer: Tokenizer, document: Document) -> tuple[list[int], np.ndarray]:
    """Token ids, and the label of each token."""
    encoding = tokenizer.encode(document.text)
    offsets = encoding.offsets
    labels = np.zeros(len(offsets), np.uint8)
    starts = [start for start, _ in offsets]
    for start, end, category in document.spans:
        first = max(bisect_right(starts, start) - 1, 0)
        while first > 0 and offsets[first - 1][1] > start:  # bytes of one character share their offsets
            first -= 1
        while first < len(offsets) and offsets[first][1] <= start:
            first += 1
        last = first
        while last < len(offsets) and offsets[last][0] < end:
            last += 1
        if last - first == 1:
            labels[first] = label_id(category, SINGLE)
        elif last > first:
            labels[first + 1 : last - 1] = label_id(category, INSIDE)
            labels[first], labels[last - 1] = label_id(category, BEGIN), label_id(category, END)
    return encoding.ids, labels


def mend_cut(labels: np.ndarray) -> np.ndarray:
    """The labels of a piece of a document, with legal tags at its ends again."""
    first, last = int(labels[0]), int(labels[-1])
    mended = labels.copy()
    if tag_of(first) == INSIDE:
        continues = len(labels) > 1 and tag_of(int(labels[1])) in (INSIDE, END)
        mended[0] = first - INSIDE + (BEGIN if continues else SINGLE)
    elif tag_of(first) == END:
        mended[0] = first - END + SINGLE
    if len(labels) == 1 and tag_of(first) is not None:
        mended[0] = label_id(category_of(first), SINGLE)
    elif tag_of(last) == BEGIN:
        mended[-1] = last - BEGIN + SINGLE
    elif tag_of(last) == INSIDE:
        mended[-1] = last - INSIDE + END
    return mended


class Packer:
    """Fills rows with pieces of at most ROW tokens."""

    def __init__(self):
        self.ids = np.zeros((ROWS, ROW), np.int16)
        self.labels = np.zeros((ROWS, ROW), np.uint8)
        self.documents = np.zeros((ROWS, ROW), np.uint8)
        self.filled = [0] * ROWS
        self.pieces = [0] * ROWS
        self.oldest = 0  # rows before this one are closed

    @property
    def full(self) -> bool:
        return self.oldest + OPEN_ROWS >= ROWS

    def add(self, ids: list[int], labels: np.ndarray) -> None:
        size = len(ids)
        open_rows = range(self.oldest, self.oldest + OPEN_ROWS)
        row = next((row for row in open_rows if self.filled[row] + size <= ROW), None)
        if row is None:
            self.oldest += 1
            row = self.oldest + OPEN_ROWS - 1
            if row >= ROWS:
                return
        place = slice(self.filled[row], self.filled[row] + size)
        self.pieces[row] += 1
        self.ids[row, place], self.labels[row, place], self.documents[row, place] = ids, labels, self.pieces[row]
        self.filled[row] += size


def write_shard(index: int) -> None:
    generator, tokenizer, folder, seed = (_state[key] for key in ("generator", "tokenizer", "folder", "seed"))
    generator.reseed(seed * 1_000_003 + index)
    packer = Packer()
    while not packer.full:
        ids, labels = encode(tokenizer, generator.document())
        for start in range(0, len(ids), ROW):
            packer.add(ids[start : start + ROW], mend_cut(labels[start : start + ROW]))
    unfinished = folder / f"{index}.part.npz"
    np.savez(unfinished, ids=packer.ids, labels=packer.labels, documents=packer.documents)
    unfinished.rename(shard_path(folder, index))


def shard_path(folder: Path, index: int) -> Path:
    return folder / f"{index}.npz"


def _start_worker(inputs: Path, tokenizer: Path, folder: Path, seed: int) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _state.update(
        generator=Generator(inputs, "train", seed),
        tokenizer=Tokenizer.from_file(str(tokenizer)),
        folder=folder,
        seed=seed,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("inputs", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    setup = (options.inputs, options.tokenizer, options.folder, options.seed)
    with Pool(options.workers, _start_worker, setup) as pool:
        for _ in pool.imap(write_shard, range(options.count), chunksize=1):
            pass


if __name__ == "__main__":
    main()
