"""The quick look before an attempt never says no where an attempt would succeed."""

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.checks.admission.make import make_model, make_pods, make_queue, make_workload
from trainstack.kueue.feasibility import FeasibilityFilter, floor, kind_of, needs_of
from trainstack.kueue.model import Admitted, Cohort, Model, Preemption, Quota, ResourceGroup, Workload
from trainstack.kueue.nomination import attempt
from trainstack.kueue.snapshot import Snapshot

POLICIES = ("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any")


def drawn_model(draw: random.Random) -> Model:
    """Three queues in a tree of one or two cohorts."""

    def quota() -> tuple[int, int | None, int | None]:
        lent = draw.choice((None, None, 1))
        return draw.choice((0, 2, 4)), draw.choice((None, None, 0, 2)), lent

    def preemption() -> Preemption:
        return Preemption(
            within_cluster_queue=draw.choice(POLICIES[:3]),  # type: ignore[arg-type]
            reclaim_within_cohort=draw.choice(("Never", "LowerPriority", "Any")),
            borrow_within_cohort=draw.random() < 0.3,
        )

    queues = [
        make_queue(
            name,
            {flavor: {"cpu": quota(), "nvidia.com/gpu": quota()} for flavor in ("one", "two")},
            draw.choice(("lab", "below")),
            preemption=preemption(),
        )
        for name in ("q", "r", "s")
    ]
    return make_model(*queues, cohorts=(Cohort("lab"), Cohort("below", draw.choice((None, "lab")))))


def drawn_workload(draw: random.Random, number: int) -> Workload:
    """One or two kinds of pods, perhaps content with fewer."""
    sets = [
        make_pods(f"set{index}", draw.choice((1, 2, 3)), cpu=draw.choice((1, 2)), gpu=draw.choice((0, 1, 2)))
        for index in range(draw.choice((1, 1, 2)))
    ]
    return make_workload(
        *sets,
        name=f"w{number}",
        queue=draw.choice(("q", "r", "s")),
        priority=draw.choice((0, 5)),
        created=float(number),
    )


@pytest.mark.parametrize("seed", range(40))
def test_what_has_no_hope_is_not_admitted(seed: int) -> None:
    """In trees of cohorts, with limits and preemption, as they fill."""
    draw = random.Random(seed)
    model = drawn_model(draw)
    snapshot = Snapshot(model)
    feasibility = FeasibilityFilter(snapshot.cluster_queues.values())
    hopeless = 0
    for number in range(60):
        workload = drawn_workload(draw, number)
        cq = snapshot.cluster_queues[workload.queue]
        made = attempt(snapshot, cq, workload)
        if not feasibility.may_fit(cq, needs_of(workload, cq)):
            hopeless += 1
            assert not made.succeeds, workload
        elif made.succeeds:
            for each in made.targets:
                snapshot.remove(each)
                feasibility.invalidate(each.cluster_queue, each.usage)
            usage = dict(made.assignment.usage)
            snapshot.add(Admitted(workload, workload.queue, usage, reserved=float(number)))
            feasibility.invalidate(workload.queue, usage)
    assert hopeless


def test_the_floor_of_needs_is_below_each_of_them() -> None:
    """Where nothing of it is to be had, neither is any of them."""
    cq = Snapshot(make_model(make_queue("q", {"one": {"cpu": 8, "nvidia.com/gpu": 8}}))).cluster_queues["q"]
    needs = [needs_of(make_workload(make_pods(cpu=cpu, gpu=gpu)), cq) for cpu, gpu in ((1, 4), (3, 2))]
    assert kind_of(needs[0]) == kind_of(needs[1])
    lowest = floor(needs)
    assert {what[1]: number for what, number in lowest.choices[0][0]} == {"cpu": 1000, "nvidia.com/gpu": 2}
    too_much = needs_of(make_workload(make_pods(cpu=9)), cq)
    assert too_much.choices == ((),)
    assert needs_of(make_workload(make_pods(memory="1Gi")), cq).choices == ((),)


@pytest.mark.parametrize("flavors", [("one", "one"), ("one", "two")])
def test_who_borrows_one_resource_may_free_another(flavors: tuple[str, str]) -> None:
    """What is contested is contested together: a queue that borrows cpu gives back GPUs that it has of its own too.

    In one group with it, or in another.
    """
    cpu, gpu = (flavors[0], "cpu"), (flavors[1], "nvidia.com/gpu")
    groups = {flavor: frozenset(name for at, name in (cpu, gpu) if at == flavor) for flavor in flavors}
    said: dict[str, Any] = {
        "groups": tuple(ResourceGroup(covered, (flavor,)) for flavor, covered in groups.items()),
        "quotas": {cpu: Quota(4000), gpu: Quota(4)},
        "cohort": "lab",
    }
    policy = Preemption(reclaim_within_cohort="LowerPriority", borrow_within_cohort=True)
    model = make_model(replace(make_queue("q", preemption=policy), **said), replace(make_queue("r"), **said))
    snapshot = Snapshot(model)
    other = make_workload(make_pods(cpu=6, gpu=4), name="other", queue="r")
    snapshot.add(Admitted(other, "r", {cpu: 6000, gpu: 4}))
    asked, cq = make_workload(make_pods(cpu=4, gpu=6), priority=5), snapshot.cluster_queues["q"]
    assert attempt(snapshot, cq, asked).succeeds
    assert FeasibilityFilter(snapshot.cluster_queues.values()).may_fit(cq, needs_of(asked, cq))
