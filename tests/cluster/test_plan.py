"""What `trainstack plan` predicts, beside what a real Kueue does with many runs on simulated GPU nodes."""

import json
import os
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import cluster as devcluster
from devcluster.spec import ClusterSpec
from tests.cluster.plan_bench import NODES, PlanBench, tau
from tests.cluster.plan_scenarios import Scenario, run_name

pytestmark = pytest.mark.cluster

LEAST_TAU, MOST_OFF = 0.95, 0.1
SMALL = (
    Scenario(seed=1, runs=50, nodes=4, seconds=(5, 15)),
    Scenario(seed=2, runs=50, nodes=4, seconds=(5, 15), strict=True),
)


def mixed(number: int) -> Scenario:
    """One of many: 50 to 200 runs; queues that lend or do not, strict or not, with and without preemption."""
    size = number % 4
    scenario = Scenario(
        seed=100 + number,
        runs=(50, 80, 120, 200)[size],
        nodes=(4, 6, 8, 12)[size],
        queues=(2, 3, 1, 4)[number // 4 % 4],
        seconds=(20, 60),
        strict=number % 5 == 4,
        borrowing=number % 3 != 2,
        preemption=size == 3,
    )
    # Pods of several GPUs, and nodes for them to find room.
    return replace(scenario, gpus=(1, 1, 2, 4), pods=(1, 1, 2), spare=4) if size == 1 else scenario


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanBench]:
    """A cluster of simulated nodes with Kueue alone.

    TRAINSTACK_TEST_CLUSTER names a folder; its neighbour `<folder>-simulated` is used then, and left running.
    """
    kept = os.environ.get("TRAINSTACK_TEST_CLUSTER")
    state = Path(f"{kept}-simulated") if kept else tmp_path_factory.mktemp("simulated")
    try:
        running = devcluster.up(state, ClusterSpec(simulated_nodes=NODES))
        yield PlanBench(running, tmp_path_factory.mktemp("environments"))
    finally:
        if not kept:
            devcluster.down(state, keep_data=False)


@pytest.fixture(scope="module")
def overhead(bench: PlanBench) -> float:
    """Seconds that a run has its quota beside what its pods do: measured on a few runs that have the cluster alone."""
    alone = Scenario(seed=0, runs=4, nodes=8, seconds=(3, 5), queues=1)
    seen = bench.run(alone, 60)
    return statistics.median(
        seen.ended[run_name(index)] - seen.started[run_name(index)] - alone.lasts(index) for index in range(alone.runs)
    )


@pytest.mark.parametrize("scenario", SMALL, ids=lambda each: f"{each.seed}")
def test_small_scenarios_happen_as_planned(bench: PlanBench, overhead: float, scenario: Scenario) -> None:
    """Who starts before whom, and when all are done."""
    assert_as_planned(bench, overhead, scenario, 180)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", map(mixed, range(20)), ids=lambda each: f"{each.seed}-{each.runs}")
def test_many_scenarios_happen_as_planned(bench: PlanBench, overhead: float, scenario: Scenario) -> None:
    """The same for many."""
    assert_as_planned(bench, overhead, scenario, 1800)


def assert_as_planned(bench: PlanBench, overhead: float, scenario: Scenario, seconds: float) -> None:
    """The prediction is made before anything runs."""
    schedule = bench.predicted(scenario, overhead).schedule
    assert schedule.open == ()
    predicted = {each.task.workload.name: each.start for each in schedule.courses if each.start is not None}
    seen = bench.run(scenario, seconds)
    order, makespan = tau(predicted, seen.started), max(seen.ended.values()) / schedule.makespan
    print(
        f"{scenario}: tau {order:.3f}, makespan {makespan:.3f} of {schedule.makespan:.0f} s, overhead {overhead:.2f} s"
    )
    assert (order >= LEAST_TAU, abs(makespan - 1) <= MOST_OFF) == (True, True), (order, makespan)


def test_a_plan_begins_with_what_waits_on_the_cluster(bench: PlanBench) -> None:
    """By the command; the runs that were launched have their names and durations, and none is planned twice."""
    scenario = Scenario(seed=3, runs=12, nodes=2, declared=True)
    with bench.waiting(scenario) as (named, _):
        done = bench.trainstack("plan", "--cluster", "--json", "-s", named.name)
        assert done.code == 0, done.text
        rows = {row["name"]: row for row in json.loads(done.out)["runs"]}
    expected = {each.task.workload.name: each.start for each in bench.predicted(scenario).schedule.courses}
    assert rows.keys() == expected.keys()
    assert {name: row["start"] for name, row in rows.items()} == pytest.approx(expected, abs=0.5)
    assert {row["source"] for row in rows.values()} == {"declared"}
