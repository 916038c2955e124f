"""Many workloads at one instant: who is admitted, in which order, who has to go."""

from dataclasses import replace

import pytest

from bench.programs import forecast_many
from tests.unit.checks.admission.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.model import Flavor, LocalQueue, Model, Preemption, Requirement, Workload
from trainstack.kueue.scheduler import Scheduler, UnsettledError

LOWER = Preemption(within_cluster_queue="LowerPriority")


def make_run(name: str, cpu: int | str = 1, queue: str = "q", **changes: object) -> Workload:
    """A workload of one pod."""
    return make_workload(make_pods(cpu=cpu), queue=queue, name=name, **changes)


def settled(model: Model, *workloads: Workload) -> list[str]:
    """What happens when all of these are there at once: `+name` admitted, `-name` evicted."""
    scheduler = Scheduler(model)
    for workload in workloads:
        scheduler.submit(workload)
    return said(scheduler)


def said(scheduler: Scheduler) -> list[str]:
    """What happens now."""
    signs = {"admitted": "+", "evicted": "-"}
    return [f"{signs[event.kind]}{event.key.partition('/')[2]}" for event in scheduler.settle(0.0)]


def test_priority_comes_first_and_then_age() -> None:
    """Whatever the order in which they joined."""
    runs = [make_run("young", created=3.0), make_run("old", created=1.0), make_run("first", created=9.0, priority=5)]
    assert settled(make_model(make_queue()), *runs) == ["+first", "+old", "+young"]


def test_small_ones_pass_one_that_does_not_fit_unless_the_queue_is_strict() -> None:
    """BestEffortFIFO and StrictFIFO."""
    runs = [make_run("large", 9, created=1.0), make_run("small", 1, created=2.0)]
    assert settled(make_model(make_queue()), *runs) == ["+small"]
    assert settled(make_model(make_queue(strict=True)), *runs) == []


def test_what_does_not_borrow_comes_before_what_does() -> None:
    """Among the heads of a cohort; then it no longer fits."""
    model = make_model(make_queue("q", {"cpu": {"cpu": 0}}, "lab"), make_queue("r", {"cpu": {"cpu": 4}}, "lab"))
    runs = [make_run("borrower", 3, "q", priority=9), make_run("owner", 3, "r")]
    assert settled(model, *runs) == ["+owner"]


def test_who_finishes_lets_others_in() -> None:
    """Those of the whole cohort, in their order."""
    model = make_model(make_queue("q", cohort="lab"), make_queue("r", {"cpu": {"cpu": 0}}, "lab"))
    scheduler = Scheduler(model)
    for run in (make_run("one", 4), make_run("two", 4, created=1.0), make_run("three", 3, "r", created=2.0)):
        scheduler.submit(run)
    assert said(scheduler) == ["+one"]
    assert [each.name for each in scheduler.waiting()] == ["two", "three"]
    scheduler.finish("ns/one")
    assert said(scheduler) == ["+two"]
    scheduler.finish("ns/two")
    assert said(scheduler) == ["+three"]
    assert [scheduler._snapshot.tree.queues[name].usage for name in "qr"] == [
        {("cpu", "cpu"): 0},
        {("cpu", "cpu"): 3000},
    ]


def test_who_is_evicted_waits_again() -> None:
    """The event says for whom; it comes back once there is room."""
    scheduler = Scheduler(make_model(make_queue(preemption=LOWER)))
    scheduler.submit(make_run("low", 3))
    assert said(scheduler) == ["+low"]
    scheduler.submit(make_run("high", 3, priority=5))
    events = scheduler.settle(7.0)
    assert [(event.kind, event.key, event.by, event.at) for event in events] == [
        ("evicted", "ns/low", "ns/high", 7.0),
        ("admitted", "ns/high", "", 7.0),
    ]
    scheduler.finish("ns/high")
    assert said(scheduler) == ["+low"]


@pytest.mark.parametrize("cycles", [0, 1, 5])
def test_how_long_evicted_pods_take_to_end_does_not_matter_here(cycles: int) -> None:
    """Meanwhile what they leave is kept for who evicts them."""
    scheduler = Scheduler(
        make_model(make_queue(preemption=LOWER)), [make_admitted("low", cpu=4)], eviction_cycles=cycles
    )
    scheduler.submit(make_run("high", 3, priority=5))
    scheduler.submit(make_run("tiny", 2, priority=1, created=1.0))
    assert said(scheduler) == ["-low", "+high"]


def test_who_is_not_sure_to_get_his_own_back_keeps_it_from_others() -> None:
    """The head of a strict queue waits for quota that its own queue uses; with `Any` others may borrow the rest."""

    def admitted(preemption: Preemption) -> list[str]:
        own = make_queue("q", {"cpu": {"cpu": 4}}, "lab", strict=True, preemption=preemption)
        model = make_model(own, make_queue("r", {"cpu": {"cpu": 1}}, "lab"))
        scheduler = Scheduler(model, [make_admitted("used", "q", cpu=2)])
        scheduler.submit(make_run("own", 4, "q"))
        scheduler.submit(make_run("borrower", 2, "r"))
        return said(scheduler)

    assert admitted(Preemption(reclaim_within_cohort="Any")) == ["+borrower"]
    assert admitted(Preemption(reclaim_within_cohort="LowerPriority")) == []


def test_queues_on_hold_and_closed_ones_hold_theirs() -> None:
    """They wait, and nobody waits for them."""
    model = make_model(
        make_queue("q", namespaces=(Requirement("team", "In", ("red",)),)),
        make_queue("r", stop_policy="Hold"),
        make_queue("s"),
    )
    local = {**(model.local_queues or {}), ("ns", "t"): LocalQueue("ns", "t", "s", "Hold")}
    scheduler = Scheduler(replace(model, local_queues=local))
    for name in ("q", "r", "t", "nowhere"):
        scheduler.submit(make_run(name, queue=name))
    assert said(scheduler) == []
    assert [each.name for each in scheduler.waiting()] == ["q", "r", "t", "nowhere"]
    scheduler.finish("ns/r")
    assert [each.name for each in scheduler.waiting()] == ["q", "t", "nowhere"]


def test_thousands_alike_cost_one_attempt() -> None:
    """They are tried again when quota changes hands."""
    scheduler = Scheduler(make_model(make_queue()))
    for number in range(5000):
        scheduler.submit(make_run(f"r{number}", 2, created=float(number)))
    assert said(scheduler) == ["+r0", "+r1"]
    for number in range(2, 200):
        scheduler.finish(f"ns/r{number - 2}")
        assert said(scheduler) == [f"+r{number}"]
    assert len(scheduler.waiting()) == 4800


def test_of_those_admitted_at_one_instant_the_last_is_the_latest() -> None:
    """Of equal priority it is evicted first."""
    scheduler = Scheduler(make_model(make_queue(preemption=LOWER)))
    for number in range(4):
        scheduler.submit(make_run(f"r{3 - number}", created=float(number)))
    assert said(scheduler) == ["+r3", "+r2", "+r1", "+r0"]
    scheduler.submit(make_run("high", 1, priority=5))
    assert said(scheduler) == ["-r0", "+high"]


def test_workloads_that_evict_each_other_for_ever_come_to_rest() -> None:
    """One borrows and evicts in its queue, another queue takes its own back, and so on: told, or ended by a rest."""

    def crowded() -> Scheduler:
        scheduler = Scheduler(forecast_many.model())
        for task in forecast_many.tasks(150, seed=3):
            scheduler.submit(task.workload)
        return scheduler

    with pytest.raises(UnsettledError, match="take each other's quota endlessly"):
        crowded().settle(0.0)
    scheduler, events = crowded(), 0
    while done := scheduler.advance(0.0):
        events += len(done)
    assert 60 < events < 1000
    first = next(each for each in scheduler.waiting())
    scheduler.finish(first.key)
    assert first not in scheduler.waiting()


def test_cycles_take_their_time_and_end_where_something_else_happens() -> None:
    """Ten that do not fit are tried a tenth of a second apart before the small one; not, if all begin anew before."""

    def crowded() -> Scheduler:
        scheduler = Scheduler(make_model(make_queue()), [make_admitted("used", cpu=2)], paced=True)
        for number in range(10):
            scheduler.submit(make_run(f"large{number}", 3, created=float(number)))
        scheduler.submit(make_run("small", 1, created=10.0))
        return scheduler

    (event,) = crowded().advance(5.0)
    assert (event.key, round(event.at, 3)) == ("ns/small", 5.327)
    waiting = crowded()
    assert waiting.advance(5.0, until=5.3) == []
    waiting.finish("ns/used")
    assert [each.key for each in waiting.advance(5.3)] == ["ns/large0"]


def test_all_are_tried_once_more_shortly_after_an_end() -> None:
    """Kueue puts the ended one's record in order: who was tried meanwhile is tried again before those behind it."""
    scheduler = Scheduler(make_model(make_queue()), [make_admitted("used", cpu=2), make_admitted("gone")], paced=True)
    for number in range(10):
        scheduler.submit(make_run(f"large{number}", 3, created=float(number)))
    scheduler.submit(make_run("small", 2, created=10.0))
    assert scheduler.advance(0.0, until=5.0) == []
    scheduler.finish("ns/gone")
    (event,) = scheduler.advance(5.0)
    # Two at 5.0, and all again from 5.1 on.
    assert (event.key, round(event.at, 3)) == ("ns/small", 6.1)


def test_an_eviction_takes_its_time_and_who_evicts_is_tried_meanwhile() -> None:
    """Quota comes back after 0.4 s; then the one whom it was for is admitted by the next cycle, and the other waits."""
    scheduler = Scheduler(make_model(make_queue(preemption=LOWER)), [make_admitted("low", cpu=4)], paced=True)
    scheduler.submit(make_run("high", 3, priority=9))
    (evicted,) = scheduler.advance(0.0)
    assert (evicted.kind, evicted.key, evicted.at) == ("evicted", "ns/low", 0.0)
    assert scheduler.advance(0.0, until=0.4) == []
    (admitted,) = scheduler.advance(0.4)
    # Its cycles were 1, 2, 4, … 64, 100 ms apart.
    assert (admitted.kind, admitted.key, round(admitted.at, 3)) == ("admitted", "ns/high", 0.427)
    assert [each.key for each in scheduler.waiting()] == ["ns/low"]


def test_who_has_evicted_others_stays_in_front_of_all_until_it_is_admitted() -> None:
    """Although somebody of higher priority comes meanwhile, and although it does not fit for a while."""
    scheduler = Scheduler(make_model(make_queue(preemption=LOWER)), [make_admitted("low", cpu=4)], eviction_cycles=9)
    scheduler.submit(make_run("middle", 3, priority=5))
    assert [event.kind for event in scheduler.advance(0.0)] == ["evicted"]
    scheduler.submit(make_run("high", 3, priority=9, created=1.0))
    assert said(scheduler)[0] == "+middle"


@pytest.mark.parametrize(("frees", "flavors"), [(False, ["two", "one"]), (True, ["one", "one"])])
def test_flavors_are_tried_from_the_first_again_once_quota_of_the_queue_changes_hands(
    frees: bool, flavors: list[str]
) -> None:
    """Else from the next one: the first pods take of flavor one what the second ones need of it."""
    quotas = {"one": {"cpu": 4}, "two": {"cpu": 4}}
    labelled = {name: Flavor(name, {"node": name}) for name in quotas}
    model = make_model(make_queue("q", quotas), make_queue("r", quotas), flavors=labelled)
    scheduler = Scheduler(model, [make_admitted("used", "q", "one")])
    second = replace(make_pods("second", cpu=2), selector={"node": "one"})
    scheduler.submit(make_workload(make_pods("first", cpu=2), second))
    scheduler.submit(make_run("other", queue="r"))
    assert [event.key for event in scheduler.advance(0.0)] == ["ns/other"]
    if frees:
        scheduler.finish("ns/used")
    (event,) = scheduler.advance(0.0)
    assert [pods.flavors["cpu"] for pods in event.assigned] == flavors


def test_who_keeps_nothing_free_is_no_reason_to_pass_over_cycles() -> None:
    """One of two waits in vain before a third: once both had their turn it is admitted, and not later."""

    waits = Preemption(within_cluster_queue="LowerPriority")
    none = {"cpu": {"cpu": 0}}
    queues = (
        make_queue("q", None, "lab", preemption=waits),
        make_queue("r", none, "lab"),
        make_queue("s", none, "lab"),
    )
    scheduler = Scheduler(make_model(*queues), [make_admitted("used", "q", cpu=2, priority=9)], paced=True)
    for run in (make_run("own", 4, "q"), make_run("borrower", 2, "s", created=9.0)):
        scheduler.submit(run)
    for number in range(5):
        # Each of the three fits, but not all of them ever.
        sets = [make_pods(f"set{index}", cpu=2) for index in range(3)]
        scheduler.submit(make_workload(*sets, queue="r", name=f"large{number}", created=float(number)))
    (event,) = scheduler.advance(0.0)
    assert (event.key, event.at) == ("ns/borrower", 0.0)
