"""This stack's state in the engine, as the program can read it before it declares anything."""

import secrets
from collections.abc import Iterable, Mapping

import pulumi

from trainstack.guards.states import MEMORY, OwnState
from trainstack.objects.ownership import Identity
from trainstack.runs.recorded import StateResource, state_resource

_READ = "pulumi:pulumi:readStackResourceOutputs"
"""A function of the engine's built-in provider: the outputs of every resource of a stack, by URN."""
_STASH = "pulumi:index:Stash"
_NAMESPACE = "kubernetes:core/v1:Namespace"
_PROOF = "-identity"
"""How the Pulumi names end of the namespaces that the stack only reads, by which a provider proves which cluster it
reaches (trainstack/components/cluster.py). The engine's response does not show which resources are read-only; these
have no parent."""


def read_engine_state() -> tuple[StateResource, ...]:
    """The resources that the state of this stack holds now; none before the first `up`.

    It is the state of the running operation, in every backend, so an `up` that was interrupted shows what it recorded.
    """
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    answer = pulumi.runtime.invoke(_READ, {"stackName": name}).value
    return tuple(state_resource(urn, found.get("outputs")) for urn, found in answer["outputs"].items())


def own_state(resources: Iterable[StateResource]) -> OwnState:
    """Which state this is, with a new identity where it has none yet, and the objects that it holds."""
    known = list(resources)
    identities = [each.outputs.get("output") for each in known if (each.type, each.name) == (_STASH, MEMORY)]
    held = frozenset(who for each in known if (who := _object(each)) is not None)
    return OwnState(str(identities[0]) if identities else _new_identity(), held)


def _new_identity() -> str:
    """32 hexadecimal digits at random. The first is a letter: readers of YAML take `0b08…` or `12e4…` for a number."""
    return secrets.choice("abcdef") + secrets.token_hex(16)[1:]


def _object(resource: StateResource) -> Identity | None:
    metadata = resource.outputs.get("metadata")
    if resource.type == _NAMESPACE and not resource.parent_type and resource.name.endswith(_PROOF):
        return None
    if not resource.type.startswith("kubernetes:") or not isinstance(metadata, Mapping) or "name" not in metadata:
        return None
    return resource.type.rpartition(":")[2], metadata.get("namespace"), str(metadata["name"])
