"""The cases of a dump: Kubernetes objects, what Kueue was asked, and what it decided."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainstack.kueue.from_objects import read_queue_state
from trainstack.kueue.model import AdmittedWorkload, FlavorResource, Model, QueueState, Usage, Workload
from trainstack.kueue.workloads import read_kueue_workload

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    test: str
    """Go's name of the test."""
    question: str
    """`assignment`, `targets`, `head` or `cycle`."""
    objects: tuple[Body, ...]
    """What the test has added to Kueue's cache before."""
    value: Body
    """The question and, of an assignment and of targets, the answer."""
    configuration: Body
    """Kueue's Configuration: the feature gates that differ from their defaults, and fair sharing."""
    release: str
    """Kueue's minor release."""
    heads: Sequence[Body] = ()
    """The answer of a cycle."""

    def state(self, others: Iterable[Body] = ()) -> QueueState:
        return read_queue_state([*self.objects, *others], kueue_configuration=self.configuration, release=self.release)


@dataclass(slots=True)
class _Laid:
    """What the running test has laid down so far."""

    release: str
    test: str = ""
    objects: dict[tuple[str, str, str], Body] = field(default_factory=dict)
    fair_sharing: Body | None = None
    ordering: Body = field(default_factory=dict)

    def add(self, event: str, value: Any) -> None:
        if event == "fairSharing":
            self.fair_sharing = value
        elif event == "ordering":
            self.ordering = value
        elif event in ("object", "deleted"):
            body = _without_empty_groups(named(value["object"], value["kind"]))
            key = (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"])
            self.objects.pop(key, None)
            if event == "object":
                self.objects[key] = body

    def case(self, question: str, value: Body, gates: Iterable[str]) -> Case:
        configuration: Body = {"featureGates": {gate[1:]: gate[0] == "+" for gate in gates}}
        # Tests of the flavor assigner know only whether fair sharing is on.
        if value.get("fairSharing"):
            configuration["fairSharing"] = self.fair_sharing or {}
        if value.get("admissionFairSharing"):
            configuration["admissionFairSharing"] = {}
        if timestamp := self.ordering.get("PodsReadyRequeuingTimestamp"):
            configuration["waitForPodsReady"] = {"requeuingStrategy": {"timestamp": timestamp}}
        return Case(self.test, question, tuple(self.objects.values()), value, configuration, self.release)


def cases(file: Path, release: str) -> Iterator[Case]:
    """Yield the questions in a dump's order."""
    laid = _Laid(release)
    cycle: Case | None = None
    with file.open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if line["test"] != laid.test:
                laid = _Laid(release, line["test"])
            event, value = line["event"], line["value"]
            if event == "cycle":
                cycle = laid.case(event, value, line["gates"])
            elif event == "heads" and cycle is not None:
                yield replace(cycle, heads=value)
            elif event in ("assignment", "targets", "head"):
                yield laid.case(event, value, line["gates"])
            else:
                laid.add(event, value)


def named(body: Mapping[str, Any], kind: str) -> Body:
    """Return an object with its kind, and with the fields that the API server requires and some tests leave out."""
    if kind != "Workload":
        return {**body, "kind": kind, "metadata": {"name": "unnamed", **body["metadata"]}}
    metadata = {"name": "unnamed", "namespace": "", **body["metadata"]}
    return {
        **body,
        "kind": kind,
        "metadata": metadata,
        "spec": {**body["spec"], "podSets": body["spec"]["podSets"] or ()},
    }


def _without_empty_groups(body: Body) -> Body:
    """Leave out resource groups without resources, which the API server refuses and some tests have."""
    groups = (body.get("spec") or {}).get("resourceGroups")
    if not groups:
        return body
    kept = [group for group in groups if group.get("coveredResources")]
    return {**body, "spec": {**body["spec"], "resourceGroups": kept}}


def workload_of(body: Mapping[str, Any], model: Model) -> Workload | AdmittedWorkload | None:
    return read_kueue_workload(named(body, "Workload"), model)


def amounts(items: Iterable[Body] | None) -> Usage:
    found: dict[FlavorResource, int] = {}
    for item in items or ():
        found[item["flavor"], item["resource"]] = item["quantity"]
    return found
