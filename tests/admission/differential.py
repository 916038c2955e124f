"""The verdicts of the simulator and of the real Kueue on the same cases."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tests.admission.bench import SLOTS, Bench, assigned_flavors, condition, has_reservation, key, namespace
from tests.admission.cases import PREFIX, Case, admitted_before
from tests.admission.kueue import Body, wait_until
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.verdict import Verdict

Assignments = dict[str, tuple[int, dict[str, str]]]
"""By pod set: how many pods, and the flavor of each resource."""


@dataclass(frozen=True)
class Answer:
    """The outcome of a case. None: its quota is not reserved."""

    before: tuple[Assignments | None, ...]
    """The workloads that come first."""
    candidate: Assignments | None
    evicts: frozenset[str]
    """Whom the one that is asked about evicts."""
    alone: Assignments | None
    """The same, once the others have gone."""


def simulated_answer(case: Case) -> Answer:
    """The engine's answer."""
    using, bodies = admitted_before(case)
    before: list[Assignments | None] = []
    for index, body in enumerate(bodies):
        verdict = AdmissionSimulator(case.model, using[:index]).verdict(case.workload(body, index))
        before.append(_assigned(verdict))
    candidate = case.workload(case.candidate, len(bodies))
    now = AdmissionSimulator(case.model, using).verdict(candidate)
    return Answer(
        before=tuple(before),
        candidate=None if now.preempts else _assigned(now),
        evicts=frozenset(workload_key.partition("/")[2] for workload_key in now.preempts),
        alone=_assigned(AdmissionSimulator(case.model).verdict(candidate)),
    )


def _assigned(verdict: Verdict) -> Assignments | None:
    if not verdict.fits:
        return None
    return {pods.pod_set: (pods.count, dict(pods.flavors)) for pods in verdict.assigned}


def kueue_answers(bench: Bench, cases: Sequence[Case]) -> list[Answer]:
    """Return Kueue's answers to many cases at once."""
    return [answer for start in range(0, len(cases), SLOTS) for answer in _batch(bench, cases[start : start + SLOTS])]


def _batch(bench: Bench, cases: Sequence[Case]) -> list[Answer]:
    prefixes = bench.next_prefixes()[: len(cases)]
    named = [case.with_names(prefixes[slot], namespace(slot)) for slot, case in enumerate(cases)]
    objects = [body for case in named for body in case.objects]
    workloads = [body for case in named for body in (*case.before, case.candidate, _again(case))]
    try:
        bench.create_environment(objects)
        return _observe(bench, named, prefixes)
    finally:
        bench.api.delete(workloads)
        bench.api.delete(objects)


def _observe(bench: Bench, named: Sequence[Case], prefixes: Sequence[str]) -> list[Answer]:
    predicted = [simulated_answer(case) for case in named]
    for turn in range(max(len(case.before) for case in named)):
        submitted = [case.before[turn] for case in named if turn < len(case.before)]
        _submit(bench, submitted, {key(body) for body in submitted})
    both = list(zip(named, predicted, strict=True))
    _submit(
        bench,
        [case.candidate for case in named],
        {key(case.candidate) for case, answer in both if answer.candidate is not None},
        {f"{case.candidate['metadata']['namespace']}/{name}" for case, answer in both for name in answer.evicts},
    )
    bench.pass_fences()
    now = bench.workloads()
    deleted = {key(body) for case in named for body in (*case.before, case.candidate)}
    bench.api.delete(body for case in named for body in (*case.before, case.candidate))
    wait_until("the workloads are gone", lambda: not deleted & bench.workloads().keys(), seconds=300)
    again = [_again(case) for case in named]
    _submit(bench, again, {key(_again(case)) for case, answer in both if answer.alone is not None})
    bench.pass_fences()
    alone = bench.workloads()
    return [_answer(case, now, alone, prefix) for case, prefix in zip(named, prefixes, strict=True)]


def _submit(bench: Bench, bodies: Sequence[Body], admitted: Collection[str], evicted: Collection[str] = ()) -> None:
    """Create workloads, and wait until each has a verdict and the prediction is true."""
    bench.api.create(bodies)
    names = {key(body) for body in bodies}

    def is_true() -> bool:
        live = bench.workloads()
        return (
            all(condition(live[name], "QuotaReserved") for name in names)
            and all(has_reservation(live[name]) for name in admitted)
            and all(condition(live[name], "Evicted") == "True" for name in evicted)
        )

    bench.await_prediction(is_true)


def _answer(case: Case, now: Mapping[str, Body], alone: Mapping[str, Body], prefix: str) -> Answer:
    """Return the outcome of a case, with the case's own names."""

    def own(name: str) -> str:
        return name.replace(prefix, PREFIX)

    def assignments(live: Body) -> Assignments | None:
        return assigned_flavors(live, own) if has_reservation(live) else None

    evicted = [body for body in case.before if condition(now[key(body)], "Evicted") == "True"]
    return Answer(
        before=tuple(assignments(now[key(body)]) for body in case.before),
        candidate=assignments(now[key(case.candidate)]),
        evicts=frozenset(own(body["metadata"]["name"]) for body in evicted),
        alone=assignments(alone[key(_again(case))]),
    )


def _again(case: Case) -> Body:
    """Create the workload in question again."""
    metadata = case.candidate["metadata"]
    return {**case.candidate, "metadata": {**metadata, "name": f"{metadata['name']}-again"}}
