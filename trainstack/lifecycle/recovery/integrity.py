"""The faults because of which the engine refuses a state that it can parse. Pure.

Source: VerifyIntegrity in pkg/resource/stack/snapshot/integrity.go of Pulumi v3.259.0.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from trainstack.lifecycle.recovery.problem import Problem, RecoveryCommands
from trainstack.lifecycle.recovery.restore_advice import Backup, restore_advice
from trainstack.runs.recorded_launches import state_resource

_NEWER_RELEASE_PHRASES = ("unsupported checkpoint version", "needs support for the following features")
"""Parts of the engine's messages about a state of a newer release."""


Remedy = Literal["repair", "restore", "upgrade"]


@dataclass(frozen=True)
class StateFault:
    """Why the engine refuses a state."""

    message: str
    remedy: Remedy = "restore"
    """`repair`: `pulumi state repair` removes the fault. `restore`: only another state does, for example if a parent is
    missing: that command would turn its children into other resources, and the next `up` would delete their objects.
    `upgrade`: a newer engine wrote the state."""


def parse_engine_fault(message: str) -> StateFault:
    """Return the fault of a state that the engine cannot parse, from its message."""
    is_newer = any(phrase in message for phrase in _NEWER_RELEASE_PHRASES)
    return StateFault(" ".join(message.removeprefix("error:").split()), "upgrade" if is_newer else "restore")


def find_state_faults(deployment: Any) -> tuple[StateFault, ...]:
    """Return the faults of a state's `deployment`; empty if the engine accepts it."""
    try:
        return tuple(_integrity_faults(deployment or {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return (StateFault(f"it has values of unexpected types ({type(error).__name__}: {error})"[:200]),)


def refused_state_problem(
    state_faults: tuple[StateFault, ...], name: str, backup: Backup | None, recovery: RecoveryCommands
) -> Problem:
    """Return the problem of a state that the engine refuses. `backup` is None if the state is not in a folder."""
    others_text = f" (and {len(state_faults) - 1} more)" if len(state_faults) > 1 else ""
    message = f"the engine refuses the state: {state_faults[0].message}{others_text}"
    remedies = {fault.remedy for fault in state_faults}
    if remedies == {"repair"}:
        return Problem("state-refused", name, message, (recovery.repair, recovery.up))
    if "upgrade" in remedies:
        return Problem("state-refused", name, f"{message}. Use the release of Pulumi that wrote it, or a newer one", ())
    advice, commands = restore_advice(backup, recovery)
    return Problem("state-refused", name, f"{message}. {advice}", commands)


def _integrity_faults(deployment: Mapping[str, Any]) -> Iterator[StateFault]:
    manifest = deployment.get("manifest") or {}
    version = manifest.get("version") or ""
    if (manifest.get("magic") or "") != (hashlib.sha256(version.encode()).hexdigest() if version else ""):
        yield StateFault("its manifest was edited (magic cookie mismatch)")
    resources = deployment.get("resources") or []
    # The engine requires that a resource follows its dependencies, parent and provider.
    all_names = {name for resource in resources for name in _names(resource)}
    preceding_names: set[str] = set()
    for resource in resources:
        urn = str(resource.get("urn") or "")
        if not urn or not resource.get("type"):
            yield StateFault(f"a resource has no {'type' if urn else 'urn'} ({urn or resource})"[:200])
            continue
        if resource.get("id") and not resource.get("custom"):
            yield StateFault(f"{_display_name(urn)} has an id, but no object")
        for role, required_name in _required_resources(resource):
            if required_name not in all_names:
                yield StateFault(
                    f"the {role} of {_display_name(urn)}, {_display_name(required_name)}, is missing",
                    "repair" if role == "dependency" else "restore",
                )
            elif required_name not in preceding_names:
                yield StateFault(
                    f"the {role} of {_display_name(urn)}, {_display_name(required_name)}, follows it", "repair"
                )
        preceding_names.update(_names(resource))
    # Former objects of a replacement have the URN of the new one.
    counts = Counter(resource.get("urn") for resource in resources if not resource.get("delete"))
    yield from (
        StateFault(f"it has {_display_name(str(urn))} {count} times") for urn, count in counts.items() if count > 1
    )


def _names(resource: Mapping[str, Any]) -> tuple[str, str]:
    """Return the two names by which others refer to a resource: its URN, and the reference to a provider."""
    urn = str(resource.get("urn") or "")
    return urn, f"{urn}::{resource.get('id', '')}"


def _required_resources(resource: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the roles and names of the resources that have to precede a resource."""
    dependencies = chain(
        resource.get("dependencies") or (),
        *(urns or () for urns in (resource.get("propertyDependencies") or {}).values()),
        resource.get("replaceWith") or (),
        [resource["deletedWith"]] if resource.get("deletedWith") else (),
    )
    yield from (("dependency", urn) for urn in dict.fromkeys(dependencies))
    if resource.get("parent"):
        yield "parent", resource["parent"]
    if resource.get("provider") and not resource.get("pendingReplacement"):
        yield "provider", resource["provider"]


def _display_name(urn: str) -> str:
    """Return kind and name: `Job team/digits`."""
    _, *parts = urn.split("::", 3)
    if len(parts) < 3:  # project, types and name
        return urn
    resource = state_resource(urn, None)
    return f"{resource.type.rpartition(':')[2]} {resource.name}"
