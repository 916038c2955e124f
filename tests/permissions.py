"""The permission of `trainstack destroy --keep-platform` to delete all objects of a state, active runs included."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from trainstack.objects.labels import RUN, SWEEP
from trainstack.objects.ownership import Identity
from trainstack.runs.recorded_launches import state_resource
from trainstack.stacks.engine_state import own_state
from trainstack.stacks.teardown_permission import Permission, permit


def permit_all(
    root: Path, stack: str, resources: Iterable[Mapping[str, Any]]
) -> AbstractContextManager[Mapping[str, str]]:
    """Permit one run of the program to delete the stack.

    `resources` have the form of `pulumi stack export`, or of the simulated engine's state.
    """
    resources = list(resources)
    labels = [(((item.get("inputs") or {}).get("metadata") or {}).get("labels") or {}) for item in resources]
    stop = {label[key] for label in labels for key in (RUN, SWEEP) if key in label}
    retained = [item for item in resources if item.get("retainOnDelete")]
    permission = Permission(
        mode="keep-platform",
        stack=stack,
        deleted=tuple(_objects(resources)),
        retained=tuple(_objects(retained)),
        stop=tuple(sorted(stop)),
    )
    return permit(root, permission)


def _objects(resources: Iterable[Mapping[str, Any]]) -> frozenset[Identity]:
    return own_state(state_resource(item["urn"], item.get("outputs")) for item in resources).object_identities
