"""The stack's state in the engine, which the program reads before it declares resources."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from google.protobuf.struct_pb2 import Struct
from pulumi.runtime import rpc

from trainstack.guards.definitions import KIND, identities, revisions
from trainstack.guards.states import MEMORY, OwnState, StateObject, owner_of
from trainstack.objects.labels import LAUNCH, STACK
from trainstack.objects.ownership import Identity
from trainstack.platform.retained import is_retained
from trainstack.runs.recorded import RUNS, SWEEP, StateResource, state_resource

_METADATA = ("name", "namespace", "uid", "labels", "annotations")
_STASH = "pulumi:index:Stash"
_NAMESPACE = "kubernetes:core/v1:Namespace"
_DECLARED_RETENTION = (_NAMESPACE, "kubernetes:core/v1:PersistentVolumeClaim")
"""The types whose declared metadata shows whether the engine deletes the object: another client may have edited the
live one."""
_PROOF = "-identity"
"""The suffix of the Pulumi names of the namespaces that the stack only reads to identify a provider's cluster
(trainstack/components/cluster.py). The engine's response does not show which resources are read-only; these have no
parent."""


def read_engine_state(response: Struct) -> tuple[StateResource, ...]:
    """Return the resources of the running operation's state, which has what an interrupted `up` recorded.

    `response` is the response to `request_engine_state`.
    """
    found = response.fields["outputs"].struct_value.fields
    return tuple(_resource(urn, resource.struct_value) for urn, resource in found.items())


def _resource(urn: str, found: Struct) -> StateResource:
    resource, outputs = state_resource(urn, None), found.fields["outputs"].struct_value
    used = _fields(outputs, "input", "output")
    if "metadata" in outputs.fields:
        used["metadata"] = _fields(outputs.fields["metadata"].struct_value, *_METADATA)
    is_needed = resource.parent_type in (RUNS, SWEEP) or resource.type in _DECLARED_RETENTION
    if is_needed and "__inputs" in outputs.fields:
        declared = outputs.fields["__inputs"].struct_value.fields
        if "metadata" in declared:
            used["__inputs"] = {"metadata": _fields(declared["metadata"].struct_value, *_METADATA)}
    return replace(resource, outputs=used)


def _fields(found: Struct, *names: str) -> dict[str, Any]:
    """Convert some fields. All fields of a state have tens of thousands of values."""
    used = Struct(fields={name: found.fields[name] for name in names if name in found.fields})
    return dict(rpc.deserialize_properties_unwrap_secrets(used)[0])


def own_state(resources: Iterable[StateResource]) -> OwnState:
    """Return the state's identity, a new one if it has none yet, and its objects."""
    known = list(resources)
    stash = (found.outputs.get("output") for found in known if (found.type, found.name) == (_STASH, MEMORY))
    definitions = {name: revision for found in known for name, revision in revisions(found).items()}
    objects = {who: _state_object(found, who) for found in known if (who := _object(found)) is not None}
    moved = frozenset(name for kind, _, name in objects if kind == KIND)
    # The first digit is a letter: YAML parsers read `0b08…` or `12e4…` as a number.
    new = secrets.choice("abcdef") + secrets.token_hex(16)[1:]
    identity = str(next(stash, new))
    stacks = {labels.get(STACK, "") for labels in (_labels(found, identity) for found in known) if labels}
    stack = stacks.pop() if len(stacks) == 1 else ""
    held = objects.keys() | identities(definitions)
    return OwnState(identity, frozenset(held), definitions, moved, objects, stack)


def _labels(resource: StateResource, identity: str) -> Mapping[str, str]:
    """The labels of an object that this state declares."""
    metadata = resource.outputs.get("metadata")
    is_own = isinstance(metadata, Mapping) and owner_of(metadata) == identity
    return metadata.get("labels") or {} if metadata is not None and is_own else {}


def _state_object(resource: StateResource, who: Identity) -> StateObject:
    version = resource.type.removeprefix("kubernetes:").rpartition(":")[0].removeprefix("core/")
    declared = (resource.outputs.get("__inputs") or {}).get("metadata") or resource.outputs["metadata"]
    return StateObject(
        api_version=version,
        urn=resource.urn,
        retained=is_retained(who[0], declared),
        of_launch=LAUNCH in (declared.get("labels") or {}),
    )


def _object(resource: StateResource) -> Identity | None:
    metadata = resource.outputs.get("metadata")
    if resource.type == _NAMESPACE and not resource.parent_type and resource.name.endswith(_PROOF):
        return None
    if not resource.type.startswith("kubernetes:") or not isinstance(metadata, Mapping) or "name" not in metadata:
        return None
    return resource.type.rpartition(":")[2], metadata.get("namespace"), str(metadata["name"])
