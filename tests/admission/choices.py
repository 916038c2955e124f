"""The choices from which drawn cases are built.

Hypothesis draws them for a few cases, and shrinks them. For thousands of cases it is too slow: a random number
generator draws them instead, and `shrink` minimizes a case.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
BATCH = 100
"""Smaller choices that are tried at once."""
_below = lru_cache(st.integers)


class Choices:
    """Choices by an index below a given number; 0 is the simplest."""

    def __init__(self, index: Callable[[int], int]) -> None:
        self._index = index
        self.taken: list[int] = []

    @classmethod
    def of_hypothesis(cls, draw: Callable[[st.SearchStrategy[int]], int]) -> "Choices":
        return cls(lambda below: draw(_below(0, below - 1)))

    @classmethod
    def of_seed(cls, seed: int, index: int) -> "Choices":
        """Return the choices of one case of a seed."""
        return cls(Random(f"{seed}/{index}").randrange)

    @classmethod
    def replay(cls, taken: Sequence[int]) -> "Choices":
        """Return the choices of a list; choices beyond its end are 0."""
        rest = iter(taken)
        return cls(lambda below: next(rest, 0) % below)

    def below(self, number: int) -> int:
        chosen = self._index(number)
        self.taken.append(chosen)
        return chosen

    def number(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def flip(self) -> bool:
        return self.below(2) == 1

    def one_in(self, many: int) -> bool:
        """Return True in one of `many` cases, but not at the ends of the range, which Hypothesis draws more often."""
        return self.below(many) == many // 2

    def sample(self, items: Sequence[T], least: int = 0) -> list[T]:
        """Return a selection in random order."""
        remaining = list(items)
        return [
            remaining.pop(self.below(len(remaining)))
            for _ in range(self.number(least, len(remaining)) if remaining else 0)
        ]


def shrink(taken: Sequence[int], fails: Callable[[Sequence[Sequence[int]]], Sequence[bool]], rounds: int) -> list[int]:
    """Return the fewest and smallest choices that still fail, within a number of calls of `fails`.

    `fails` checks many lists of choices at once.
    """
    best, steps = list(taken), _smaller(taken)
    for _ in range(rounds):
        batch = list(itertools.islice(steps, BATCH))
        failing = [step for step, found in zip(batch, fails(batch), strict=True) if found]
        if failing:
            best = min(failing, key=lambda step: (len(step), step))
            steps = _smaller(best)
        elif not batch:
            break
    return best


def _smaller(taken: Sequence[int]) -> Iterator[list[int]]:
    for size in (64, 32, 16, 8, 4, 2, 1):
        for start in range(0, len(taken) - size + 1, max(1, size // 2)):
            yield [*taken[:start], *taken[start + size :]]
    for index, number in enumerate(taken):
        for smaller in sorted({0, number // 2, number - 1} & set(range(number))):
            yield [*taken[:index], smaller, *taken[index + 1 :]]
