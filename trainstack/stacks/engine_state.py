"""The stack's state in the engine, which the program reads before it declares resources."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from google.protobuf.struct_pb2 import Struct
from pulumi.runtime import rpc

from trainstack.guards.definition_releases import definition_identities, revisions_of_resource
from trainstack.guards.other_states import IDENTITY_RESOURCE_NAME, OwnState, StateObject, owning_state
from trainstack.objects.labels import LAUNCH, STACK
from trainstack.objects.ownership import Identity
from trainstack.platform.retained import is_retained
from trainstack.runs.recorded_launches import RUNS_TYPE, SWEEP_TYPE, StateResource, state_resource

_METADATA = ("name", "namespace", "uid", "labels", "annotations")
_STASH = "pulumi:index:Stash"
_NAMESPACE = "kubernetes:core/v1:Namespace"
_DECLARED_RETENTION = (_NAMESPACE, "kubernetes:core/v1:PersistentVolumeClaim")
"""The types whose declared metadata determines whether the engine deletes the object: another client may have edited
the live metadata."""
_PROOF_SUFFIX = "-identity"
"""The suffix of the Pulumi names of the namespaces that the stack only reads to identify a provider's cluster
(trainstack/components/cluster.py). The engine's response does not show which resources are read-only; these have no
parent."""


def read_engine_state(response: Struct) -> tuple[StateResource, ...]:
    """Return the resources of the running operation's state, including those that an interrupted `up` recorded.

    `response` is the response to `request_engine_state`.
    """
    resources_by_urn = response.fields["outputs"].struct_value.fields
    return tuple(_state_resource(urn, resource.struct_value) for urn, resource in resources_by_urn.items())


def _state_resource(urn: str, stored_resource: Struct) -> StateResource:
    resource, outputs = state_resource(urn, None), stored_resource.fields["outputs"].struct_value
    properties = _convert_fields(outputs, "input", "output")
    if "metadata" in outputs.fields:
        properties["metadata"] = _convert_fields(outputs.fields["metadata"].struct_value, *_METADATA)
    has_relevant_inputs = resource.parent_type in (RUNS_TYPE, SWEEP_TYPE) or resource.type in _DECLARED_RETENTION
    if has_relevant_inputs and "__inputs" in outputs.fields:
        inputs = outputs.fields["__inputs"].struct_value.fields
        if "metadata" in inputs:
            properties["__inputs"] = {"metadata": _convert_fields(inputs["metadata"].struct_value, *_METADATA)}
    return replace(resource, outputs=properties)


def _convert_fields(struct: Struct, *names: str) -> dict[str, Any]:
    """Convert only the named fields: all fields of a state have tens of thousands of values."""
    selected_fields = Struct(fields={name: struct.fields[name] for name in names if name in struct.fields})
    return dict(rpc.deserialize_properties_unwrap_secrets(selected_fields)[0])


def own_state(resources: Iterable[StateResource]) -> OwnState:
    """Return the identity and the objects of the stack's state. A state without an identity gets a new one."""
    stored_resources = list(resources)
    stash_outputs = (
        resource.outputs.get("output")
        for resource in stored_resources
        if (resource.type, resource.name) == (_STASH, IDENTITY_RESOURCE_NAME)
    )
    definitions = {
        name: revision for resource in stored_resources for name, revision in revisions_of_resource(resource).items()
    }
    objects = {
        identity: _state_object(resource, identity)
        for resource in stored_resources
        if (identity := _object_identity(resource)) is not None
    }
    # The first digit is a letter, because YAML parsers read `0b08…` or `12e4…` as a number.
    new_identity = secrets.choice("abcdef") + secrets.token_hex(16)[1:]
    state_identity = str(next(stash_outputs, new_identity))
    stacks = {
        labels.get(STACK, "")
        for labels in (_own_labels(resource, state_identity) for resource in stored_resources)
        if labels
    }
    stack = stacks.pop() if len(stacks) == 1 else ""
    object_identities = objects.keys() | definition_identities(definitions)
    return OwnState(state_identity, frozenset(object_identities), definitions, objects, stack)


def _own_labels(resource: StateResource, state_identity: str) -> Mapping[str, str]:
    """Return the labels of an object that this state declares; empty for other objects."""
    metadata = resource.outputs.get("metadata")
    is_own = isinstance(metadata, Mapping) and owning_state(metadata) == state_identity
    return metadata.get("labels") or {} if metadata is not None and is_own else {}


def _state_object(resource: StateResource, identity: Identity) -> StateObject:
    api_version = resource.type.removeprefix("kubernetes:").rpartition(":")[0].removeprefix("core/")
    metadata = (resource.outputs.get("__inputs") or {}).get("metadata") or resource.outputs["metadata"]
    return StateObject(
        api_version=api_version,
        urn=resource.urn,
        is_retained=is_retained(identity[0], metadata),
        belongs_to_launch=LAUNCH in (metadata.get("labels") or {}),
    )


def _object_identity(resource: StateResource) -> Identity | None:
    """Return the identity of a resource's object; None for resources without one, and for read-only namespaces."""
    metadata = resource.outputs.get("metadata")
    if resource.type == _NAMESPACE and not resource.parent_type and resource.name.endswith(_PROOF_SUFFIX):
        return None
    if not resource.type.startswith("kubernetes:") or not isinstance(metadata, Mapping) or "name" not in metadata:
        return None
    return resource.type.rpartition(":")[2], metadata.get("namespace"), str(metadata["name"])
