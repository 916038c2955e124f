"""The permission of `trainstack destroy --keep-platform` to delete all objects of a state, active runs included."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from trainstack.objects.labels import RUN, SWEEP
from trainstack.objects.ownership import Identity
from trainstack.stacks.teardown_mode import Permission, permit


def permit_all(
    root: Path, stack: str, resources: Iterable[Mapping[str, Any]]
) -> AbstractContextManager[Mapping[str, str]]:
    """Permit one run of the program to delete the stack.

    `resources` have the form of `pulumi stack export`, or of the simulated engine's state.
    """
    objects = [resource for resource in resources if resource["type"].startswith("kubernetes:")]
    labels = [(((item.get("inputs") or {}).get("metadata") or {}).get("labels") or {}) for item in objects]
    stop = {label[key] for label in labels for key in (RUN, SWEEP) if key in label}
    permission = Permission(
        mode="keep-platform",
        stack=stack,
        deleted=tuple(map(_identity, objects)),
        retained=tuple(_identity(item) for item in objects if item.get("retainOnDelete") or item.get("retain")),
        stop=tuple(sorted(stop)),
    )
    return permit(root, permission)


def _identity(resource: Mapping[str, Any]) -> Identity:
    namespace, _, name = str(resource.get("id") or "").rpartition("/")
    return resource["type"].rpartition(":")[2], namespace or None, name
