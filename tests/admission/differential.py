"""The verdicts of the simulator and of the real Kueue on the same cases."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tests.admission.bench import SLOTS, Bench, assigned_flavors, condition, key, namespace, reserves
from tests.admission.cases import PREFIX, Case, admitted_before
from tests.admission.kueue import Body, until
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.verdict import Verdict

Given = dict[str, tuple[int, dict[str, str]]]
"""By pod set: how many pods, and the flavor of each resource."""


@dataclass(frozen=True)
class Answer:
    """The outcome of a case. None: its quota is not reserved."""

    before: tuple[Given | None, ...]
    """The workloads that come first."""
    asked: Given | None
    evicts: frozenset[str]
    """Whom the one that is asked about evicts."""
    alone: Given | None
    """The same, once the others have gone."""


def expected(case: Case) -> Answer:
    """The engine's answer."""
    using, bodies = admitted_before(case)
    before: list[Given | None] = []
    for index, body in enumerate(bodies):
        verdict = AdmissionSimulator(case.model, using[:index]).verdict(case.workload(body, index), with_remedies=False)
        before.append(_assigned(verdict))
    asked = case.workload(case.asked, len(bodies))
    now = AdmissionSimulator(case.model, using).verdict(asked, with_remedies=False)
    return Answer(
        before=tuple(before),
        asked=None if now.preempts else _assigned(now),
        evicts=frozenset(each.partition("/")[2] for each in now.preempts),
        alone=_assigned(AdmissionSimulator(case.model).verdict(asked, with_remedies=False)),
    )


def _assigned(verdict: Verdict) -> Given | None:
    if not verdict.fits:
        return None
    return {each.pod_set: (each.count, dict(each.flavors)) for each in verdict.assigned}


def answers(bench: Bench, cases: Sequence[Case]) -> list[Answer]:
    """Return Kueue's answers to many cases at once."""
    return [each for start in range(0, len(cases), SLOTS) for each in _batch(bench, cases[start : start + SLOTS])]


def _batch(bench: Bench, cases: Sequence[Case]) -> list[Answer]:
    prefixes = bench.next_prefixes()[: len(cases)]
    named = [each.named(prefixes[slot], namespace(slot)) for slot, each in enumerate(cases)]
    objects = [body for case in named for body in case.objects]
    workloads = [body for case in named for body in (*case.before, case.asked, _again(case))]
    try:
        bench.create_environment(objects)
        return _judged(bench, named, prefixes)
    finally:
        bench.api.delete(workloads)
        bench.api.delete(objects)


def _judged(bench: Bench, named: Sequence[Case], prefixes: Sequence[str]) -> list[Answer]:
    predicted = [expected(case) for case in named]
    for turn in range(max(len(case.before) for case in named)):
        coming = [case.before[turn] for case in named if turn < len(case.before)]
        _submit(bench, coming, {key(body) for body in coming})
    both = list(zip(named, predicted, strict=True))
    _submit(
        bench,
        [case.asked for case in named],
        {key(case.asked) for case, answer in both if answer.asked is not None},
        {f"{case.asked['metadata']['namespace']}/{name}" for case, answer in both for name in answer.evicts},
    )
    bench.pass_fences()
    now = bench.workloads()
    gone = {key(body) for case in named for body in (*case.before, case.asked)}
    bench.api.delete(body for case in named for body in (*case.before, case.asked))
    until("the workloads are gone", lambda: not gone & bench.workloads().keys(), seconds=300)
    again = [_again(case) for case in named]
    _submit(bench, again, {key(_again(case)) for case, answer in both if answer.alone is not None})
    bench.pass_fences()
    alone = bench.workloads()
    return [_answer(case, now, alone, prefix) for case, prefix in zip(named, prefixes, strict=True)]


def _submit(bench: Bench, bodies: Sequence[Body], admitted: Collection[str], evicted: Collection[str] = ()) -> None:
    """Create workloads, and wait until each has a verdict and the prediction is true."""
    bench.api.create(bodies)
    judged = {key(body) for body in bodies}

    def came_about() -> bool:
        live = bench.workloads()
        return (
            all(condition(live[name], "QuotaReserved") for name in judged)
            and all(reserves(live[name]) for name in admitted)
            and all(condition(live[name], "Evicted") == "True" for name in evicted)
        )

    bench.await_prediction(came_about)


def _answer(case: Case, now: Mapping[str, Body], alone: Mapping[str, Body], prefix: str) -> Answer:
    """Return the outcome of a case, with the case's own names."""

    def own(name: str) -> str:
        return name.replace(prefix, PREFIX)

    def got(live: Body) -> Given | None:
        return assigned_flavors(live, own) if reserves(live) else None

    evicted = [body for body in case.before if condition(now[key(body)], "Evicted") == "True"]
    return Answer(
        before=tuple(got(now[key(body)]) for body in case.before),
        asked=got(now[key(case.asked)]),
        evicts=frozenset(own(body["metadata"]["name"]) for body in evicted),
        alone=got(alone[key(_again(case))]),
    )


def _again(case: Case) -> Body:
    """Create the workload in question again."""
    metadata = case.asked["metadata"]
    return {**case.asked, "metadata": {**metadata, "name": f"{metadata['name']}-again"}}
