"""The split into training, validation and test, and the batches of each rank. Pure functions."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

VALIDATION_PERCENT = 10
"""The share of the training files for validation."""
TEST_PERCENT = 20
"""The share of the training files for the test, if the data set has no test files."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Indices of images. `test` is empty if the data set has test files."""

    train: tuple[int, ...]
    validation: tuple[int, ...]
    test: tuple[int, ...]


def split(count: int, seed: int, *, has_test_files: bool) -> Split:
    """Split `count` images by seed.

    The order is that of SHA-256 digests. Unlike that of a random generator, it is the same in every version of Python
    and torch, so a model can be evaluated on its test images years later.
    """
    order = sorted(range(count), key=lambda index: hashlib.sha256(f"{seed}:{index}".encode()).digest())
    test = 0 if has_test_files else count * TEST_PERCENT // 100
    validation = test + count * VALIDATION_PERCENT // 100
    return Split(train=tuple(order[validation:]), validation=tuple(order[test:validation]), test=tuple(order[:test]))


def shard(indices: Sequence[int], rank: int, world: int) -> list[int]:
    """Return a rank's share of `indices`: each index is in one share, and the sizes differ by at most one."""
    return list(indices[rank::world])


def epoch_batches(
    indices: Sequence[int], *, seed: int, epoch: int, rank: int, world: int, batch_size: int
) -> list[list[int]]:
    """Return a rank's batches of one epoch, shuffled by seed and epoch. All ranks have equally many, of equal sizes.

    If the number of images is not divisible, the first images of the epoch are used twice, as DistributedSampler does:
    a rank with an additional step would wait for the other ranks forever.
    """
    order = list(indices)
    random.Random(f"{seed}-{epoch}").shuffle(order)  # noqa: S311 (no secret)
    steps = -(-len(order) // world)
    own = [order[position % len(order)] for position in range(rank, steps * world, world)]
    return [own[start : start + batch_size] for start in range(0, len(own), batch_size)]
