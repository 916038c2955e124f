"""Crowds in the queues of the real Kueue."""

from collections.abc import Sequence

from tests.admission.bench import SLOTS, Bench, assigned_flavors, has_reservation, key, namespace
from tests.admission.cases import PREFIX
from tests.admission.crowds import CLASSES, Admissions, Crowd, outcomes
from tests.admission.kueue import Body, wait_until


def admitted_by_kueue(bench: Bench, crowds: Sequence[Crowd]) -> list[list[Admissions]]:
    """Return the admitted Jobs of many crowds, after the gate opens and after each later Job."""
    bench.api.create(CLASSES)
    return [
        admissions
        for start in range(0, len(crowds), SLOTS)
        for admissions in _batch(bench, crowds[start : start + SLOTS])
    ]


def _batch(bench: Bench, crowds: Sequence[Crowd]) -> list[list[Admissions]]:
    prefixes = bench.next_prefixes()[: len(crowds)]
    named = [crowd.with_names(prefixes[slot], namespace(slot)) for slot, crowd in enumerate(crowds)]
    try:
        bench.create_environment([body for crowd in named for body in crowd.objects[:-1]])
        return _observe(bench, named, prefixes, [outcomes(crowd) for crowd in crowds])
    finally:
        jobs = [body for crowd in named for body in (*crowd.jobs, *crowd.later)]
        bench.api.delete(jobs)
        wait_until(
            "the Workloads are gone", lambda: not {key(body) for body in jobs} & bench.workloads().keys(), seconds=300
        )
        bench.api.delete(body for crowd in named for body in crowd.objects)


def _observe(
    bench: Bench, named: Sequence[Crowd], prefixes: Sequence[str], predicted: Sequence[Sequence[Admissions]]
) -> list[list[Admissions]]:
    for turn in range(max(len(crowd.jobs) for crowd in named)):
        _join(bench, [crowd.jobs[turn] for crowd in named if turn < len(crowd.jobs)])
    found: list[list[Admissions]] = [[] for _ in named]
    bench.api.create(crowd.objects[-1] for crowd in named)
    _settle(bench, named, prefixes, predicted, found)
    for turn in range(max(len(crowd.later) for crowd in named)):
        _join(bench, [crowd.later[turn] for crowd in named if turn < len(crowd.later)])
        _settle(bench, named, prefixes, predicted, found)
    return [admissions[: 1 + len(crowd.later)] for admissions, crowd in zip(found, named, strict=True)]


def _join(bench: Bench, jobs: Sequence[Body]) -> None:
    """Create Jobs; Kueue orders them by the creation times of their Workloads."""
    bench.api.create(jobs)
    names = {key(body) for body in jobs}
    bench.await_prediction(lambda: names <= bench.workloads().keys())


def _settle(
    bench: Bench,
    named: Sequence[Crowd],
    prefixes: Sequence[str],
    predicted: Sequence[Sequence[Admissions]],
    found: list[list[Admissions]],
) -> None:
    """Return the admitted Jobs, once the prediction is true and no further cycle changes them."""

    def now() -> list[Admissions]:
        live = bench.workloads()
        return [_admitted(crowd, prefix, live) for crowd, prefix in zip(named, prefixes, strict=True)]

    turn = len(found[0])
    expected = [admissions[min(turn, len(admissions) - 1)] for admissions in predicted]
    bench.await_prediction(lambda: now() == expected)
    bench.pass_fences()
    for admissions, current in zip(found, now(), strict=True):
        admissions.append(current)


def _admitted(crowd: Crowd, prefix: str, live: dict[str, Body]) -> Admissions:
    def own(name: str) -> str:
        return name.replace(prefix, PREFIX)

    result: Admissions = {}
    for body in (*crowd.jobs, *crowd.later):
        workload = live.get(key(body), {})
        if has_reservation(workload):
            (pods,) = assigned_flavors(workload, own).values()
            result[own(body["metadata"]["name"])] = pods
    return result
