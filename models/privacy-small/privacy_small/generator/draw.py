"""The source of chance: everything that the generator draws comes from one Draw, so a seed gives one document."""

import bisect
import itertools
import random
import string
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

DIGITS = "0123456789"
HEX = "0123456789abcdef"
ALPHANUMERIC = string.ascii_letters + string.digits


class Draw:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.uniform = self.random.random

    def choice(self, items: Sequence[T]) -> T:
        return items[int(self.uniform() * len(items))]

    def chance(self, probability: float) -> bool:
        return self.uniform() < probability

    def number(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        return self.random.sample(items, count)

    def text(self, alphabet: str, length: int) -> str:
        uniform, size = self.uniform, len(alphabet)
        return "".join([alphabet[int(uniform() * size)] for _ in range(length)])

    def digits(self, length: int) -> str:
        return self.text(DIGITS, length)

    def pattern(self, pattern: str) -> str:
        """'#' becomes a digit, '?' a capital letter; the rest stays."""
        out = []
        for character in pattern:
            if character == "#":
                character = DIGITS[int(self.uniform() * 10)]
            elif character == "?":
                character = string.ascii_uppercase[int(self.uniform() * 26)]
            out.append(character)
        return "".join(out)


class Weighted:
    """A choice with weights: Weighted({"full": 60, "first": 40}).pick(draw)."""

    def __init__(self, weights: dict[T, float]):
        self.items = list(weights)
        self.sums = list(itertools.accumulate(weights.values()))

    def pick(self, draw: Draw) -> T:
        return self.items[bisect.bisect_right(self.sums, draw.uniform() * self.sums[-1])]
