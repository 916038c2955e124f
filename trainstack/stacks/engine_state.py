"""The stack's state in the engine, which the program reads before it declares resources."""

import secrets
from collections.abc import Iterable, Mapping

import pulumi

from trainstack.guards.definitions import KIND, identities, revisions
from trainstack.guards.states import MEMORY, OwnState
from trainstack.objects.ownership import Identity
from trainstack.runs.recorded import StateResource, state_resource

_READ = "pulumi:pulumi:readStackResourceOutputs"
"""A function of the engine's built-in provider: the outputs of every resource of a stack, by URN."""
_STASH = "pulumi:index:Stash"
_NAMESPACE = "kubernetes:core/v1:Namespace"
_PROOF = "-identity"
"""The suffix of the Pulumi names of the namespaces that the stack only reads to identify a provider's cluster
(trainstack/components/cluster.py). The engine's response does not show which resources are read-only; these have no
parent."""


def read_engine_state() -> tuple[StateResource, ...]:
    """Return the resources of the running operation's state, which has what an interrupted `up` recorded."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    outputs = pulumi.runtime.invoke(_READ, {"stackName": name}).value["outputs"]
    return tuple(state_resource(urn, found.get("outputs")) for urn, found in outputs.items())


def own_state(resources: Iterable[StateResource]) -> OwnState:
    """Return the state's identity, a new one if it has none yet, and its objects."""
    known = list(resources)
    stash = (found.outputs.get("output") for found in known if (found.type, found.name) == (_STASH, MEMORY))
    definitions = {name: revision for found in known for name, revision in revisions(found).items()}
    objects = frozenset(who for found in known if (who := _object(found)) is not None)
    moved = frozenset(name for kind, _, name in objects if kind == KIND)
    # The first digit is a letter: YAML parsers read `0b08…` or `12e4…` as a number.
    new = secrets.choice("abcdef") + secrets.token_hex(16)[1:]
    return OwnState(str(next(stash, new)), objects | identities(definitions), definitions, moved)


def _object(resource: StateResource) -> Identity | None:
    metadata = resource.outputs.get("metadata")
    if resource.type == _NAMESPACE and not resource.parent_type and resource.name.endswith(_PROOF):
        return None
    if not resource.type.startswith("kubernetes:") or not isinstance(metadata, Mapping) or "name" not in metadata:
        return None
    return resource.type.rpartition(":")[2], metadata.get("namespace"), str(metadata["name"])
