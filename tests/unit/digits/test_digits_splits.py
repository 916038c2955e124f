"""The split of the images."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.digits.splits import epoch_batches, shard, split


def test_the_split_of_a_seed_never_changes() -> None:
    """The values are fixed: another order would test old models on their training data."""
    parts = split(10, 1, has_test_files=False)
    assert (parts.test, parts.validation, parts.train) == ((7, 4), (8,), (6, 5, 2, 3, 0, 9, 1))


@given(st.integers(0, 500), st.integers(), st.booleans())
def test_every_image_is_in_one_part(count: int, seed: int, has_test_files: bool) -> None:
    """A tenth validates; a fifth tests if there are no test files."""
    parts = split(count, seed, has_test_files=has_test_files)
    assert sorted(parts.train + parts.validation + parts.test) == list(range(count))
    assert abs(len(parts.validation) - count * 0.1) < 1
    assert len(parts.test) == (0 if has_test_files else count // 5)


def test_seeds_split_differently() -> None:
    """A second seed would otherwise not show the luck of the first one."""
    assert split(100, 1, has_test_files=False) != split(100, 2, has_test_files=False)


@given(st.integers(1, 200), st.integers(1, 7), st.integers(1, 20), st.integers(0, 5))
def test_ranks_take_equal_steps_and_miss_nothing(count: int, world: int, batch_size: int, epoch: int) -> None:
    """Every rank has equally many batches of equal sizes; together they have all images, repeated only for the rest."""
    ranks = [
        epoch_batches(range(count), seed=1, epoch=epoch, rank=rank, world=world, batch_size=batch_size)
        for rank in range(world)
    ]
    assert len({tuple(len(batch) for batch in batches) for batches in ranks}) == 1
    indices_taken = [index for batches in ranks for batch in batches for index in batch]
    if count >= world:
        assert set(indices_taken) == set(range(count))
        assert len(indices_taken) - count == -count % world


def test_fewer_images_than_ranks_are_no_reason_to_stop() -> None:
    """Each rank has as many steps as the others."""
    ranks = [epoch_batches([4], seed=1, epoch=0, rank=rank, world=3, batch_size=2) for rank in range(3)]
    assert ranks == [[[4]]] * 3


def test_epochs_have_different_orders_and_runs_the_same() -> None:
    """Seed and epoch alone determine the order."""
    first, second, repeated = (
        epoch_batches(range(50), seed=1, epoch=epoch, rank=0, world=1, batch_size=50) for epoch in (0, 1, 0)
    )
    assert first == repeated != second


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_evaluation_counts_each_image_once(world: int) -> None:
    """The accuracy over more ranks is that over one."""
    indices = list(range(3, 14))
    sharded = [index for rank in range(world) for index in shard(indices, rank, world)]
    assert sorted(sharded) == indices
