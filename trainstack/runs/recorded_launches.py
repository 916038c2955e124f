"""Launches recorded in the engine's state or in a ledger, used to find live launches whose labels were removed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trainstack.objects.labels import LAUNCH, OBJECT, RUN, STACK
from trainstack.runs.ledgers import Ledger
from trainstack.runs.status.launch_kinds import KINDS

RUNS_TYPE, SWEEP_TYPE = "trainstack:training:Runs", "trainstack:training:Sweep"
"""The type tokens of the parent components of launches."""

_LISTING_LABELS = (STACK, RUN, LAUNCH)
"""The labels that the stack lists its launches by."""
_LABEL_PREFIX = "trainstack.dev/"
"""The prefix of trainstack's labels."""


@dataclass(frozen=True, kw_only=True)
class RecordedLaunch:
    """A launch recorded in the engine's state or in a ledger. Its object may have been deleted."""

    api_version: str
    kind: str
    namespace: str
    name: str
    """The object's name; empty if only a ledger records the launch and the API server generated the name."""
    uid: str
    """The object's uid; empty if unknown, because a ledger does not contain it."""
    labels: Mapping[str, str]
    """The labels at creation, as far as known."""

    @property
    def manifest(self) -> dict[str, Any]:
        metadata = {"namespace": self.namespace, "name": self.name}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}

    def is_same(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether the metadata of a live object of this name is that of this launch.

        It may be that of another launch with the same fixed name.
        """
        if self.uid:
            return bool(metadata["uid"] == self.uid)
        launch_name = self.labels.get(LAUNCH)
        return launch_name == self.name or (metadata.get("labels") or {}).get(LAUNCH) == launch_name

    def lost_labels(self, body: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the recorded labels that the live object lacks and that the stack needs to list it."""
        live_labels = body["metadata"].get("labels") or {}
        return {
            key: self.labels[key]
            for key in _LISTING_LABELS
            if key in self.labels and live_labels.get(key) != self.labels[key]
        }

    def with_labels(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the live object with the recorded values of trainstack's labels."""
        recorded_labels = {key: value for key, value in self.labels.items() if key.startswith(_LABEL_PREFIX)}
        return {
            **body,
            "metadata": {**body["metadata"], "labels": {**(body["metadata"].get("labels") or {}), **recorded_labels}},
        }


@dataclass(frozen=True)
class StateResource:
    """A resource in the engine's state, as of the last operation or refresh."""

    type: str
    """The Pulumi type token, such as `kubernetes:batch/v1:Job`."""
    parent_type: str
    """The parent's type token; empty if the parent is the stack itself."""
    name: str
    """The Pulumi name."""
    outputs: Mapping[str, Any]
    """For a Kubernetes object, the live object at the last operation or refresh."""
    urn: str = field(default="", compare=False)


def state_resource(urn: str, outputs: Mapping[str, Any] | None) -> StateResource:
    """Build a resource of the engine's state from its URN and outputs."""
    # urn:pulumi:<stack>::<project>::<parent's type>$<type>::<name>; a name may contain `::`.
    *_, types, name = urn.split("::", 3)
    parents, _, resource_type = types.rpartition("$")
    return StateResource(resource_type, parents.rpartition("$")[2], name, outputs or {}, urn)


def type_token(api_version: str, kind: str) -> str:
    """Return the Pulumi type token of a kind, as in the generated SDK."""
    return f"kubernetes:{api_version if '/' in api_version else f'core/{api_version}'}:{kind}"


_LAUNCH_TYPES = {type_token(facts.api_version, kind): (facts.api_version, kind) for kind, facts in KINDS.items()}


def _launch_type(resource: StateResource) -> tuple[str, str] | None:
    """Return the API version and the kind of a launch; None if the resource is not a launch."""
    inputs = resource.outputs.get("__inputs") or {}
    metadata = [body.get("metadata") or {} for body in (resource.outputs, inputs)]
    if not any(OBJECT in (entry.get("annotations") or {}) for entry in metadata):
        return _LAUNCH_TYPES.get(resource.type)
    api_version, _, kind = resource.type.removeprefix("kubernetes:").rpartition(":")
    return api_version, kind


def recorded_launches(stack: str, state: Iterable[StateResource]) -> tuple[RecordedLaunch, ...]:
    """Return the launches in a stack's state, including those whose objects were deleted since the last refresh."""
    return tuple(
        _launch_from_state(stack, resource)
        for resource in state
        if resource.parent_type in (RUNS_TYPE, SWEEP_TYPE)
        and _launch_type(resource)
        and "name" in (resource.outputs.get("metadata") or {})
    )


def _launch_from_state(stack: str, resource: StateResource) -> RecordedLaunch:
    api_version, kind = _launch_type(resource) or ("", "")
    metadata = resource.outputs["metadata"]
    # A refresh may have read an object whose labels were removed. The provider keeps the declared object in
    # `__inputs`, and a derived name contains the launch and the run.
    input_metadata = (resource.outputs.get("__inputs") or {}).get("metadata") or {}
    launch_name = resource.name.rpartition("/")[2]
    derived_labels = {STACK: stack, LAUNCH: launch_name, RUN: launch_name.rpartition("-")[0] or launch_name}
    return RecordedLaunch(
        api_version=api_version,
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        labels={**derived_labels, **(metadata.get("labels") or {}), **(input_metadata.get("labels") or {})},
    )


def merge_recorded_launches(state: Iterable[RecordedLaunch], ledgers: Iterable[Ledger]) -> list[RecordedLaunch]:
    """Return the distinct launches recorded in the engine's state or in a ledger.

    Only the state has the uid and a name that the API server generated. Only the ledger is sure to have the labels at
    creation, because a refresh may have dropped them from the state.
    """
    launches_by_key = {_launch_key(launch): launch for launch in map(launch_from_ledger, ledgers) if launch.name}
    for launch in state:
        ledger_labels = launches_by_key[_launch_key(launch)].labels if _launch_key(launch) in launches_by_key else {}
        launches_by_key[_launch_key(launch)] = replace(launch, labels={**launch.labels, **ledger_labels})
    return list(launches_by_key.values())


def _launch_key(launch: RecordedLaunch) -> tuple[str, str, str]:
    return launch.kind, launch.namespace, launch.name


def launch_from_ledger(ledger: Ledger) -> RecordedLaunch:
    metadata = ledger.launch["metadata"]
    return RecordedLaunch(
        api_version=ledger.launch["apiVersion"],
        kind=ledger.launch["kind"],
        namespace=ledger.namespace,
        name=metadata.get("name", ""),
        uid="",
        labels=metadata.get("labels") or {},
    )
