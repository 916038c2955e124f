"""What the engine's state holds of this stack, as the program itself can read it before it declares anything."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from checks.cluster.snapshot import LAUNCH_KINDS
from checks.recorded import RecordedLaunch
from components.objects import type_token
from components.runs import RUNS
from components.sweeps import SWEEP
from manifests.labels import LAUNCH, RUN, STACK

_KINDS = {type_token(api_version, kind): (api_version, kind) for api_version, kind in LAUNCH_KINDS}
_READ = "pulumi:pulumi:readStackResourceOutputs"
"""A function of the engine's built-in provider: the outputs of every resource of a stack, by URN."""


@dataclass(frozen=True)
class StateResource:
    """A resource as the engine last saw it."""

    type: str
    """The type token, such as `kubernetes:batch/v1:Job`."""
    parent_type: str
    """That of its parent; empty where the stack itself is the parent."""
    name: str
    """Its Pulumi name."""
    outputs: Mapping[str, Any]
    """Of a Kubernetes object: the whole live object at the last operation or refresh."""


def read_engine_state() -> tuple[StateResource, ...]:
    """The resources that the state of this stack holds now; none before the first `up`.

    It is the state of the running operation, in every backend, so an `up` that was interrupted shows what it recorded.
    """
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    answer = pulumi.runtime.invoke(_READ, {"stackName": name}).value
    return tuple(_resource(urn, each) for urn, each in answer["outputs"].items())


def _resource(urn: str, answer: Mapping[str, Any]) -> StateResource:
    # urn:pulumi:<stack>::<project>::<parent's type>$<type>::<name>; a name may hold `::`.
    *_, types, name = urn.split("::", 3)
    parents, _, own = types.rpartition("$")
    return StateResource(own, parents.rpartition("$")[2], name, answer.get("outputs") or {})


def recorded_launches(state: Iterable[StateResource]) -> tuple[RecordedLaunch, ...]:
    """The launches in a state, also those whose objects are gone since the last refresh."""
    return tuple(
        _launch(resource)
        for resource in state
        if resource.parent_type in (RUNS, SWEEP) and resource.type in _KINDS and "metadata" in resource.outputs
    )


def _launch(resource: StateResource) -> RecordedLaunch:
    api_version, kind = _KINDS[resource.type]
    metadata = resource.outputs["metadata"]
    # A refresh may have read an object whose labels were removed. The provider keeps what was declared as `__inputs`,
    # and a derived name has its launch and its run.
    declared = (resource.outputs.get("__inputs") or {}).get("metadata") or {}
    launch = resource.name.rpartition("/")[2]
    named = {STACK: pulumi.get_stack(), LAUNCH: launch, RUN: launch.rpartition("-")[0] or launch}
    return RecordedLaunch(
        api_version=api_version,
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        labels={**named, **(metadata.get("labels") or {}), **(declared.get("labels") or {})},
    )
