"""What `trainstack forecast` and `check --cluster` predict, beside what a real Kueue does on simulated GPU nodes."""

import json
import os
import random
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.admission.bench import reserves
from tests.admission.kueue import install, until
from tests.cluster.placements import (
    BLOCK,
    LEVELS,
    RACK,
    Site,
    config,
    hosts_of_assignment,
    hosts_of_verdict,
    reason_of,
    run,
    site,
)
from tests.cluster.plan_bench import NODES, PlanBench, kendall_tau
from tests.cluster.plan_scenarios import GPU, Config, Scenario, run_name
from tests.seeds import chosen_seed
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.spec import ClusterSpec
from trainstack.dev.toolchain import tools
from trainstack.settings.sections.operators import KueueFairSharing
from trainstack.settings.values.kubernetes import HOSTNAME

pytestmark = pytest.mark.cluster

LEAST_TAU, MOST_OFF = 0.95, 0.1
SCENARIOS = 20


def mixed(number: int) -> Scenario:
    """One of many: 50 to 200 runs; queues that lend or do not, strict or not, with and without preemption.

    Queues that are not strict lend or evict, not both: 64 of 66 drawn plans of such queues took another course with a
    third of a second more or less of each run. What both together come to is what tests/admission compares.
    """
    size, strict = number % 4, number % 5 == 4
    scenario = Scenario(
        seed=100 + number,
        runs=(50, 80, 120, 200)[size],
        nodes=(2, 6, 8, 12)[size],
        queues=(2, 3, 1, 4)[number // 4 % 4],
        seconds=(30, 90),
        strict=strict,
        borrowing=number % 3 != 2 and (strict or size != 3),
        preemption=size == 3,
    )
    if size == 1:
        # Pods of several GPUs, and nodes for them to find room.
        return replace(scenario, gpus=(1, 1, 2, 4), pods=(1, 1, 2), spare=4)
    return replace(scenario, pods=(1, 1, 2, 2, 4, 8)) if size > 1 else scenario


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanBench]:
    """A cluster of simulated nodes with Kueue alone.

    Processes that share the tests have one each: two scenarios on one Kueue lengthen each other's cycles.

    TRAINSTACK_TEST_CLUSTER names a folder; its neighbour `<folder>-simulated` is used then, and left running.
    """
    kept = os.environ.get("TRAINSTACK_TEST_CLUSTER")
    state = (
        Path(f"{kept}-simulated{os.environ.get('PYTEST_XDIST_WORKER', '')}")
        if kept
        else tmp_path_factory.mktemp("simulated")
    )
    try:
        running = devcluster.up(state, ClusterSpec(simulated_nodes=NODES))
        yield PlanBench(running, tmp_path_factory.mktemp("environments"))
    finally:
        if not kept:
            devcluster.down(state, keep_data=False)


@pytest.fixture
def overhead(bench: PlanBench) -> float:
    """Seconds that a run takes beside what its pods do: measured now on runs that have the cluster alone."""
    alone = Scenario(seed=0, runs=40, nodes=2, seconds=(3, 9), queues=1, pods=(1,))
    seen = bench.run(120, alone)
    names = {run_name(index): alone.lasts(index) for index in range(alone.runs)}
    return statistics.median(seen.ended[name] - seen.reserved[name] - lasts for name, lasts in names.items())


@pytest.mark.slow
def test_a_scenario_happens_as_planned(bench: PlanBench, overhead: float) -> None:
    """Who starts before whom, and when all are done."""
    wanted = bench.steady(Scenario(seed=1, runs=40, nodes=2, seconds=(8, 24)), overhead)
    assert_as_planned(bench, overhead, 240, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SCENARIOS))
def test_many_scenarios_happen_as_planned(bench: PlanBench, overhead: float, number: int) -> None:
    """The same for many."""
    assert_as_planned(bench, overhead, 1800, bench.steady(mixed(number), overhead))


def assert_as_planned(bench: PlanBench, overhead: float, most: float, scenario: Scenario) -> None:
    """The prediction is made before anything runs.

    The order of the starts is compared by Kendall's tau-b. Kueue tells whole seconds, so what it admits within one has
    no order; the plan is read by the same clock. A pair that is tied on one side alone counts against the plan.
    """
    plan, seen = bench.planned(overhead, scenario), bench.run(most, scenario)
    ends = [each.end for each in plan if each.end is not None]
    assert len(ends) == scenario.runs
    starts = [(int(seen.began + (each.start or 0.0)), seen.started[each.task.workload.name]) for each in plan]
    tau, last, planned = kendall_tau(starts), max(seen.ended.values()), max(ends)
    off = last / planned - 1
    figures = f"tau {tau:.3f}, makespan {last:.0f} s of {planned:.0f} s planned ({off:+.1%}), overhead {overhead:.1f} s"
    print(f"{scenario.told}: {figures}")
    assert tau >= LEAST_TAU, figures
    assert abs(off) <= MOST_OFF, figures


def test_a_plan_begins_with_what_waits_on_the_cluster(bench: PlanBench) -> None:
    """By the command; the runs that were launched have their names and durations, and none is planned twice."""
    scenario = Scenario(seed=3, runs=12, nodes=2, declared=True)
    with bench.waiting(scenario) as (named, _):
        done = bench.trainstack("forecast", "--cluster", "--json", "-s", named.name)
        assert done.code == 0, done.text
        rows = {row["name"]: row for row in json.loads(done.out)["runs"]}
    expected = {each.task.workload.name: each.start for each in bench.predicted(scenario).schedule.timelines}
    assert rows.keys() == expected.keys()
    assert {name: row["start"] for name, row in rows.items()} == pytest.approx(expected, abs=0.5)
    assert {row["source"] for row in rows.values()} == {"declared"}


@pytest.fixture(scope="module")
def judge() -> None:
    """Kueue's own code, which places pods on nodes for `check --cluster`."""
    tools.ensure(["judge-v0.15"])


@pytest.mark.usefixtures("judge")
def test_a_run_that_fits_the_quota_and_no_rack_is_told_so_before_it_is_submitted(bench: PlanBench) -> None:
    """Kueue then keeps it pending with the same message, and places the others on the nodes that are predicted.

    Eight nodes of eight GPUs: two in a rack, two racks in a block. The quota is larger, as for nodes on order.
    """
    runs = [
        run("wide", "racks", 3, topologyRequest={"required": RACK}),
        run("pair", "racks", 2, topologyRequest={"required": RACK}),
        *(run(f"block-{number}", "racks", 4, topologyRequest={"required": BLOCK}) for number in (1, 2)),
    ]
    with site(bench, "racks", config("racks", *runs, nodes=12)) as made:
        made.label(8)
        made.create("Namespace", "ResourceFlavor", "ClusterQueue", "LocalQueue")
        queue = next(body for body in made.objects if body["kind"] == "ClusterQueue")
        until("the topology is missed", lambda: "TopologyNotFound" in json.dumps(bench.api.read(queue)["status"]))
        # The environment declares the topology, so the queue is not reported as inactive.
        before = made.check()
        made.create("Topology")
        assert [id_ for id_, _ in before[""]] == ["never-fits"]
        assert f"no {RACK} has room for the 3 pods even without other workloads" in before[""][0][1]
        outcomes = {name: verdict["outcome"] for name, verdict in before.items() if name}
        assert outcomes == {"wide": "never fits", "pair": "fits", "block-1": "fits", "block-2": "fits"}
        assert {before[name]["judged_by"] for name in outcomes} == {"Kueue v0.15.2"}

        # Runs of the same content, which are others' by their names.
        others = made.others(
            run("first", "racks", 2, topologyRequest={"required": RACK}),
            run("second", "racks", 4, topologyRequest={"required": BLOCK}),
        )
        made.submit("wide")
        message = made.refused("wide")
        others.submit("first")
        assert hosts_of_assignment(made.admitted("first")) == hosts_of_verdict(before["pair"])
        assert 'topology "racks" allows to fit only 2 out of 3 pod(s)' in message
        assert message.partition(": ")[2] in before["wide"]["lacks"][0]["message"]

        # One block is left, for either.
        between = made.check()
        assert [between[name]["outcome"] for name in ("block-1", "block-2")] == ["fits", "fits"]
        others.submit("second")
        assert hosts_of_assignment(made.admitted("second")) == hosts_of_verdict(between["block-1"])
        after = made.check()
        assert after["block-2"]["outcome"] == "waits"
        assert f"no {BLOCK} has room for the 4 pods now" in after["block-2"]["lacks"][0]["message"]
        made.submit("block-2")
        assert made.refused("block-2").partition(": ")[2] in after["block-2"]["lacks"][0]["message"]


@pytest.mark.slow
@pytest.mark.usefixtures("judge")
def test_drawn_runs_are_placed_as_predicted(bench: PlanBench) -> None:
    """In drawn states of racks: the nodes of each that fits, Kueue's message about each that waits, who is preempted.

    TRAINSTACK_ADMISSION_SEED repeats the draws of a seed.
    """
    seed = chosen_seed("TRAINSTACK_ADMISSION_SEED")
    draw, outcomes, wrong = random.Random(seed), Counter[str](), []
    with site(bench, "drawn", draws_config()) as made:
        made.label(8)
        made.create()
        for number in range(STATES):
            others = [draw_run(draw, f"other-{number}-{index}") for index in range(draw.randint(0, 3))]
            asked = [draw_run(draw, f"asked-{number}-{index}") for index in range(ASKED)]
            beside, state = made.others(*others), made.with_runs(*asked)
            for other in others:
                beside.submit(other["name"])
                made.settled(other["name"])
            verdicts = state.check()
            # Who preempts others changes the state.
            for run_ in sorted(asked, key=lambda one: verdicts[one["name"]]["outcome"] == "fits by preempting"):
                name, verdict = run_["name"], verdicts[run_["name"]]
                state.submit(name)
                if fault := disagreement(made, verdict, made.settled(name)):
                    wrong.append(f"{fault}: {run_}, beside {others}")
                outcomes[verdict["outcome"]] += 1
                if verdict["outcome"] == "fits by preempting":
                    break
                made.withdraw(name)
            made.withdraw()
    print(f"TRAINSTACK_ADMISSION_SEED={seed}: {dict(outcomes)}")
    assert not wrong, (seed, wrong)
    assert outcomes.keys() == {"fits", "waits", "never fits", "fits by preempting"}, outcomes


STATES, ASKED = 25, 3
"""States of the cluster, and runs that are asked about in each."""


def draws_config() -> Config:
    """A queue in which higher priority preempts lower, with more quota than the nodes have."""
    found = config("drawn", nodes=40, preemption={"withinClusterQueue": "LowerPriority"})
    found["trainstack:queues"]["priorityClasses"] = [{"name": f"drawn-{value}", "value": value} for value in (1, 2)]
    return found


def draw_run(draw: random.Random, name: str) -> Config:
    pods, level = draw.choice((1, 2, 2, 3, 4, 6)), draw.choice(LEVELS)
    request: Config = draw.choice(
        ({"required": level}, {"required": level}, {"preferred": level}, {"unconstrained": True})
    )
    if pods % 2 == 0 and draw.random() < 0.3 and request.get("required") != HOSTNAME:
        request = {**request, "podSetSliceRequiredTopology": HOSTNAME, "podSetSliceSize": 2}
    priority = f"drawn-{draw.choice((1, 1, 2))}"
    return run(name, "drawn", pods, draw.choice((1, 2, 4, 8)), topologyRequest=request, priority=priority)


def disagreement(made: Site, verdict: Config, workload: Config) -> str:
    """What Kueue does otherwise than predicted; empty if nothing."""
    victims = made.evicted()
    if verdict["outcome"] == "fits by preempting":
        return "" if [f"drawn/{name}" for name in victims] == verdict["preempts"] else f"evicted {victims}: {verdict}"
    if reserves(workload) != (verdict["outcome"] == "fits") or victims:
        return f"reserved: {reserves(workload)}, evicted {victims}: {verdict}"
    if verdict["outcome"] == "fits":
        hosts = hosts_of_assignment(workload)
        return "" if hosts == hosts_of_verdict(verdict) else f"on {hosts}: {verdict}"
    message = reason_of(workload).partition(": ")[2]
    told = verdict["lacks"][0]["message"]
    return "" if verdict["outcome"] == "never fits" or message in told else f"{message}: {verdict}"


def test_whom_fair_sharing_preempts_is_told_before(bench: PlanBench) -> None:
    """The queue with the larger share of the cohort by weight, not the workload of the lowest priority.

    The last test: it configures Kueue anew.
    """
    bench.api = install(bench.cluster, fair_sharing=KueueFairSharing())
    with site(bench, "fair", fair()) as made:
        made.create()
        names = [f"{queue}-{number}" for number in (1, 2, 3) for queue in ("heavy", "light")]
        others = made.others(*(share(name) for name in names))
        for name in names:
            others.submit(name)
            others.admitted(name)
        asked = made.check()["asked"]
        assert (asked["outcome"], len(asked["preempts"])) == ("fits by preempting", 1)
        made.submit("asked")
        made.admitted("asked")
        (victim,) = made.evicted()
        assert asked["preempts"] == [f"fair/{victim}"]
        assert victim in {made.workload(name)["metadata"]["name"] for name in names if name.startswith("light")}


def fair() -> Config:
    """Three queues of two GPUs in a cohort, of which one has four times the weight of the others."""
    found = config("fair", topology=False)
    queues = found["trainstack:queues"]
    (template,) = queues["clusterQueues"]
    quotas = [{"name": "cpu", "nominalQuota": 64}, {"name": GPU, "nominalQuota": 2}]
    group = {"coveredResources": ["cpu", GPU], "flavors": [{"name": "fair", "resources": quotas}]}
    base = {
        **template,
        "resourceGroups": [group],
        "cohort": "fair",
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    }
    names = {"asking": "1", "heavy": "4", "light": "1"}
    queues["cohorts"] = [{"name": "fair"}]
    queues["clusterQueues"] = [
        {**base, "name": f"fair-{name}", "fairSharing": {"weight": weight}} for name, weight in names.items()
    ]
    queues["localQueues"] = [{"name": name, "namespace": "fair", "clusterQueue": f"fair-{name}"} for name in names]
    queues["priorityClasses"] = [{"name": "fair-low", "value": 1}, {"name": "fair-high", "value": 9}]
    found["trainstack:workloads"] = {"runs": [run("asked", "fair", 1, 1, queue="asking", priority="fair-low")]}
    return found


def share(name: str) -> Config:
    """A run of one GPU."""
    queue = name.partition("-")[0]
    return run(name, "fair", 1, 1, queue=queue, priority={"heavy": "fair-low", "light": "fair-high"}[queue])
