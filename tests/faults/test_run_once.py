"""However many pods want a run, and whichever of them die or fall asleep where: it is published once, and right."""

import random
import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.rivals import EPOCHS, KINDS, SILENT, STALE_SECONDS, Rivals, stopped, until

AT_ONCE = 6
"""Scenarios: most of their time they wait for a dead holder's silence."""
MANY_COURSES = 300


def each(scenario: Callable[[int], None], numbers: Iterable[int]) -> None:
    """The scenario by each number, some at a time; fails as the first of them that does."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(scenario, numbers))


def operations(folder: Path, kind: str) -> int:
    """How many times an undisturbed pod changes its record."""
    with Rivals(folder / "counted", kind) as rivals:
        assert rivals.ended(rivals.start(FAULT_COUNT=str(folder / "count"))) == 0, rivals.told()
        rivals.check()
        assert rivals.trained() == list(range(1, EPOCHS + 1))
    return int((folder / "count").read_text())


def dies(folder: Path, kind: str, at: int) -> None:
    """A pod dies before its operation `at`; the next one ends the run."""
    with Rivals(folder / f"dies-{at}", kind) as rivals:
        assert rivals.ended(rivals.start(FAULT=f"{signal.SIGKILL} {at}")) == -signal.SIGKILL, rivals.told()
        rivals.finish()
        rivals.check()
        # It dies between epochs, if at all while it trains.
        assert rivals.trained() == list(range(1, EPOCHS + 1))


def sleeps(folder: Path, kind: str, at: int) -> None:
    """A pod falls asleep before its operation `at`, another one ends the run, and then it wakes."""
    with Rivals(folder / f"sleeps-{at}", kind) as rivals:
        first = rivals.start(FAULT=f"{signal.SIGSTOP} {at}")
        until(lambda: stopped(first))
        rivals.finish()
        published = rivals.result()
        rivals.signal(first, signal.SIGCONT)
        rivals.ended(first)
        assert rivals.result() == published
        rivals.check()


def dies_in_epoch(folder: Path, kind: str, epoch: int) -> None:
    """A pod dies while it trains: that epoch is begun again, and no other."""
    with Rivals(folder / f"epoch-{epoch}", kind) as rivals:
        rivals.ended(rivals.start(FAULT_EPOCH=str(epoch)))
        rivals.finish()
        rivals.check()
        assert rivals.trained() == [*range(1, epoch + 1), *range(epoch, EPOCHS + 1)]


def course(folder: Path, kind: str, seed: int, last: int) -> None:
    """Two or three launches, together or one after the other; each dies or sleeps somewhere, is silent, or is well."""
    draw = random.Random(seed)
    with Rivals(folder / f"course-{seed}", kind) as rivals:
        fates = draw.choices(("dies", "dies", "dies in an epoch", "sleeps", "silent", "well"), k=draw.choice((2, 2, 3)))
        asleep, in_turn = [], not {"sleeps", "silent"} & {*fates}
        # Then nobody is to be taken for dead who only waits for a processor.
        rivals.patience = "2" if in_turn else STALE_SECONDS
        for fate in fates:
            if fate == "dies":
                rivals.start(FAULT=f"{signal.SIGKILL} {draw.randint(1, last)}")
            elif fate == "dies in an epoch":
                rivals.start(FAULT_EPOCH=str(draw.randint(1, EPOCHS)))
            elif fate == "sleeps":
                asleep.append(rivals.start(FAULT=f"{signal.SIGSTOP} {draw.randint(1, last)}"))
            else:
                rivals.start(**(SILENT if fate == "silent" else {}))
            time.sleep(draw.choice((0, 0, 0.1, 0.5)))
        for pod in asleep:
            time.sleep(draw.choice((0, 0.3, 1)))
            rivals.signal(pod, signal.SIGCONT)
        for pod in asleep:
            # It may have been woken before it slept.
            until(lambda pod=pod: stopped(pod))  # type: ignore[misc]
            rivals.signal(pod, signal.SIGCONT)
        for pod in list(rivals.pods):
            rivals.ended(pod)
        rivals.finish()
        rivals.check()
        assert set(rivals.trained()) == set(range(1, EPOCHS + 1))
        if in_turn:
            # One works at a time, so only the epoch in which each died is begun again.
            assert len(rivals.trained()) <= EPOCHS + rivals.deaths, rivals.told()


def test_a_pod_that_dies_anywhere_leaves_a_run_that_the_next_one_ends(tmp_path: Path) -> None:
    """Killed before each operation on the record, between the rename that publishes and the seal too."""
    last = operations(tmp_path, "Job")
    assert last > 20
    each(lambda at: dies(tmp_path, "Job", at), range(1, last + 1))
    each(lambda epoch: dies_in_epoch(tmp_path, "Job", epoch), (1, EPOCHS))


def test_a_pod_that_slept_anywhere_publishes_nothing_more(tmp_path: Path) -> None:
    """Stopped before each operation on the record, taken over, woken when the run is finished."""
    last = operations(tmp_path, "Job")
    each(lambda at: sleeps(tmp_path, "Job", at), range(1, last + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_launches_that_meet_publish_once(tmp_path: Path, kind: str) -> None:
    """Of every kind that records, by drawn fates: dead, asleep, without a sign of life, together or in turn."""
    last = operations(tmp_path, kind)
    first = 1000 * list(KINDS).index(kind)
    each(lambda seed: course(tmp_path, kind, seed, last), range(first, first + 2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_at_every_operation(tmp_path: Path, kind: str) -> None:
    """The same for all kinds, and three hundred courses of each."""
    last = operations(tmp_path, kind)
    each(lambda at: dies(tmp_path, kind, at), range(1, last + 1))
    each(lambda at: sleeps(tmp_path, kind, at), range(1, last + 1))
    each(lambda epoch: dies_in_epoch(tmp_path, kind, epoch), range(1, EPOCHS + 1))
    each(lambda seed: course(tmp_path, kind, seed, last), range(MANY_COURSES))
