"""Cases judged twice: by the engine, and by the real Kueue."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from checks.admission.judging import Judge
from checks.admission.verdict import Assigned, Verdict
from tests.admission.cases import LABELS, OVERHEAD, PREFIX, Case, admitted_before, made
from tests.admission.kueue import Api, Body, until

Given = dict[str, tuple[int, dict[str, str]]]
"""By pod set: how many pods, and the flavor of each resource."""
SLOTS = 100
"""Cases that stand side by side."""
FENCES = 10
"""Cycles of the scheduler that are awaited before something counts as refused. No case needs more attempts."""


@dataclass(frozen=True)
class Answer:
    """What becomes of a case. None: its quota is not reserved."""

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
    judge, model = Judge(case.model), case.model
    before: list[Given | None] = []
    for index, body in enumerate(bodies):
        verdict = Judge(model, using[:index]).verdict(case.workload(body, index), with_remedies=False)
        before.append(_given(verdict))
    asked = case.workload(case.asked, len(bodies))
    now = Judge(model, using).verdict(asked, with_remedies=False)
    return Answer(
        before=tuple(before),
        asked=None if now.preempts else _given(now),
        evicts=frozenset(each.partition("/")[2] for each in now.preempts),
        alone=_given(judge.verdict(asked, with_remedies=False)),
    )


def _given(verdict: Verdict) -> Given | None:
    return {each.pod_set: _counted(each) for each in verdict.assigned} if verdict.fits else None


def _counted(assigned: Assigned) -> tuple[int, dict[str, str]]:
    return assigned.count, dict(assigned.flavors)


class Bench:
    """A cluster with Kueue, on which cases are laid."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._batch = 0
        self._fence = 0
        api.create([_overhead(), _namespace("fence"), *(_namespace(f"s{slot}-ns") for slot in range(SLOTS))])
        api.create(_FENCE)

    def answers(self, cases: Sequence[Case]) -> list[Answer]:
        """What Kueue does with cases, many at once."""
        return [each for start in range(0, len(cases), SLOTS) for each in self._batch_of(cases[start : start + SLOTS])]

    def _batch_of(self, cases: Sequence[Case]) -> list[Answer]:
        self._batch += 1
        # A name is given once: what was deleted may still be on its way out.
        named = [each.named(f"b{self._batch}s{slot}-", f"s{slot}-ns") for slot, each in enumerate(cases)]
        objects = [body for case in named for body in case.objects]
        workloads = [body for case in named for body in (*case.before, case.asked, _again(case))]
        try:
            self._api.create(objects)
            return self._judged(named)
        finally:
            self._api.delete(workloads)
            self._api.delete(objects)

    def _judged(self, named: Sequence[Case]) -> list[Answer]:
        predicted = [expected(case) for case in named]
        for turn in range(max(len(case.before) for case in named)):
            coming = [case.before[turn] for case in named if turn < len(case.before)]
            self._submit(coming, {_key(body) for body in coming})
        both = list(zip(named, predicted, strict=True))
        self._submit(
            [case.asked for case in named],
            {_key(case.asked) for case, answer in both if answer.asked is not None},
            {f"{case.asked['metadata']['namespace']}/{name}" for case, answer in both for name in answer.evicts},
        )
        self._pass_fences()
        now = self._live()
        gone = {_key(body) for case in named for body in (*case.before, case.asked)}
        self._api.delete(body for case in named for body in (*case.before, case.asked))
        until("the workloads are gone", lambda: not gone & self._live().keys())
        self._submit(
            [_again(case) for case in named],
            {_key(_again(case)) for case, answer in both if answer.alone is not None},
        )
        self._pass_fences()
        alone = self._live()
        return [_answer(case, now, alone, f"b{self._batch}s{slot}-") for slot, case in enumerate(named)]

    def _submit(self, bodies: Sequence[Body], reserved: Collection[str], evicted: Collection[str] = ()) -> None:
        """Make workloads, and wait until each has been judged, and what is predicted of them has come about.

        What does not come about is a disagreement, which the answers show; so it is waited for only so long.
        """
        self._api.create(bodies)
        judged = {_key(body) for body in bodies}

        def settled() -> bool:
            live = self._live()
            return (
                all(_condition(live[key], "QuotaReserved") for key in judged)
                and all(_reserves(live[key]) for key in reserved)
                and all(_condition(live[key], "Evicted") == "True" for key in evicted)
            )

        end = time.monotonic() + PATIENCE_SECONDS
        while not settled() and time.monotonic() < end:
            time.sleep(0.1)
        # Times have whole seconds: what comes later is to be newer.
        now = int(time.time())
        until("the next second", lambda: int(time.time()) > now)

    def _pass_fences(self) -> None:
        """Let the scheduler make some cycles: in each the head of every queue is tried."""
        for _ in range(FENCES):
            self._fence += 1
            body = _fence_workload(self._fence)
            self._api.create([body])
            until("a fence is admitted", partial(self._is_reserved, body), pause=0.01)
            self._api.delete([body])

    def _is_reserved(self, body: Body) -> bool:
        return _reserves(self._api.read(body))

    def _live(self) -> dict[str, Body]:
        return {_key(body): body for body in self._api.everywhere("Workload")}


PATIENCE_SECONDS = 20
"""How long a prediction is waited for."""


def _answer(case: Case, now: Mapping[str, Body], alone: Mapping[str, Body], prefix: str) -> Answer:
    """What has become of a case, in the case's own names."""

    def own(name: str) -> str:
        return name.replace(prefix, PREFIX)

    def given(live: Body) -> Given | None:
        if not _reserves(live):
            return None
        return {
            each["name"]: (
                each["count"],
                {resource: own(name) for resource, name in (each.get("flavors") or {}).items()},
            )
            for each in live["status"]["admission"]["podSetAssignments"]
        }

    evicted = [body for body in case.before if _condition(now[_key(body)], "Evicted") == "True"]
    return Answer(
        before=tuple(given(now[_key(body)]) for body in case.before),
        asked=given(now[_key(case.asked)]),
        evicts=frozenset(own(body["metadata"]["name"]) for body in evicted),
        alone=given(alone[_key(_again(case))]),
    )


def _reserves(live: Body) -> bool:
    return _condition(live, "QuotaReserved") == "True"


def _condition(live: Body, kind: str) -> str:
    """The status of a condition; empty where it is not there."""
    conditions = live.get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")


def _key(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _again(case: Case) -> Body:
    """The workload that is asked about, anew."""
    metadata = case.asked["metadata"]
    return {**case.asked, "metadata": {**metadata, "name": f"{metadata['name']}-again"}}


def _namespace(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": LABELS}}


def _overhead() -> Body:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "admission-heavy"},
        "handler": "runc",
        "overhead": {"podFixed": OVERHEAD},
    }


_QUOTA = {
    "coveredResources": ["cpu"],
    "flavors": [{"name": "fence", "resources": [{"name": "cpu", "nominalQuota": 1}]}],
}
_FENCE = (
    made("ResourceFlavor", "fence", {}),
    made("ClusterQueue", "fence", {"namespaceSelector": {}, "resourceGroups": [_QUOTA]}),
    made("LocalQueue", "fence", {"clusterQueue": "fence"}, "fence"),
)


def _fence_workload(number: int) -> Body:
    container = {"name": "one", "image": "none", "resources": {"requests": {"cpu": "1m"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    pods = {"name": "main", "count": 1, "template": {"spec": spec}}
    return made("Workload", f"fence-{number}", {"queueName": "fence", "podSets": [pods]}, "fence")
