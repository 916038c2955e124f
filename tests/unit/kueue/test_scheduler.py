"""Scheduling of many workloads at one instant: admissions, their order, and evictions."""

from dataclasses import replace

import pytest

from bench.programs import forecast_many
from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.model import Flavor, LocalQueue, Model, Preemption, Requirement, Workload
from trainstack.kueue.scheduler import Scheduler, UnsettledError

LOWER = Preemption(within_cluster_queue="LowerPriority")


def make_run(name: str, cpu: int | str = 1, queue: str = "q", **changes: object) -> Workload:
    """Return a workload with one pod."""
    return make_workload(make_pods(cpu=cpu), queue=queue, name=name, **changes)


def settled(model: Model, *workloads: Workload) -> list[str]:
    """Return the events after all of these are submitted: `+name` admitted, `-name` evicted."""
    scheduler = Scheduler(model)
    for workload in workloads:
        scheduler.submit(workload)
    return events_of(scheduler)


def events_of(scheduler: Scheduler) -> list[str]:
    """Return the events until the scheduler has settled."""
    signs = {"admitted": "+", "evicted": "-"}
    return [f"{signs[event.kind]}{event.key.partition('/')[2]}" for event in scheduler.settle(0.0)]


def test_workloads_are_ordered_by_priority_and_then_by_age() -> None:
    """The order of submission does not matter."""
    runs = [make_run("young", created=3.0), make_run("old", created=1.0), make_run("first", created=9.0, priority=5)]
    assert settled(make_model(make_queue()), *runs) == ["+first", "+old", "+young"]


def test_small_workloads_pass_one_that_does_not_fit_unless_the_queue_is_strict() -> None:
    """They do so in a BestEffortFIFO queue, not in a StrictFIFO queue."""
    runs = [make_run("large", 9, created=1.0), make_run("small", 1, created=2.0)]
    assert settled(make_model(make_queue()), *runs) == ["+small"]
    assert settled(make_model(make_queue(is_strict_fifo=True)), *runs) == []


def test_a_head_that_does_not_borrow_is_admitted_before_one_that_does() -> None:
    """Afterwards the borrower no longer fits."""
    model = make_model(make_queue("q", {"cpu": {"cpu": 0}}, "lab"), make_queue("r", {"cpu": {"cpu": 4}}, "lab"))
    runs = [make_run("borrower", 3, "q", priority=9), make_run("owner", 3, "r")]
    assert settled(model, *runs) == ["+owner"]


def test_finished_workloads_release_quota_for_others() -> None:
    """Workloads of the whole cohort can use it, in their order."""
    model = make_model(make_queue("q", cohort="lab"), make_queue("r", {"cpu": {"cpu": 0}}, "lab"))
    scheduler = Scheduler(model)
    for run in (make_run("one", 4), make_run("two", 4, created=1.0), make_run("three", 3, "r", created=2.0)):
        scheduler.submit(run)
    assert events_of(scheduler) == ["+one"]
    assert [workload.name for workload in scheduler.waiting_workloads()] == ["two", "three"]
    scheduler.finish("ns/one")
    assert events_of(scheduler) == ["+two"]
    scheduler.finish("ns/two")
    assert events_of(scheduler) == ["+three"]
    assert [scheduler._snapshot.tree.queues[name].usage for name in "qr"] == [
        {("cpu", "cpu"): 0},
        {("cpu", "cpu"): 3000},
    ]


def test_an_evicted_workload_waits_again() -> None:
    """The event has the preemptor. The workload is admitted again when quota is free."""
    scheduler = Scheduler(make_model(make_queue(preemption=LOWER)))
    scheduler.submit(make_run("low", 3))
    assert events_of(scheduler) == ["+low"]
    scheduler.submit(make_run("high", 3, priority=5))
    events = scheduler.settle(7.0)
    assert [(event.kind, event.key, event.preemptor, event.time) for event in events] == [
        ("evicted", "ns/low", "ns/high", 7.0),
        ("admitted", "ns/high", "", 7.0),
    ]
    scheduler.finish("ns/high")
    assert events_of(scheduler) == ["+low"]


@pytest.mark.parametrize("cycles", [0, 1, 5])
def test_the_duration_of_an_eviction_does_not_matter(cycles: int) -> None:
    """Their quota is reserved for the preemptor."""
    scheduler = Scheduler(
        make_model(make_queue(preemption=LOWER)), [make_admitted("low", cpu=4)], eviction_cycles=cycles
    )
    scheduler.submit(make_run("high", 3, priority=5))
    scheduler.submit(make_run("tiny", 2, priority=1, created=1.0))
    assert events_of(scheduler) == ["-low", "+high"]


def test_a_queue_that_cannot_reclaim_its_quota_does_not_lend_it_while_its_head_waits() -> None:
    """The head of a strict queue waits for quota that its queue uses; with `Any` others may borrow the rest."""

    def admitted(preemption: Preemption) -> list[str]:
        own = make_queue("q", {"cpu": {"cpu": 4}}, "lab", is_strict_fifo=True, preemption=preemption)
        model = make_model(own, make_queue("r", {"cpu": {"cpu": 1}}, "lab"))
        scheduler = Scheduler(model, [make_admitted("used", "q", cpu=2)])
        scheduler.submit(make_run("own", 4, "q"))
        scheduler.submit(make_run("borrower", 2, "r"))
        return events_of(scheduler)

    assert admitted(Preemption(reclaim_within_cohort="Any")) == ["+borrower"]
    assert admitted(Preemption(reclaim_within_cohort="LowerPriority")) == []


def test_workloads_of_closed_queues_and_queues_on_hold_wait() -> None:
    """No other workload waits for them."""
    model = make_model(
        make_queue("q", namespace_selector=(Requirement("team", "In", ("red",)),)),
        make_queue("r", stop_policy="Hold"),
        make_queue("s"),
    )
    local = {**(model.local_queues or {}), ("ns", "t"): LocalQueue("ns", "t", "s", "Hold")}
    scheduler = Scheduler(replace(model, local_queues=local))
    for name in ("q", "r", "t", "nowhere"):
        scheduler.submit(make_run(name, queue=name))
    assert events_of(scheduler) == []
    assert [workload.name for workload in scheduler.waiting_workloads()] == ["q", "r", "t", "nowhere"]
    scheduler.finish("ns/r")
    assert [workload.name for workload in scheduler.waiting_workloads()] == ["q", "t", "nowhere"]


def test_thousands_of_equal_workloads_cost_one_attempt() -> None:
    """They are tried again when quota is released."""
    scheduler = Scheduler(make_model(make_queue()))
    for number in range(5000):
        scheduler.submit(make_run(f"r{number}", 2, created=float(number)))
    assert events_of(scheduler) == ["+r0", "+r1"]
    for number in range(2, 200):
        scheduler.finish(f"ns/r{number - 2}")
        assert events_of(scheduler) == [f"+r{number}"]
    assert len(scheduler.waiting_workloads()) == 4800


def test_of_workloads_admitted_at_one_instant_the_last_is_preempted_first() -> None:
    """Their priorities are equal."""
    scheduler = Scheduler(make_model(make_queue(preemption=LOWER)))
    for number in range(4):
        scheduler.submit(make_run(f"r{3 - number}", created=float(number)))
    assert events_of(scheduler) == ["+r3", "+r2", "+r1", "+r0"]
    scheduler.submit(make_run("high", 1, priority=5))
    assert events_of(scheduler) == ["-r0", "+high"]


def test_endless_mutual_evictions_are_reported_or_end() -> None:
    """A workload borrows and preempts in its queue, another queue reclaims its quota, and so on."""

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
    first = next(iter(scheduler.waiting_workloads()))
    scheduler.finish(first.key)
    assert first not in scheduler.waiting_workloads()


def test_paced_cycles_take_time_and_stop_at_the_next_event() -> None:
    """Ten workloads that do not fit are tried, 0.1 s apart, before the small one, unless an event restarts them."""

    def crowded() -> Scheduler:
        scheduler = Scheduler(make_model(make_queue()), [make_admitted("used", cpu=2)], paced=True)
        for number in range(10):
            scheduler.submit(make_run(f"large{number}", 3, created=float(number)))
        scheduler.submit(make_run("small", 1, created=10.0))
        return scheduler

    (event,) = crowded().advance(5.0)
    assert (event.key, round(event.time, 3)) == ("ns/small", 5.327)
    waiting = crowded()
    assert waiting.advance(5.0, until=5.3) == []
    waiting.finish("ns/used")
    assert [event.key for event in waiting.advance(5.3)] == ["ns/large0"]


def test_all_workloads_are_tried_again_shortly_after_one_has_finished() -> None:
    """Kueue updates the finished Workload: those that were tried meanwhile are tried again before the others."""
    scheduler = Scheduler(make_model(make_queue()), [make_admitted("used", cpu=2), make_admitted("gone")], paced=True)
    for number in range(10):
        scheduler.submit(make_run(f"large{number}", 3, created=float(number)))
    scheduler.submit(make_run("small", 2, created=10.0))
    assert scheduler.advance(0.0, until=5.0) == []
    scheduler.finish("ns/gone")
    (event,) = scheduler.advance(5.0)
    # Two are tried at 5.0, and all again from 5.1 on.
    assert (event.key, round(event.time, 3)) == ("ns/small", 6.1)


def test_an_eviction_takes_time_and_the_preemptor_is_tried_meanwhile() -> None:
    """The quota is released after 0.4 s; the next cycle admits the preemptor, and the other workload waits."""
    scheduler = Scheduler(make_model(make_queue(preemption=LOWER)), [make_admitted("low", cpu=4)], paced=True)
    scheduler.submit(make_run("high", 3, priority=9))
    (evicted,) = scheduler.advance(0.0)
    assert (evicted.kind, evicted.key, evicted.time) == ("evicted", "ns/low", 0.0)
    assert scheduler.advance(0.0, until=0.4) == []
    (admitted,) = scheduler.advance(0.4)
    # Its cycles were 1, 2, 4, … 64, 100 ms apart.
    assert (admitted.kind, admitted.key, round(admitted.time, 3)) == ("admitted", "ns/high", 0.427)
    assert [workload.key for workload in scheduler.waiting_workloads()] == ["ns/low"]


def test_a_preemptor_stays_the_head_until_it_is_admitted() -> None:
    """This holds although it does not fit at first and a workload of higher priority is submitted."""
    scheduler = Scheduler(make_model(make_queue(preemption=LOWER)), [make_admitted("low", cpu=4)], eviction_cycles=9)
    scheduler.submit(make_run("middle", 3, priority=5))
    assert [event.kind for event in scheduler.advance(0.0)] == ["evicted"]
    scheduler.submit(make_run("high", 3, priority=9, created=1.0))
    assert events_of(scheduler)[0] == "+middle"


@pytest.mark.parametrize(("frees", "flavors"), [(False, ["two", "one"]), (True, ["one", "one"])])
def test_flavors_are_tried_from_the_first_again_after_a_release_of_quota(frees: bool, flavors: list[str]) -> None:
    """Otherwise from the next one: the first pod set uses quota of flavor one that the second needs."""
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


def test_a_workload_without_a_reservation_does_not_delay_others() -> None:
    """A workload waits in vain before a third one, which is admitted directly after the first two were tried."""

    lower_priority = Preemption(within_cluster_queue="LowerPriority")
    none = {"cpu": {"cpu": 0}}
    queues = (
        make_queue("q", None, "lab", preemption=lower_priority),
        make_queue("r", none, "lab"),
        make_queue("s", none, "lab"),
    )
    scheduler = Scheduler(make_model(*queues), [make_admitted("used", "q", cpu=2, priority=9)], paced=True)
    for run in (make_run("own", 4, "q"), make_run("borrower", 2, "s", created=9.0)):
        scheduler.submit(run)
    for number in range(5):
        # Each of the three pod sets fits alone, but never all of them.
        sets = [make_pods(f"set{index}", cpu=2) for index in range(3)]
        scheduler.submit(make_workload(*sets, queue="r", name=f"large{number}", created=float(number)))
    (event,) = scheduler.advance(0.0)
    assert (event.key, event.time) == ("ns/borrower", 0.0)
