"""The predictions of `trainstack forecast` and `check --cluster`, compared with a real Kueue on simulated GPU nodes."""

import json
import os
import random
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.admission.bench import has_reservation
from tests.admission.kueue import install, wait_until
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
from tests.local_clusters import kept_state, local_cluster
from tests.seeds import chosen_seed
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.settings.sections.operators import KueueFairSharing
from trainstack.settings.values.kubernetes import HOSTNAME
from trainstack.toolchain import tools

pytestmark = pytest.mark.cluster

MIN_TAU, MAX_DEVIATION = 0.95, 0.1
SCENARIOS = 20


def make_scenario(number: int) -> Scenario:
    """Return one of many scenarios: 50 to 200 runs, queues with and without borrowing, strict order and preemption.

    Queues that are not strict either borrow or preempt. With both, 64 of 66 generated plans took another course if each
    run was a third of a second longer or shorter; tests/admission compares the combination.
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
        # Pods of several GPUs need spare nodes.
        return replace(scenario, gpus=(1, 1, 2, 4), pods=(1, 1, 2), spare=4)
    return replace(scenario, pods=(1, 1, 2, 2, 4, 8)) if size > 1 else scenario


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanBench]:
    """Yield a cluster of simulated nodes with Kueue alone.

    Each test process has its own cluster, because two scenarios on one Kueue lengthen each other's cycles.
    """
    kept = kept_state(f"-simulated{os.environ.get('PYTEST_XDIST_WORKER', '')}")
    spec = ClusterSpec(simulated_nodes=NODES)
    with local_cluster(tmp_path_factory.mktemp("simulated"), spec, kept=kept) as running:
        yield PlanBench(running, tmp_path_factory.mktemp("environments"))


@pytest.fixture
def overhead(bench: PlanBench) -> float:
    """Return the seconds of a run in addition to those of its pods, measured on an otherwise idle cluster."""
    alone = Scenario(seed=0, runs=40, nodes=2, seconds=(3, 9), queues=1, pods=(1,))
    observed = bench.run(120, alone)
    names = {run_name(index): alone.duration_seconds(index) for index in range(alone.runs)}
    return statistics.median(observed.ended[name] - observed.reserved[name] - lasts for name, lasts in names.items())


@pytest.mark.slow
def test_a_scenario_matches_its_forecast(bench: PlanBench, overhead: float) -> None:
    """The order of the starts and the makespan match."""
    scenario = bench.find_steady(Scenario(seed=1, runs=40, nodes=2, seconds=(8, 24)), overhead)
    assert_matches_forecast(bench, overhead, 240, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SCENARIOS))
def test_many_scenarios_match_their_forecasts(bench: PlanBench, overhead: float, number: int) -> None:
    assert_matches_forecast(bench, overhead, 1800, bench.find_steady(make_scenario(number), overhead))


def assert_matches_forecast(bench: PlanBench, overhead: float, max_seconds: float, scenario: Scenario) -> None:
    """Compare a plan, which is made before any run starts, with the observed runs.

    The order of the starts is compared by Kendall's tau-b. Kueue's times are in whole seconds, so admissions within a
    second have no order, and the plan's times are rounded down too. A pair that is tied on only one side counts against
    the plan.
    """
    plan, observed = bench.planned_timelines(overhead, scenario), bench.run(max_seconds, scenario)
    ends = [timeline.end for timeline in plan if timeline.end is not None]
    assert len(ends) == scenario.runs
    starts = [
        (int(observed.began + (timeline.start or 0.0)), observed.started[timeline.task.workload.name])
        for timeline in plan
    ]
    tau, last, planned = kendall_tau(starts), max(observed.ended.values()), max(ends)
    off = last / planned - 1
    figures = f"tau {tau:.3f}, makespan {last:.0f} s of {planned:.0f} s planned ({off:+.1%}), overhead {overhead:.1f} s"
    print(f"{scenario.description}: {figures}")
    assert tau >= MIN_TAU, figures
    assert abs(off) <= MAX_DEVIATION, figures


def test_a_forecast_includes_runs_that_wait_on_the_cluster(bench: PlanBench) -> None:
    """`forecast --cluster` lists launched runs with their names and durations, and plans no run twice."""
    scenario = Scenario(seed=3, runs=12, nodes=2, declared=True)
    with bench.waiting_scenario(scenario) as (named, _):
        done = bench.trainstack("forecast", "--cluster", "--json", "-s", named.name)
        assert done.code == 0, done.text
        rows = {row["name"]: row for row in json.loads(done.out)["runs"]}
    expected = {timeline.task.workload.name: timeline.start for timeline in bench.forecast(scenario).schedule.timelines}
    assert rows.keys() == expected.keys()
    assert {name: row["start"] for name, row in rows.items()} == pytest.approx(expected, abs=0.5)
    assert {row["source"] for row in rows.values()} == {"declared"}


@pytest.fixture(scope="module")
def kueue_program() -> None:
    """Ensure the program with Kueue's own code, which assigns pods to nodes for `check --cluster`."""
    tools.ensure([tools.JUDGE_GROUP])


@pytest.mark.usefixtures("kueue_program")
def test_check_reports_a_run_that_fits_the_quota_but_no_rack(bench: PlanBench) -> None:
    """Kueue then keeps the run pending with the same message, and places the other runs on the predicted nodes.

    There are eight nodes of eight GPUs: two nodes in a rack, and two racks in a block. The quota is larger, as if more
    nodes were ordered.
    """
    runs = [
        run("wide", "racks", 3, topologyRequest={"required": RACK}),
        run("pair", "racks", 2, topologyRequest={"required": RACK}),
        *(run(f"block-{number}", "racks", 4, topologyRequest={"required": BLOCK}) for number in (1, 2)),
    ]
    with site(bench, "racks", config("racks", *runs, nodes=12)) as environment:
        environment.label(8)
        environment.create("Namespace", "ResourceFlavor", "ClusterQueue", "LocalQueue")
        queue = next(body for body in environment.objects if body["kind"] == "ClusterQueue")
        wait_until("the topology is missed", lambda: "TopologyNotFound" in json.dumps(bench.api.read(queue)))
        # The environment declares the topology, so the queue is not reported as inactive.
        before = environment.check()
        environment.create("Topology")
        assert [id_ for id_, _ in before[""]] == ["never-fits"]
        assert f"no {RACK} has room for the 3 pods even without other workloads" in before[""][0][1]
        outcomes = {name: verdict["outcome"] for name, verdict in before.items() if name}
        assert outcomes == {"wide": "never fits", "pair": "fits", "block-1": "fits", "block-2": "fits"}
        assert {before[name]["judged_by"] for name in outcomes} == {"Kueue v0.19.2"}

        # Runs of other owners: the same content under other names.
        others = environment.competing_environment(
            run("first", "racks", 2, topologyRequest={"required": RACK}),
            run("second", "racks", 4, topologyRequest={"required": BLOCK}),
        )
        environment.submit("wide")
        message = environment.await_refusal("wide")
        others.submit("first")
        assert hosts_of_assignment(environment.await_admission("first")) == hosts_of_verdict(before["pair"])
        assert 'topology "racks" allows to fit only 2 out of 3 pod(s)' in message
        assert message.partition(": ")[2] in before["wide"]["lacks"][0]["message"]

        # One block is free, and either run fits.
        between = environment.check()
        assert [between[name]["outcome"] for name in ("block-1", "block-2")] == ["fits", "fits"]
        others.submit("second")
        assert hosts_of_assignment(environment.await_admission("second")) == hosts_of_verdict(between["block-1"])
        after = environment.check()
        assert after["block-2"]["outcome"] == "waits"
        assert f"no {BLOCK} has room for the 4 pods now" in after["block-2"]["lacks"][0]["message"]
        environment.submit("block-2")
        assert environment.await_refusal("block-2").partition(": ")[2] in after["block-2"]["lacks"][0]["message"]


@pytest.mark.slow
@pytest.mark.usefixtures("kueue_program")
def test_random_runs_are_placed_as_predicted(bench: PlanBench) -> None:
    """Kueue uses the predicted nodes, prints the predicted messages and preempts the predicted runs.

    TRAINSTACK_ADMISSION_SEED repeats the draws of a seed.
    """
    seed = chosen_seed("TRAINSTACK_ADMISSION_SEED")
    draw, outcomes, wrong = random.Random(seed), Counter[str](), []
    with site(bench, "drawn", priorities_config()) as environment:
        environment.label(8)
        environment.create()
        for number in range(STATES):
            others = [draw_run(draw, f"other-{number}-{index}") for index in range(draw.randint(0, 3))]
            candidates = [draw_run(draw, f"asked-{number}-{index}") for index in range(ASKED)]
            background, state = environment.competing_environment(*others), environment.with_runs(*candidates)
            for other in others:
                background.submit(other["name"])
                environment.await_decision(other["name"])
            verdicts = state.check()
            # A run that preempts others changes the state, so it is submitted last.
            for candidate in sorted(
                candidates, key=lambda candidate: verdicts[candidate["name"]]["outcome"] == "fits by preempting"
            ):
                name, verdict = candidate["name"], verdicts[candidate["name"]]
                state.submit(name)
                if fault := disagreement(environment, verdict, environment.await_decision(name)):
                    wrong.append(f"{fault}: {candidate}, beside {others}")
                outcomes[verdict["outcome"]] += 1
                if verdict["outcome"] == "fits by preempting":
                    break
                environment.delete_launches(name)
            environment.delete_launches()
    print(f"TRAINSTACK_ADMISSION_SEED={seed}: {dict(outcomes)}")
    assert not wrong, (seed, wrong)
    assert outcomes.keys() == {"fits", "waits", "never fits", "fits by preempting"}, outcomes


STATES, ASKED = 25, 3
"""The number of states of the cluster, and of checked runs in each."""


def priorities_config() -> Config:
    """Return a queue in which higher priority preempts lower, with more quota than the nodes have."""
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


def disagreement(environment: Site, verdict: Config, workload: Config) -> str:
    """Return how Kueue's outcome differs from the prediction, or an empty string."""
    victims = environment.evicted_workloads()
    if verdict["outcome"] == "fits by preempting":
        return "" if [f"drawn/{name}" for name in victims] == verdict["preempts"] else f"evicted {victims}: {verdict}"
    if has_reservation(workload) != (verdict["outcome"] == "fits") or victims:
        return f"reserved: {has_reservation(workload)}, evicted {victims}: {verdict}"
    if verdict["outcome"] == "fits":
        hosts = hosts_of_assignment(workload)
        return "" if hosts == hosts_of_verdict(verdict) else f"on {hosts}: {verdict}"
    message = reason_of(workload).partition(": ")[2]
    predicted = verdict["lacks"][0]["message"]
    return "" if verdict["outcome"] == "never fits" or message in predicted else f"{message}: {verdict}"


@pytest.mark.slow
def test_check_predicts_which_run_fair_sharing_preempts(bench: PlanBench) -> None:
    """The run is in the queue with the largest weighted share of the cohort, and does not have the lowest priority.

    This is the last test, because it reconfigures Kueue. In every run of `make test`, tests/admission/test_judge.py
    compares such verdicts with Kueue's own code.
    """
    bench.api = install(bench.cluster, fair_sharing=KueueFairSharing())
    with site(bench, "fair", fair_config()) as environment:
        environment.create()
        names = [f"{queue}-{number}" for number in (1, 2, 3) for queue in ("heavy", "light")]
        others = environment.competing_environment(*(fair_run(name) for name in names))
        for name in names:
            others.submit(name)
            others.await_admission(name)
        verdict = environment.check()["asked"]
        assert (verdict["outcome"], len(verdict["preempts"])) == ("fits by preempting", 1)
        environment.submit("asked")
        environment.await_admission("asked")
        (victim,) = environment.evicted_workloads()
        assert verdict["preempts"] == [f"fair/{victim}"]
        assert victim in {environment.workload(name)["metadata"]["name"] for name in names if name.startswith("light")}


def fair_config() -> Config:
    """Return three queues of two GPUs in a cohort; one of them has four times the weight of the others."""
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


def fair_run(name: str) -> Config:
    """Return a run of one GPU."""
    queue = name.partition("-")[0]
    return run(name, "fair", 1, 1, queue=queue, priority={"heavy": "fair-low", "light": "fair-high"}[queue])
