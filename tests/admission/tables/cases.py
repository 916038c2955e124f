"""The cases of a dump: Kubernetes objects, what Kueue was asked, and what it decided."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainstack.kueue.from_objects import read_snapshot
from trainstack.kueue.model import Admitted, FlavorResource, Model, QueueState, Usage, Workload
from trainstack.kueue.workloads import read_kueue_workload

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    """Of the test, and the number of the question within it."""
    question: str
    """`assignment`, `targets` or `cycle`."""
    objects: tuple[Body, ...]
    """What the test has added to Kueue's cache before."""
    value: Body
    """The question and, of an assignment and of targets, the answer."""
    configuration: Body
    """Kueue's Configuration: the feature gates that differ from their defaults, and fair sharing."""
    heads: list[Body] = field(default_factory=list)
    """The answer of a cycle."""

    def state(self, others: Iterable[Body] = ()) -> QueueState:
        return read_snapshot([*self.objects, *others], kueue=self.configuration)


def cases(file: Path) -> Iterator[Case]:
    """Yield the questions in a dump's order."""
    objects: dict[tuple[str, str, str], Body] = {}
    test, number = "", 0
    sharing: Body | None = None
    waiting: Case | None = None
    with file.open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if line["test"] != test:
                test, number, objects, sharing = line["test"], 0, {}, None
            event, value = line["event"], line["value"]
            if event in ("object", "deleted"):
                body = _without_empty_groups(named(value["object"], value["kind"]))
                key = (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"])
                objects.pop(key, None)
                if event == "object":
                    objects[key] = body
            elif event == "fairSharing":
                sharing = value
            elif event == "heads":
                if waiting is not None:
                    waiting.heads.extend(value or ())
                    yield waiting
                waiting = None
            elif event in ("assignment", "targets", "cycle"):
                number += 1
                gates = {gate[1:]: gate[0] == "+" for gate in line["gates"]}
                configuration = {"featureGates": gates, **_sharing(value, sharing)}
                case = Case(f"{test}#{number}", event, tuple(objects.values()), value, configuration)
                if event == "cycle":
                    waiting = case
                else:
                    yield case


def _sharing(value: Body, sharing: Body | None) -> Body:
    """Return the sections of the Configuration; tests of the flavor assigner know only whether sharing is on."""
    found = {"fairSharing": sharing or {}} if value["fairSharing"] else {}
    return {**found, **({"admissionFairSharing": {}} if value.get("admissionFairSharing") else {})}


def named(body: Mapping[str, Any], kind: str) -> Body:
    """Return an object with its kind; tests give some workloads no name and no namespace."""
    namespace = {"namespace": ""} if kind == "Workload" else {}
    return {**body, "kind": kind, "metadata": {"name": "unnamed", **namespace, **body["metadata"]}}


def _without_empty_groups(body: Body) -> Body:
    """Leave out resource groups without resources, which the API server refuses and some tests have."""
    groups = (body.get("spec") or {}).get("resourceGroups")
    if not groups:
        return body
    kept = [group for group in groups if group.get("coveredResources")]
    return {**body, "spec": {**body["spec"], "resourceGroups": kept}}


def workload_of(body: Mapping[str, Any], model: Model) -> Workload | Admitted | None:
    return read_kueue_workload(named(body, "Workload"), model)


def amounts(items: Iterable[Body] | None) -> Usage:
    found: dict[FlavorResource, int] = {}
    for item in items or ():
        found[item["flavor"], item["resource"]] = item["quantity"]
    return found
