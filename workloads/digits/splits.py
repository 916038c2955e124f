"""Which images train, validate and test, and which rank takes which image at which step: plain arithmetic."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

VALIDATION_PERCENT = 10
"""Share of the training files that is kept for validation."""
TEST_PERCENT = 20
"""Share of the training files that is kept for the test, where the data set has no test files of its own."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Indices of images. `test` is empty where the data set brings test files."""

    train: tuple[int, ...]
    validation: tuple[int, ...]
    test: tuple[int, ...]


def split(count: int, seed: int, *, has_test_files: bool) -> Split:
    """Splits `count` images by seed.

    The order comes from SHA-256, not from a random generator: it stays the same in every version of Python and torch,
    so a model can be judged years later on the images that it has never seen.
    """
    order = sorted(range(count), key=lambda index: hashlib.sha256(f"{seed}:{index}".encode()).digest())
    test = 0 if has_test_files else count * TEST_PERCENT // 100
    validation = test + count * VALIDATION_PERCENT // 100
    return Split(train=tuple(order[validation:]), validation=tuple(order[test:validation]), test=tuple(order[:test]))


def shard(indices: Sequence[int], rank: int, world: int) -> list[int]:
    """A rank's part of `indices`, for evaluation: each index once over all ranks, parts differ by at most one."""
    return list(indices[rank::world])


def epoch_batches(
    indices: Sequence[int], *, seed: int, epoch: int, rank: int, world: int, batch_size: int
) -> list[list[int]]:
    """A rank's batches of one epoch: shuffled by seed and epoch, the same number and sizes on every rank.

    Where the images do not divide evenly, the first ones of the epoch's order fill up (a few are seen twice), as
    DistributedSampler does: a rank with a step more would wait for the others for ever.
    """
    order = list(indices)
    random.Random(f"{seed}-{epoch}").shuffle(order)  # noqa: S311 (no secret)
    steps = -(-len(order) // world)
    own = [order[position % len(order)] for position in range(rank, steps * world, world)]
    return [own[start : start + batch_size] for start in range(0, len(own), batch_size)]
