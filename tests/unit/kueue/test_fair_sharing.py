"""Fair sharing: preemption by the shares of queues and cohorts, and the order in which heads are admitted."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.differences import release_of
from trainstack.kueue.fair_sharing import NO_SHARE, borrows, share
from trainstack.kueue.feature_gates import FeatureGates
from trainstack.kueue.model import (
    AdmittedWorkload,
    Cohort,
    FairStrategy,
    FlavorFungibility,
    Model,
    Preemption,
    Workload,
)
from trainstack.kueue.scheduler import Scheduler
from trainstack.kueue.snapshot import Snapshot

BOTH: tuple[FairStrategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
RECLAIMS = Preemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any")


def make_shared(*queues: str | Any, cohorts: tuple[Cohort, ...] = (), **changes: Any) -> Model:
    """Return a model with queues of 3 cpu in cohort `lab`, which preempt in their queue and their cohort."""
    cluster_queues = [
        make_queue(queue, {"cpu": {"cpu": 3}}, "lab", preemption=RECLAIMS) if isinstance(queue, str) else queue
        for queue in queues
    ]
    return make_model(*cluster_queues, cohorts=cohorts, **{"fair_sharing": BOTH, **changes})


def using(queue: str, *priorities: int, cpu: int = 1) -> list[AdmittedWorkload]:
    """Return admitted workloads of 1 cpu with these priorities, in order of admission: `q0`, `q1` and so on."""
    return [
        make_admitted(f"{queue}{turn}", queue, cpu=cpu, priority=priority, reserved_at=float(turn))
        for turn, priority in enumerate(priorities)
    ]


def preempted(asked: Workload, model: Model, *admitted: AdmittedWorkload) -> list[str]:
    verdict = simulate(asked, model, admitted=admitted)
    return sorted(key.removeprefix("ns/") for key in verdict.preempts)


def asking(cpu: int = 1, queue: str = "q", **changes: Any) -> Workload:
    return make_workload(make_pods(cpu=cpu), queue=queue, **changes)


def test_a_share_is_the_borrowed_part_of_what_can_be_lent_by_weight() -> None:
    """Source: dominantResourceShare, fair_sharing.go: in thousandths, of the resource that is borrowed most."""
    quotas = {"f": {"cpu": 2, "memory": 8}}
    one = make_queue("q", quotas, "lab", weight=2.0)
    model = make_model(one, make_queue("r", quotas, "lab"), make_queue("s", quotas, "lab", weight=0.0))
    use = {("f", "cpu"): 3000, ("f", "memory"): 14}
    snapshot = Snapshot(model, [AdmittedWorkload(make_workload(name=name), name, use) for name in "qrs"])
    # 6 of 24 memory, which is more than 1 of 6 cpu.
    assert [share(snapshot.tree.queues[name]) for name in "qrs"] == [(False, 125.0), (False, 250.0), (True, 250.0)]
    assert share(snapshot.tree.cohorts["lab"]) == NO_SHARE
    assert sorted("srq", key=lambda name: share(snapshot.tree.queues[name])) == ["q", "r", "s"]


def test_the_queue_with_the_largest_share_is_preempted() -> None:
    """Source: nextTarget, ordering.go: `r` borrows 3 and `s` 2 of 9, so the latest of `r` is preempted."""
    model = make_shared("q", "r", "s", make_queue("t", {"cpu": {"cpu": 2}}, "lab"))
    assert preempted(asking(), model, *using("r", *[0] * 6), *using("s", *[0] * 5)) == ["r5"]


def test_candidates_are_preempted_until_the_shares_are_equal() -> None:
    """Source: LessThanOrEqualToFinalShare, strategy.go: `q`, within its quota, reclaims what `r` and `s` borrow."""
    model = make_shared("q", "r", "s")
    admitted = [*using("r", *[0] * 5), *using("s", *[0] * 4)]
    assert preempted(asking(3), model, *admitted) == ["r3", "r4", "s3"]


def test_a_queue_that_borrows_as_much_keeps_its_workloads() -> None:
    """Source: runFirstFsStrategy, preemption.go: `q` would borrow 1, and so does `r` already; in classical
    preemption it may not reclaim while it borrows either.
    """
    model = make_shared("q", "r", make_queue("s", {"cpu": {"cpu": 3}}, "lab"))
    admitted = [*using("q", *[9] * 3), *using("s", *[0] * 2), *using("r", *[0] * 4)]
    assert preempted(asking(priority=5), model, *admitted) == []
    assert simulate(asking(priority=5), model, admitted=admitted).outcome == "waits"


def test_a_queue_preempts_while_it_borrows_less_than_another() -> None:
    """Source: canPreemptWhileBorrowing, flavorassigner.go: without fair sharing this needs borrowWithinCohort."""
    model = make_shared("q", "r", "s")
    admitted = [*using("q", *[9] * 3), *using("r", *[0] * 6)]
    assert preempted(asking(), model, *admitted) == ["r5"]
    assert preempted(asking(), replace(model, fair_sharing=()), *admitted) == []


def test_the_second_strategy_compares_with_the_share_before() -> None:
    """Source: runSecondFsStrategy, preemption.go: without its only workload `r` would have less than `q`."""
    model = make_shared("q", "r")
    admitted = [*using("q", *[9] * 1), *using("r", 0, cpu=5)]
    assert preempted(asking(3), model, *admitted) == ["r0"]
    final = replace(model, fair_sharing=("LessThanOrEqualToFinalShare",))
    assert preempted(asking(3), final, *admitted) == []
    initial = replace(model, fair_sharing=("LessThanInitialShare",))
    assert preempted(asking(3), initial, *admitted) == ["r0"]


def test_a_first_strategy_by_the_share_before_takes_the_lowest_priority() -> None:
    """Source: LessThanInitialShare, strategy.go; the other one skips a workload that would leave too small a share."""
    model = make_shared("q", "r", "s")
    large, small = make_admitted("large", "r", cpu=4), make_admitted("small", "r", cpu=2, priority=5)
    admitted = [*using("q", 9, 9, 9), large, small]
    assert preempted(asking(), model, *admitted) == ["small"]
    assert preempted(asking(), replace(model, fair_sharing=("LessThanInitialShare",)), *admitted) == ["large"]


@pytest.mark.parametrize(("weight", "names"), [(1.0, []), (2.0, ["r3"]), (0.0, [])])
def test_a_weight_divides_a_share(weight: float, names: list[str]) -> None:
    """Source: CompareDRS, fair_sharing.go: a queue of weight 0 has the largest share as soon as it borrows."""
    queue = make_queue("q", {"cpu": {"cpu": 3}}, "lab", preemption=RECLAIMS, weight=weight)
    free = make_queue("s", {"cpu": {"cpu": 1}}, "lab")
    model = make_shared(queue, "r", free, fair_sharing=("LessThanInitialShare",))
    admitted = [*using("q", 9, 9), *using("r", 0, 0, 0, 0)]
    assert preempted(asking(2, priority=5), model, *admitted) == names


def test_within_its_queue_a_workload_preempts_by_priority_without_regard_to_shares() -> None:
    """Source: InClusterQueuePreemption in runFirstFsStrategy, preemption.go."""
    model = make_shared("q", "r")
    admitted = [*using("q", 0, 9, 9, 9), *using("r", 0, 0)]
    assert preempted(asking(priority=5), model, *admitted) == ["q0"]
    never = make_queue("q", {"cpu": {"cpu": 3}}, "lab", preemption=Preemption(within_cluster_queue="LowerPriority"))
    assert preempted(asking(priority=5), make_shared(never, "r"), *admitted) == ["q0"]
    alone = make_queue("q", {"cpu": {"cpu": 4}}, preemption=RECLAIMS)
    assert preempted(asking(priority=5), make_shared(alone, "r"), *using("q", 0, 9, 9, 9)) == ["q0"]


def test_a_flavor_with_preemption_in_the_own_queue_ends_the_search() -> None:
    """Source: shouldTryNextFlavor, flavorassigner.go, with whenCanPreempt: MayStopSearch."""
    stops = FlavorFungibility(when_can_preempt="MayStopSearch")
    queue = make_queue("q", {"a": {"cpu": 1}, "b": {"cpu": 1}}, "lab", preemption=RECLAIMS, fungibility=stops)
    model = make_shared(queue, make_queue("r", {"a": {"cpu": 1}}, "lab"))
    low = [make_admitted("low", flavor="a"), make_admitted("other", "r", flavor="a", priority=9)]
    found = simulate(asking(priority=5), model, admitted=low)
    assert (found.assigned[0].flavors, found.preempts) == ({"cpu": "a"}, ("ns/low",))


def test_shares_are_compared_below_the_lowest_common_cohort() -> None:
    """Source: getAlmostLCAs, least_common_ancestor.go: cohort `right` borrows, although `r` is one of many queues."""
    cohorts = (Cohort("left", "root"), Cohort("right", "root"))
    queues = [
        make_queue(name, {"cpu": {"cpu": 3}}, cohort, preemption=RECLAIMS)
        for name, cohort in (("q", "left"), ("p", "left"), ("r", "right"), ("s", "right"))
    ]
    model = make_shared(*queues, cohorts=cohorts)
    # `left` as a whole borrows nothing, also with one more for `q`, which borrows 2 then.
    admitted = [*using("q", *[9] * 4), *using("r", *[0] * 5), *using("s", *[0] * 3)]
    assert preempted(asking(priority=5), model, *admitted) == ["r4"]


def test_between_equal_shares_of_cohorts_the_verdict_is_unknown() -> None:
    """Source: nextTarget, ordering.go: the last of a set wins, whose order is random."""
    cohorts = (Cohort("mine", "root"), Cohort("left", "root"), Cohort("right", "root"))
    queues = [
        make_queue(name, {"cpu": {"cpu": 3}}, cohort, preemption=RECLAIMS)
        for name, cohort in (("q", "mine"), ("r", "left"), ("s", "right"))
    ]
    model = make_shared(*queues, cohorts=cohorts)
    admitted = [*using("r", *[0] * 4), *using("s", *[0] * 4)]
    found = simulate(asking(2), model, admitted=admitted)
    assert (found.outcome, found.reasons[0].cause) == ("unknown", "in-use")
    assert "leaves to chance" in found.reasons[0].message
    uneven = [*using("r", *[0] * 4), *using("s", *[0] * 5)]
    assert preempted(asking(1), model, *uneven) == ["s4"]


def test_the_verdict_on_a_case_that_crashes_kueue_is_unknown() -> None:
    """Source: Iter, ordering.go, which reads the cohort of a queue without one after its last candidate."""
    model = make_model(make_queue(preemption=RECLAIMS), fair_sharing=BOTH)
    admitted = [make_admitted("low", cpu=1), make_admitted("high", cpu=3, priority=9)]
    found = simulate(asking(2, priority=5), model, admitted=admitted)
    assert found.outcome == "unknown"
    assert "crashes" in found.reasons[0].message
    assert preempted(asking(1, priority=5), model, *admitted) == ["low"]


def test_simulated_preemption_is_undone() -> None:
    """The usage of the preemptor, which counts in the shares, is removed again."""
    model = make_shared("q", "r")
    admitted = [*using("q", *[9] * 1), *using("r", 0, cpu=5)]
    for strategies in (BOTH, BOTH[:1]):
        snapshot = Snapshot(replace(model, fair_sharing=strategies), admitted)
        before = {
            name: dict(node.usage) for name, node in (*snapshot.tree.queues.items(), *snapshot.tree.cohorts.items())
        }
        scheduler = Scheduler(replace(model, fair_sharing=strategies), admitted)
        scheduler.submit(asking(3))
        scheduler._heads()
        tree = scheduler._snapshot.tree
        assert before == {name: dict(node.usage) for name, node in (*tree.queues.items(), *tree.cohorts.items())}


def admitted_in_order(model: Model, *workloads: Workload, before: tuple[AdmittedWorkload, ...] = ()) -> list[str]:
    scheduler = Scheduler(model, before)
    for workload in workloads:
        scheduler.submit(workload)
    return [event.key.removeprefix("ns/") for event in scheduler.settle(0.0)]


def test_the_head_with_the_lowest_share_after_its_admission_is_first() -> None:
    """Source: runTournament, fair_sharing_iterator.go: in classical order priority decides, and here the share."""
    none = {"cpu": {"cpu": 0}}
    queues = make_queue("q", none, "lab"), make_queue("r", none, "lab"), make_queue("s", {"cpu": {"cpu": 3}}, "lab")
    heads = asking(2, "q", name="large", priority=9), asking(1, "r", name="small")
    last = make_admitted("used", "s", cpu=1)
    assert admitted_in_order(make_shared(*queues), *heads, before=(last,)) == ["small"]
    assert admitted_in_order(make_shared(*queues, fair_sharing=()), *heads, before=(last,)) == ["large"]


def test_each_admission_changes_the_shares_of_the_next() -> None:
    """Source: computeDRS, fair_sharing_iterator.go, in every pop; equal shares go by priority, then by time."""
    none = {"cpu": {"cpu": 0}}
    queues = *(make_queue(name, none, "lab") for name in "qr"), make_queue("s", {"cpu": {"cpu": 4}}, "lab")
    heads = [asking(1, "q", name=f"q{turn}", created=float(turn)) for turn in range(3)]
    heads += [asking(1, "r", name=f"r{turn}", created=9.0 + turn) for turn in range(2)]
    assert admitted_in_order(make_shared(*queues), *heads) == ["q0", "r0", "q1", "r1"]
    first = replace(heads[3], priority=5)
    assert admitted_in_order(make_shared(*queues), *heads[:3], first)[0] == "r0"


def test_shares_of_cohorts_decide_above_those_of_queues() -> None:
    """Source: runTournament, fair_sharing_iterator.go, from the cohorts at the bottom to the root."""
    cohorts = (Cohort("left", "root"), Cohort("right", "root"), Cohort("bank", "root"))
    none = {"cpu": {"cpu": 0}}
    queues = [make_queue(name, none, cohort) for name, cohort in (("q", "left"), ("p", "left"), ("r", "right"))]
    model = make_shared(*queues, make_queue("s", {"cpu": {"cpu": 5}}, "bank"), cohorts=cohorts)
    before = make_admitted("busy", "p", cpu=2), make_admitted("used", "s", cpu=1)
    # `q` borrows nothing so far and `r` 1, but `left` 2 and `right` 1.
    late = asking(2, "r", name="late", created=9.0)
    early = asking(2, "q", name="early")
    assert admitted_in_order(model, early, late, before=(*before, make_admitted("r0", "r", cpu=0))) == ["late"]


def of_release(model: Model, name: str, **gates: bool) -> Model:
    release = release_of(name)
    return replace(model, release=release, gates=FeatureGates.read({"featureGates": gates}, release.gates))


def test_within_its_nominal_quota_a_queue_preempts_without_regard_to_shares_since_v0_17() -> None:
    """Source: runFirstFsStrategy, preemption.go of v0.17: `q` borrows memory, and requests 2 cpu of its own quota."""
    quotas = {"cpu": {"cpu": 2, "memory": 8}}
    queues = [make_queue(name, quotas, "lab", preemption=RECLAIMS) for name in ("q", "r")]
    borrowing = AdmittedWorkload(make_workload(name="mem"), "q", {("cpu", "memory"): 14})
    model, admitted = make_shared(*queues), (borrowing, *using("r", 0, 0, 0))
    assert preempted(asking(2), of_release(model, "v0.16.2"), *admitted) == []
    assert preempted(asking(2), of_release(model, "v0.17.0"), *admitted) == ["r2"]
    off = of_release(model, "v0.17.0", FairSharingPreemptWithinNominal=False)
    assert preempted(asking(2), off, *admitted) == []
    assert preempted(asking(3), of_release(model, "v0.17.0"), *admitted) == []


def test_a_queue_that_borrows_quota_that_cannot_be_lent_is_preempted_since_v0_17() -> None:
    """Source: nextTarget, ordering.go of v0.17: `q` lends nothing, so the share of `r` is 0."""
    keeping = make_queue("q", {"cpu": {"cpu": (2, None, 0)}}, "lab", preemption=RECLAIMS)
    model, admitted = make_shared(keeping, make_queue("r", {"cpu": {"cpu": 0}}, "lab")), using("r", 0)
    snapshot = Snapshot(model, admitted)
    assert share(snapshot.tree.queues["r"]) == NO_SHARE
    assert [borrows(snapshot.tree.queues[name]) for name in "qr"] == [False, True]
    assert preempted(asking(2), of_release(model, "v0.16.2"), *admitted) == []
    assert preempted(asking(2), of_release(model, "v0.17.0"), *admitted) == ["r0"]


MEMORY = {("cpu", "memory"): 50}


@pytest.mark.parametrize(("release", "first"), [("v0.15.2", "borrows"), ("v0.16.2", "nominal"), ("v0.17.0", "nominal")])
def test_a_workload_that_does_not_borrow_is_first_since_v0_16(release: str, first: str) -> None:
    """Source: less, fair_sharing_iterator.go: `r` has the larger share, because it borrows memory."""
    queues = [
        make_queue(name, {"cpu": {"cpu": cpu, "memory": memory}}, "lab")
        for name, cpu, memory in (("q", 0, 0), ("r", 2, 0), ("s", 4, 100))
    ]
    before = AdmittedWorkload(make_workload(name="mem"), "r", MEMORY), make_admitted("used", "s", cpu=5)
    heads = asking(1, "q", name="borrows"), asking(1, "r", name="nominal", created=9.0)
    model = of_release(make_shared(*queues), release)
    assert admitted_in_order(model, *heads, before=before) == [first]
    if first == "nominal":
        off = of_release(make_shared(*queues), release, FairSharingPrioritizeNonBorrowing=False)
        assert admitted_in_order(off, *heads, before=before) == ["borrows"]


@pytest.mark.parametrize(("release", "first"), [("v0.15.2", "inner"), ("v0.16.2", "nominal"), ("v0.17.0", "inner")])
def test_at_each_level_the_cohort_decides_whether_it_borrows_since_v0_17(release: str, first: str) -> None:
    """Source: less, fair_sharing_iterator.go: `q` borrows from `p` in `left`, and `left` nothing from the root."""
    cohorts = Cohort("left", "root"), Cohort("right", "root")
    queues = [
        make_queue(name, {"cpu": {"cpu": cpu, "memory": memory}}, cohort)
        for name, cohort, cpu, memory in (("q", "left", 0, 0), ("p", "left", 1, 0), ("r", "right", 1, 0))
    ]
    bank = make_queue("s", {"cpu": {"cpu": 0, "memory": 100}}, "root")
    model = of_release(make_shared(*queues, bank, cohorts=cohorts), release)
    heads = asking(1, "q", name="inner"), asking(1, "r", name="nominal")
    before = (AdmittedWorkload(make_workload(name="mem"), "r", MEMORY),)
    assert admitted_in_order(model, *heads, before=before)[0] == first
