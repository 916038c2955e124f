"""Crowds in the queues of the real Kueue."""

from collections.abc import Sequence

from tests.admission.bench import SLOTS, Bench, assigned_flavors, key, namespace, reserves
from tests.admission.cases import PREFIX
from tests.admission.crowds import CLASSES, Crowd, Given, outcomes
from tests.admission.kueue import Body, until


def observed(bench: Bench, crowds: Sequence[Crowd]) -> list[list[Given]]:
    """Return the admitted Jobs of many crowds, after the gate opens and after each later Job."""
    bench.api.create(CLASSES)
    return [each for start in range(0, len(crowds), SLOTS) for each in _batch(bench, crowds[start : start + SLOTS])]


def _batch(bench: Bench, crowds: Sequence[Crowd]) -> list[list[Given]]:
    prefixes = bench.next_prefixes()[: len(crowds)]
    named = [each.named(prefixes[slot], namespace(slot)) for slot, each in enumerate(crowds)]
    try:
        bench.create_environment([body for crowd in named for body in crowd.objects[:-1]])
        return _watched(bench, named, prefixes, [outcomes(each) for each in crowds])
    finally:
        jobs = [body for crowd in named for body in (*crowd.jobs, *crowd.later)]
        bench.api.delete(jobs)
        until(
            "the Workloads are gone", lambda: not {key(body) for body in jobs} & bench.workloads().keys(), seconds=300
        )
        bench.api.delete(body for crowd in named for body in crowd.objects)


def _watched(
    bench: Bench, named: Sequence[Crowd], prefixes: Sequence[str], predicted: Sequence[Sequence[Given]]
) -> list[list[Given]]:
    for turn in range(max(len(crowd.jobs) for crowd in named)):
        _join(bench, [crowd.jobs[turn] for crowd in named if turn < len(crowd.jobs)])
    found: list[list[Given]] = [[] for _ in named]
    bench.api.create(crowd.objects[-1] for crowd in named)
    _settle(bench, named, prefixes, predicted, found)
    for turn in range(max(len(crowd.later) for crowd in named)):
        _join(bench, [crowd.later[turn] for crowd in named if turn < len(crowd.later)])
        _settle(bench, named, prefixes, predicted, found)
    return [each[: 1 + len(crowd.later)] for each, crowd in zip(found, named, strict=True)]


def _join(bench: Bench, jobs: Sequence[Body]) -> None:
    """Create Jobs; Kueue orders them by the creation times of their Workloads."""
    bench.api.create(jobs)
    names = {key(body) for body in jobs}
    bench.await_prediction(lambda: names <= bench.workloads().keys())


def _settle(
    bench: Bench,
    named: Sequence[Crowd],
    prefixes: Sequence[str],
    predicted: Sequence[Sequence[Given]],
    found: list[list[Given]],
) -> None:
    """Return the admitted Jobs, once the prediction is true and no further cycle changes them."""

    def now() -> list[Given]:
        live = bench.workloads()
        return [_admitted(crowd, prefix, live) for crowd, prefix in zip(named, prefixes, strict=True)]

    turn = len(found[0])
    wanted = [each[min(turn, len(each) - 1)] for each in predicted]
    bench.await_prediction(lambda: now() == wanted)
    bench.pass_fences()
    for each, here in zip(found, now(), strict=True):
        each.append(here)


def _admitted(crowd: Crowd, prefix: str, live: dict[str, Body]) -> Given:
    def own(name: str) -> str:
        return name.replace(prefix, PREFIX)

    result: Given = {}
    for body in (*crowd.jobs, *crowd.later):
        workload = live.get(key(body), {})
        if reserves(workload):
            (pods,) = assigned_flavors(workload, own).values()
            result[own(body["metadata"]["name"])] = pods
    return result
