"""Operators' definitions (CRDs). The engine's state has one small resource for all those of a release. Pure.

The resource contains a revision of each definition: the digest of its manifest. The live definition has the same
revision as an annotation, and its `metadata.managedFields` show whether this state still owns the declared fields. So
the metadata that every change reads anyway is enough to find the definitions to apply.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import OWNER, REVISION, STATE, Manifest, field_manager, is_field_manager, with_state
from trainstack.objects.ownership import Identity, format_names, identity
from trainstack.platform.operators.install import OperatorManifests, short_hash
from trainstack.runs.recorded_launches import StateResource
from trainstack.stack_objects.stack_objects import StackObjects

KIND = "CustomResourceDefinition"
API_VERSION = "apiextensions.k8s.io/v1"
COMPONENT_TYPE = "trainstack:platform:Definitions"
"""The type token of the parent of the resources of releases."""
RESOURCE_TYPE = "pulumi:index:Stash"
"""The type token of the resource of a release: a Stash, a value in the state that the engine itself implements."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """The definitions of an operator's release in the form that is applied."""

    version: str
    state_identity: str
    """The identity of the engine's state; empty in a program that does not have it."""
    manifests: tuple[Manifest, ...]
    """The definitions, annotated with their revisions and the identity of the state."""

    @property
    def manager(self) -> str:
        """The field manager of the declared fields."""
        return _release_manager(self.state_identity)

    @property
    def stored_value(self) -> dict[str, Any]:
        """The resource's value, which differs from the one in the engine's state if a definition must be applied."""
        revisions = {manifest["metadata"]["name"]: _revision_in(manifest["metadata"]) for manifest in self.manifests}
        return {"version": self.version, "state": self.state_identity, "definitions": revisions}


def plan_releases(
    stack_objects: StackObjects,
    live_metadata: Mapping[Identity, Mapping[str, Any]],
    stored_revisions: Mapping[str, str],
    state_identity: str = "",
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
    installs = stack_objects.settings.operators.installs
    return {
        name: _plan_release(
            operator, installs[name].manifest.version, live_metadata, stored_revisions, state_identity, salt
        )
        for name, operator in stack_objects.operators.items()
        if operator.crds
    }


def _plan_release(
    operator: OperatorManifests,
    version: str,
    live_metadata: Mapping[Identity, Mapping[str, Any]],
    stored_revisions: Mapping[str, str],
    state_identity: str,
    salt: str,
) -> Release:
    manifests = []
    for manifest in operator.crds:
        metadata = with_state(manifest["metadata"], state_identity) if state_identity else manifest["metadata"]
        definition_metadata = live_metadata.get(identity(manifest), {})
        digest = short_hash(json.dumps(manifest, sort_keys=True))
        revision = _revision_in(definition_metadata)
        if _digest_of_revision(revision) != digest or not _is_owned(
            {**manifest, "metadata": metadata}, definition_metadata, _release_manager(state_identity)
        ):
            revision = (
                f"{digest}-{salt}" if salt else _next_revision(digest, stored_revisions.get(metadata["name"], ""))
            )
        annotations = {**metadata.get("annotations", {}), REVISION: revision}
        manifests.append({**manifest, "metadata": {**metadata, "annotations": annotations}})
    return Release(version=version, state_identity=state_identity, manifests=tuple(manifests))


def drift_notes(
    releases: Mapping[str, Release],
    live_metadata: Mapping[Identity, Mapping[str, Any]],
    stored_revisions: Mapping[str, str],
) -> tuple[str, ...]:
    """Return notes on the definitions that other clients have deleted or changed since the last `up`."""
    manifests = [manifest for release in releases.values() for manifest in release.manifests]
    declared_revisions = {identity(manifest): _revision_in(manifest["metadata"]) for manifest in manifests}
    unedited_keys = [
        key
        for key in declared_revisions
        if _digest_of_revision(declared_revisions[key]) == _digest_of_revision(stored_revisions.get(key[2], ""))
    ]
    deleted_names = sorted(key[2] for key in unedited_keys if key not in live_metadata)
    changed_names = sorted(
        key[2]
        for key in unedited_keys
        if key in live_metadata and declared_revisions[key] != _revision_in(live_metadata[key])
    )
    return tuple(
        f"{KIND} {format_names(names)} {'was' if len(names) == 1 else 'were'} {change} outside of this stack; `up` "
        f"applies {'it' if len(names) == 1 else 'them'} again"
        for names, change in ((deleted_names, "deleted"), (changed_names, "changed"))
        if names
    )


def revisions_of_resource(resource: StateResource) -> Mapping[str, str]:
    """Return the revisions by name in a resource of the engine's state; empty if it is not that of a release."""
    if (resource.type, resource.parent_type) != (RESOURCE_TYPE, COMPONENT_TYPE):
        return {}
    return dict((resource.outputs.get("input") or {}).get("definitions") or {})


def definition_identities(names: Iterable[str]) -> frozenset[Identity]:
    return frozenset((KIND, None, name) for name in names)


def recorded_manifests(properties: Mapping[str, Any]) -> Sequence[Manifest]:
    """Return the manifests of the definitions in the inputs of a release's resource, with only their metadata."""
    stored_value = properties["input"]
    return [
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "annotations": {STATE: stored_value["state"]}},
        }
        for name in stored_value["definitions"]
    ]


def takeover_patch(metadata: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """Return a patch of the live metadata that avoids a conflict in an apply by `manager`; empty if there is none.

    A client that restores a definition from a backup owns its old revision, so the annotation is removed: then it has
    no owner. The revision of another state is not removed, and remains a conflict.
    """
    managed_fields = metadata.get("managedFields") or ()
    patch: dict[str, Any] = {}
    if (transferred_fields := _merge_into_apply(managed_fields, manager)) is not None:
        patch["managedFields"] = transferred_fields
    if any(_manages_annotation(entry, REVISION) for entry in managed_fields if not is_field_manager(entry["manager"])):
        patch["annotations"] = {REVISION: None}
    return patch


def _manages_annotation(entry: Mapping[str, Any], annotation: str) -> bool:
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return f"f:{annotation}" in (metadata.get("f:annotations") or {})


def _merge_into_apply(managed_fields: Sequence[Mapping[str, Any]], manager: str) -> list[Mapping[str, Any]] | None:
    """Return `managedFields` with all fields of this state in one apply by `manager`; None if they already are.

    The engine's provider updates definitions instead of applying them, in other programs that declare them. The API
    server regards an update and an apply as two managers, even if they have the same name.
    """
    own_entries = [
        entry for entry in managed_fields if _is_provider_update(entry, manager) or _is_apply(entry, manager)
    ]
    if all(_is_apply(entry, manager) for entry in own_entries):
        return None
    merged_fields: Mapping[str, Any] = {}
    for entry in own_entries:
        merged_fields = _union(merged_fields, entry.get("fieldsV1") or {})
    latest_entry = max(own_entries, key=lambda entry: str(entry.get("time", "")))
    other_entries = [entry for entry in managed_fields if entry not in own_entries]
    return [*other_entries, {**latest_entry, "manager": manager, "operation": "Apply", "fieldsV1": merged_fields}]


def _is_provider_update(entry: Mapping[str, Any], manager: str) -> bool:
    # The provider generates a name for objects without the annotation of a field manager.
    is_provider = entry["manager"] == manager or entry["manager"].startswith("pulumi-kubernetes")
    return bool(is_provider and not _is_apply(entry, manager) and not entry.get("subresource"))


def _is_apply(entry: Mapping[str, Any], manager: str) -> bool:
    return bool(entry["manager"] == manager and entry["operation"] == "Apply")


def _union(left: Mapping[str, Any], right: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: _union(left.get(key, {}), right.get(key, {})) for key in {**left, **right}}


def _release_manager(state_identity: str) -> str:
    return field_manager(state_identity) if state_identity else OWNER


def _revision_in(metadata: Mapping[str, Any]) -> str:
    return str((metadata.get("annotations") or {}).get(REVISION) or "")


def _digest_of_revision(revision: str) -> str:
    return revision.partition("-")[0]


def _next_revision(digest: str, stored_revision: str) -> str:
    """Return a revision that differs from the stored one, also if the same manifest is applied again."""
    stored_digest, _, count = stored_revision.partition("-")
    # Another client, or a salt, may have written a suffix that is no number.
    return f"{digest}-{int(count) + 1 if count.isdecimal() else 1}" if stored_digest == digest else digest


def _is_owned(manifest: Manifest, metadata: Mapping[str, Any], manager: str) -> bool:
    """Return whether the fields that `manager` has applied to the live object include all declared ones.

    The API server removes a field from this set when another client changes or deletes it.
    """
    if not metadata or "deletionTimestamp" in metadata:
        return False
    applied_fields: Mapping[str, Any] = next(
        (entry["fieldsV1"] for entry in metadata.get("managedFields") or () if _is_apply(entry, manager)), {}
    )
    declared_metadata = manifest["metadata"]
    declared_fields = {
        "metadata": {key: declared_metadata[key] for key in ("labels", "annotations") if key in declared_metadata},
        "spec": manifest.get("spec", {}),
    }
    return _covers(applied_fields, declared_fields)


def _covers(fields: Mapping[str, Any], declared_fields: Mapping[str, Any]) -> bool:
    """Return whether a set of fields contains all paths of a map.

    A list is one path, and so is a map that the set contains as a whole.
    """
    for key, value in declared_fields.items():
        nested_fields = fields.get(f"f:{key}")
        if nested_fields is None or (
            nested_fields and isinstance(value, Mapping) and not _covers(nested_fields, value)
        ):
            return False
    return True
