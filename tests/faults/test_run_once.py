"""A run is published once and correctly, however many pods compete for it and wherever they die or are paused."""

import random
import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.competing_pods import EPOCHS, KINDS, NO_HEARTBEATS, STALE_SECONDS, CompetingPods, is_stopped, wait_for

AT_ONCE = 6
"""The scenarios at a time: they mostly wait until a dead holder's heartbeat is stale."""
MANY_COURSES = 300


def run_all(scenario: Callable[[int], None], numbers: Iterable[int]) -> None:
    """Run the scenario for each number, some at a time, and raise the first failure."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(scenario, numbers))


def count_operations(folder: Path, kind: str) -> int:
    """Return the number of changes that an undisturbed pod makes to its record."""
    with CompetingPods(folder / "counted", kind) as competitors:
        assert competitors.await_exit(competitors.start(FAULT_COUNT=str(folder / "count"))) == 0, competitors.logs()
        competitors.assert_published_once()
        assert competitors.started_epochs() == list(range(1, EPOCHS + 1))
    return int((folder / "count").read_text())


def kill_before_operation(folder: Path, kind: str, at: int) -> None:
    """Kill a pod before its operation `at`; the next one completes the run."""
    with CompetingPods(folder / f"dies-{at}", kind) as competitors:
        assert competitors.await_exit(competitors.start(FAULT=f"{signal.SIGKILL} {at}")) == -signal.SIGKILL, (
            competitors.logs()
        )
        competitors.assert_next_pod_completes()
        competitors.assert_published_once()
        # It dies between epochs, if at all while it trains.
        assert competitors.started_epochs() == list(range(1, EPOCHS + 1))


def pause_before_operation(folder: Path, kind: str, at: int) -> None:
    """Pause a pod before its operation `at`, complete the run with another one, and resume the first."""
    with CompetingPods(folder / f"sleeps-{at}", kind) as competitors:
        first = competitors.start(FAULT=f"{signal.SIGSTOP} {at}")
        wait_for(lambda: is_stopped(first))
        competitors.assert_next_pod_completes()
        published = competitors.result()
        competitors.signal(first, signal.SIGCONT)
        competitors.await_exit(first)
        assert competitors.result() == published
        competitors.assert_published_once()


def kill_in_epoch(folder: Path, kind: str, epoch: int) -> None:
    """Kill a pod during an epoch; the next one repeats only this epoch."""
    with CompetingPods(folder / f"epoch-{epoch}", kind) as competitors:
        competitors.await_exit(competitors.start(FAULT_EPOCH=str(epoch)))
        competitors.assert_next_pod_completes()
        competitors.assert_published_once()
        assert competitors.started_epochs() == [*range(1, epoch + 1), *range(epoch, EPOCHS + 1)]


def run_random_course(folder: Path, kind: str, seed: int, last: int) -> None:
    """Start two or three launches, together or in turn; each is killed, paused, without heartbeats, or undisturbed.

    Their commands may leave links in their output, or a process that goes on to write there.
    """
    draw = random.Random(seed)
    leaves = {"LEAVES": draw.choice(("", "links", "a process", "links, a process"))}
    with CompetingPods(folder / f"course-{seed}", kind) as competitors:
        faults = draw.choices(
            ("dies", "dies", "dies in an epoch", "sleeps", "silent", "well"), k=draw.choice((2, 2, 3))
        )
        paused, sequential = [], not {"sleeps", "silent"} & {*faults}
        # A pod that only waits for a processor must not count as dead then.
        competitors.stale_seconds = "2" if sequential else STALE_SECONDS
        for fault in faults:
            if fault == "dies":
                competitors.start(**leaves, FAULT=f"{signal.SIGKILL} {draw.randint(1, last)}")
            elif fault == "dies in an epoch":
                competitors.start(**leaves, FAULT_EPOCH=str(draw.randint(1, EPOCHS)))
            elif fault == "sleeps":
                paused.append(competitors.start(**leaves, FAULT=f"{signal.SIGSTOP} {draw.randint(1, last)}"))
            else:
                competitors.start(**leaves, **(NO_HEARTBEATS if fault == "silent" else {}))
            time.sleep(draw.choice((0, 0, 0.1, 0.5)))
        for pod in paused:
            time.sleep(draw.choice((0, 0.3, 1)))
            competitors.signal(pod, signal.SIGCONT)
        for pod in paused:
            # It may have been woken before it slept.
            wait_for(lambda pod=pod: is_stopped(pod))  # type: ignore[misc]
            competitors.signal(pod, signal.SIGCONT)
        for pod in list(competitors.pods):
            competitors.await_exit(pod)
        competitors.assert_next_pod_completes()
        competitors.assert_published_once()
        assert set(competitors.started_epochs()) == set(range(1, EPOCHS + 1))
        if sequential:
            # One works at a time, so only the epoch in which each died is begun again.
            assert len(competitors.started_epochs()) <= EPOCHS + competitors.deaths, competitors.logs()


def test_a_pod_that_dies_anywhere_leaves_a_run_that_the_next_one_ends(tmp_path: Path) -> None:
    """The pod is killed before each operation on the record, also between the rename that publishes and the seal."""
    last = count_operations(tmp_path, "Job")
    assert last > 20
    run_all(lambda at: kill_before_operation(tmp_path, "Job", at), range(1, last + 1))
    run_all(lambda epoch: kill_in_epoch(tmp_path, "Job", epoch), (1, EPOCHS))


def test_a_pod_that_slept_anywhere_publishes_nothing_more(tmp_path: Path) -> None:
    """The pod is stopped before each operation on the record, and resumes after another pod has completed the run."""
    last = count_operations(tmp_path, "Job")
    run_all(lambda at: pause_before_operation(tmp_path, "Job", at), range(1, last + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_launches_that_meet_publish_once(tmp_path: Path, kind: str) -> None:
    """This applies to every kind that records. The pods die, are paused or have no heartbeat, together or in turn."""
    last = count_operations(tmp_path, kind)
    first = 1000 * list(KINDS).index(kind)
    run_all(lambda seed: run_random_course(tmp_path, kind, seed, last), range(first, first + 2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_at_every_operation(tmp_path: Path, kind: str) -> None:
    """All kinds, with three hundred courses of each."""
    last = count_operations(tmp_path, kind)
    run_all(lambda at: kill_before_operation(tmp_path, kind, at), range(1, last + 1))
    run_all(lambda at: pause_before_operation(tmp_path, kind, at), range(1, last + 1))
    run_all(lambda epoch: kill_in_epoch(tmp_path, kind, epoch), range(1, EPOCHS + 1))
    run_all(lambda seed: run_random_course(tmp_path, kind, seed, last), range(MANY_COURSES))
