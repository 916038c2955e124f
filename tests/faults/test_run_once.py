"""A run is published once and correctly, however many pods compete for it and wherever they die or are paused."""

import random
import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.rivals import EPOCHS, KINDS, SILENT, STALE_SECONDS, CompetingPods, stopped, until

AT_ONCE = 6
"""The scenarios at a time: they mostly wait until a dead holder's heartbeat is stale."""
MANY_COURSES = 300


def run_all(scenario: Callable[[int], None], numbers: Iterable[int]) -> None:
    """Run the scenario for each number, some at a time, and raise the first failure."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(scenario, numbers))


def operations(folder: Path, kind: str) -> int:
    """Return the number of changes that an undisturbed pod makes to its record."""
    with CompetingPods(folder / "counted", kind) as rivals:
        assert rivals.ended(rivals.start(FAULT_COUNT=str(folder / "count"))) == 0, rivals.logs()
        rivals.check()
        assert rivals.trained() == list(range(1, EPOCHS + 1))
    return int((folder / "count").read_text())


def dies(folder: Path, kind: str, at: int) -> None:
    """Kill a pod before its operation `at`; the next one completes the run."""
    with CompetingPods(folder / f"dies-{at}", kind) as rivals:
        assert rivals.ended(rivals.start(FAULT=f"{signal.SIGKILL} {at}")) == -signal.SIGKILL, rivals.logs()
        rivals.finish()
        rivals.check()
        # It dies between epochs, if at all while it trains.
        assert rivals.trained() == list(range(1, EPOCHS + 1))


def sleeps(folder: Path, kind: str, at: int) -> None:
    """Pause a pod before its operation `at`, complete the run with another one, and resume the first."""
    with CompetingPods(folder / f"sleeps-{at}", kind) as rivals:
        first = rivals.start(FAULT=f"{signal.SIGSTOP} {at}")
        until(lambda: stopped(first))
        rivals.finish()
        published = rivals.result()
        rivals.signal(first, signal.SIGCONT)
        rivals.ended(first)
        assert rivals.result() == published
        rivals.check()


def dies_in_epoch(folder: Path, kind: str, epoch: int) -> None:
    """Kill a pod during an epoch; the next one repeats only this epoch."""
    with CompetingPods(folder / f"epoch-{epoch}", kind) as rivals:
        rivals.ended(rivals.start(FAULT_EPOCH=str(epoch)))
        rivals.finish()
        rivals.check()
        assert rivals.trained() == [*range(1, epoch + 1), *range(epoch, EPOCHS + 1)]


def course(folder: Path, kind: str, seed: int, last: int) -> None:
    """Start two or three launches, together or in turn; each is killed, paused, without heartbeats, or undisturbed."""
    draw = random.Random(seed)
    with CompetingPods(folder / f"course-{seed}", kind) as rivals:
        fates = draw.choices(("dies", "dies", "dies in an epoch", "sleeps", "silent", "well"), k=draw.choice((2, 2, 3)))
        asleep, in_turn = [], not {"sleeps", "silent"} & {*fates}
        # A pod that only waits for a processor must not count as dead then.
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
            assert len(rivals.trained()) <= EPOCHS + rivals.deaths, rivals.logs()


def test_a_pod_that_dies_anywhere_leaves_a_run_that_the_next_one_ends(tmp_path: Path) -> None:
    """The pod is killed before each operation on the record, also between the rename that publishes and the seal."""
    last = operations(tmp_path, "Job")
    assert last > 20
    run_all(lambda at: dies(tmp_path, "Job", at), range(1, last + 1))
    run_all(lambda epoch: dies_in_epoch(tmp_path, "Job", epoch), (1, EPOCHS))


def test_a_pod_that_slept_anywhere_publishes_nothing_more(tmp_path: Path) -> None:
    """The pod is stopped before each operation on the record, and resumes after another pod has completed the run."""
    last = operations(tmp_path, "Job")
    run_all(lambda at: sleeps(tmp_path, "Job", at), range(1, last + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_launches_that_meet_publish_once(tmp_path: Path, kind: str) -> None:
    """This applies to every kind that records. The pods die, are paused or have no heartbeat, together or in turn."""
    last = operations(tmp_path, kind)
    first = 1000 * list(KINDS).index(kind)
    run_all(lambda seed: course(tmp_path, kind, seed, last), range(first, first + 2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_at_every_operation(tmp_path: Path, kind: str) -> None:
    """All kinds, with three hundred courses of each."""
    last = operations(tmp_path, kind)
    run_all(lambda at: dies(tmp_path, kind, at), range(1, last + 1))
    run_all(lambda at: sleeps(tmp_path, kind, at), range(1, last + 1))
    run_all(lambda epoch: dies_in_epoch(tmp_path, kind, epoch), range(1, EPOCHS + 1))
    run_all(lambda seed: course(tmp_path, kind, seed, last), range(MANY_COURSES))
