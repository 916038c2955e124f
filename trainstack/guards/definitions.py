"""Operators' definitions (CRDs). The engine's state has one small resource for all those of a release. Pure.

The resource contains a revision of each definition: the digest of its manifest. The live definition has the same
revision as an annotation, and its `metadata.managedFields` show whether this state still owns the declared fields. So
the metadata that every change reads anyway is enough to find the definitions to apply.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.declared.declared import Declared
from trainstack.guards.states import OwnState
from trainstack.objects.labels import OWNER, REVISION, STATE, Manifest, field_manager, is_field_manager, with_state
from trainstack.objects.ownership import Identity, identity, listed
from trainstack.platform.operators.install import OperatorManifests, short_hash
from trainstack.runs.recorded import StateResource

KIND = "CustomResourceDefinition"
API_VERSION = "apiextensions.k8s.io/v1"
COMPONENT = "trainstack:platform:Definitions"
"""The type token of the parent of the resources of releases."""
RESOURCE = "pulumi:index:Stash"
"""The type token of the resource of a release: a Stash, a value in the state that the engine itself implements."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """The definitions of an operator's release in the form that is applied."""

    version: str
    state: str
    """The identity of the engine's state; empty in a program that does not have it."""
    manifests: tuple[Manifest, ...]
    """The definitions, annotated with their revisions and the identity of the state."""

    @property
    def manager(self) -> str:
        """The field manager of the declared fields."""
        return _manager(self.state)

    @property
    def recorded(self) -> dict[str, Any]:
        """The resource's value, which differs from the one in the engine's state if a definition must be applied."""
        revisions = {manifest["metadata"]["name"]: _revision(manifest["metadata"]) for manifest in self.manifests}
        return {"version": self.version, "state": self.state, "definitions": revisions}


def planned(
    declared: Declared,
    live: Mapping[Identity, Mapping[str, Any]],
    stored: Mapping[str, str],
    state: str = "",
    *,
    salt: str = "",
) -> dict[str, Release]:
    """Plan the definitions of each operator's release.

    Args:
        stack_objects: the objects of the environment.
        live_metadata: the metadata of the objects that exist.
        stored_revisions: the revisions in the engine's state by the names of the definitions.
        state_identity: the identity of the engine's state; empty if it is unknown.
        salt: a suffix of revisions that differs in each `up`, for a program that cannot read the stored ones.

    """
    installs = declared.settings.operators.installs
    return {
        name: _release(operator, installs[name].manifest.version, live, stored, state, salt)
        for name, operator in declared.operators.items()
        if operator.crds
    }


def _release(
    operator: OperatorManifests,
    version: str,
    live: Mapping[Identity, Mapping[str, Any]],
    stored: Mapping[str, str],
    state: str,
    salt: str,
) -> Release:
    manifests = []
    for manifest in operator.crds:
        metadata = with_state(manifest["metadata"], state) if state else manifest["metadata"]
        found = live.get(identity(manifest), {})
        digest = short_hash(json.dumps(manifest, sort_keys=True))
        revision = _revision(found)
        if _digest(revision) != digest or not _is_owned({**manifest, "metadata": metadata}, found, _manager(state)):
            revision = f"{digest}-{salt}" if salt else _next(digest, stored.get(metadata["name"], ""))
        annotations = {**metadata.get("annotations", {}), REVISION: revision}
        manifests.append({**manifest, "metadata": {**metadata, "annotations": annotations}})
    return Release(version=version, state=state, manifests=tuple(manifests))


def drifted(
    releases: Mapping[str, Release], live: Mapping[Identity, Mapping[str, Any]], stored: Mapping[str, str]
) -> tuple[str, ...]:
    """Return notes on the definitions that other clients have deleted or changed since the last `up`."""
    manifests = [manifest for release in releases.values() for manifest in release.manifests]
    own = {identity(manifest): _revision(manifest["metadata"]) for manifest in manifests}
    unchanged = [who for who in own if _digest(own[who]) == _digest(stored.get(who[2], ""))]
    deleted = sorted(who[2] for who in unchanged if who not in live)
    changed = sorted(who[2] for who in unchanged if who in live and own[who] != _revision(live[who]))
    return tuple(
        f"{KIND} {listed(names)} {'was' if len(names) == 1 else 'were'} {what} outside of this stack; `up` applies "
        f"{'it' if len(names) == 1 else 'them'} again"
        for names, what in ((deleted, "deleted"), (changed, "changed"))
        if names
    )


def moved(state: OwnState) -> tuple[str, ...]:
    """Return a note on the definitions that an earlier release of Trainstack stored as one resource each."""
    names = sorted(state.moved)
    if not names:
        return ()
    note = (
        f"{KIND} {listed(names)}: the engine's state has one resource for each release now, so this change removes "
        f"{'this one' if len(names) == 1 else 'these'} from the state; nothing is deleted in the cluster"
    )
    return (note,)


def revisions(resource: StateResource) -> Mapping[str, str]:
    """Return the revisions by name in a resource of the engine's state; empty if it is not that of a release."""
    if (resource.type, resource.parent_type) != (RESOURCE, COMPONENT):
        return {}
    return dict((resource.outputs.get("input") or {}).get("definitions") or {})


def identities(names: Iterable[str]) -> frozenset[Identity]:
    return frozenset((KIND, None, name) for name in names)


def recorded_manifests(properties: Mapping[str, Any]) -> Sequence[Manifest]:
    """Return the manifests of the definitions in the inputs of a release's resource, with only their metadata."""
    recorded = properties["input"]
    return [
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "annotations": {STATE: recorded["state"]}},
        }
        for name in recorded["definitions"]
    ]


def to_take_over(metadata: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """Return a patch of the live metadata that avoids a conflict in an apply by `manager`; empty if there is none.

    A client that restores a definition from a backup owns its old revision, so the annotation is removed: then it has
    no owner. The revision of another state is not removed, and remains a conflict.
    """
    fields = metadata.get("managedFields") or ()
    change: dict[str, Any] = {}
    if (applied := _applied_by(fields, manager)) is not None:
        change["managedFields"] = applied
    if any(_has(entry, REVISION) for entry in fields if not is_field_manager(entry["manager"])):
        change["annotations"] = {REVISION: None}
    return change


def _has(entry: Mapping[str, Any], annotation: str) -> bool:
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return f"f:{annotation}" in (metadata.get("f:annotations") or {})


def _applied_by(fields: Sequence[Mapping[str, Any]], manager: str) -> list[Mapping[str, Any]] | None:
    """Return `managedFields` with all fields of this state in one apply by `manager`; None if they already are.

    The engine's provider updates definitions instead of applying them, and so did earlier releases of Trainstack. The
    API server regards an update and an apply as two managers, even if they have the same name.
    """
    own = [entry for entry in fields if _of_provider(entry, manager) or _is_apply(entry, manager)]
    if all(_is_apply(entry, manager) for entry in own):
        return None
    merged: Mapping[str, Any] = {}
    for entry in own:
        merged = _union(merged, entry.get("fieldsV1") or {})
    latest = max(own, key=lambda entry: str(entry.get("time", "")))
    others = [entry for entry in fields if entry not in own]
    return [*others, {**latest, "manager": manager, "operation": "Apply", "fieldsV1": merged}]


def _of_provider(entry: Mapping[str, Any], manager: str) -> bool:
    # The provider generates a name for objects without the annotation of a field manager.
    of_provider = entry["manager"] == manager or entry["manager"].startswith("pulumi-kubernetes")
    return bool(of_provider and not _is_apply(entry, manager) and not entry.get("subresource"))


def _is_apply(entry: Mapping[str, Any], manager: str) -> bool:
    return bool(entry["manager"] == manager and entry["operation"] == "Apply")


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: _union(one.get(key, {}), other.get(key, {})) for key in {**one, **other}}


def _manager(state: str) -> str:
    return field_manager(state) if state else OWNER


def _revision(metadata: Mapping[str, Any]) -> str:
    return str((metadata.get("annotations") or {}).get(REVISION) or "")


def _digest(revision: str) -> str:
    return revision.partition("-")[0]


def _next(digest: str, stored: str) -> str:
    """Return a revision that differs from the stored one, also if the same manifest is applied again."""
    known, _, count = stored.partition("-")
    # Another client, or a salt, may have written a suffix that is no number.
    return f"{digest}-{int(count) + 1 if count.isdecimal() else 1}" if known == digest else digest


def _is_owned(manifest: Manifest, metadata: Mapping[str, Any], manager: str) -> bool:
    """Return whether the fields that `manager` has applied to the live object include all declared ones.

    The API server removes a field from this set when another client changes or deletes it.
    """
    if not metadata or "deletionTimestamp" in metadata:
        return False
    fields: Mapping[str, Any] = next(
        (entry["fieldsV1"] for entry in metadata.get("managedFields") or () if _is_apply(entry, manager)), {}
    )
    given = manifest["metadata"]
    declared = {
        "metadata": {key: given[key] for key in ("labels", "annotations") if key in given},
        "spec": manifest.get("spec", {}),
    }
    return _covers(fields, declared)


def _covers(fields: Mapping[str, Any], declared: Mapping[str, Any]) -> bool:
    """Return whether a set of fields contains all paths of a map.

    A list is one path, and so is a map that the set contains as a whole.
    """
    for key, value in declared.items():
        below = fields.get(f"f:{key}")
        if below is None or (below and isinstance(value, Mapping) and not _covers(below, value)):
            return False
    return True
