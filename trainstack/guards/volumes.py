"""Refusals to delete or replace volumes with data. Pure.

The engine never deletes volumes with `retain: true` (`retain_on_delete`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from trainstack.objects.immutable_fields import differences
from trainstack.objects.labels import RETAIN, STACK
from trainstack.objects.ownership import adopted_identities, identity
from trainstack.platform import other_objects, storage
from trainstack.platform.retained import is_retained
from trainstack.preflight.rule_context import with_paths
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.values.quantities import amount

Body = Mapping[str, Any]
ClaimName = tuple[str, str]
"""The namespace and the name of a claim."""
PlaceFinder = Callable[[str], Place | None]
"""A function that returns the place of a setting, or of its nearest enclosing setting, by its path."""


@dataclass(frozen=True)
class VolumeDanger:
    """A volume whose data the change would lose, or whose edit the API server would refuse."""

    name: str
    """`<namespace>/<name>` of a claim, or the name of a persistent volume."""
    effect: str
    """The effect of the change, for a message."""
    remedy: str
    """The remedy if storage.discard cannot allow the change; otherwise empty."""


def find_dangers(
    settings: Settings,
    claims: Sequence[Body],
    volumes: Sequence[Body],
    find_place: PlaceFinder,
    retention_by_claim: Mapping[ClaimName, bool] = MappingProxyType({}),
) -> tuple[VolumeDanger, ...]:
    """Return every volume that the change would delete or replace, or cannot edit.

    Args:
        settings: the environment.
        claims: the live claims that are declared, are in the engine's state, or have this stack's label.
        volumes: the live persistent volumes that are declared.
        find_place: finds the places of settings.
        retention_by_claim: whether the engine retains a claim in its state, by namespace and name.

    """
    declared_claims = {(claim.namespace, claim.name): claim for claim in _declared_claims(settings)}
    dangers: list[VolumeDanger] = []
    for body in claims:
        meta = body["metadata"]
        name = (meta["namespace"], meta["name"])
        claim = declared_claims.get(name)
        is_own = (meta.get("labels") or {}).get(STACK) == settings.stack
        # The annotation is from the last `up`, as is the option in the engine's state, so it can replace that option.
        is_claim_retained = retention_by_claim.get(name, is_retained("PersistentVolumeClaim", meta))
        # The guard of owners (objects/ownership.py) refuses claims of other owners.
        if "deletionTimestamp" in meta or not (is_own or (claim and claim.adopt)):
            continue
        if claim is None:
            dangers += () if is_claim_retained else _removal_dangers(body, _place_prefix(find_place, "storage.volumes"))
        else:
            dangers += (
                _edit_danger(body, claim, edit, find_place, is_claim_retained=is_claim_retained)
                for edit in _refused_edits(claim.manifest, body, is_own=is_own)
            )
    live_volumes_by_name = {body["metadata"]["name"]: body for body in volumes}
    for volume in _declared_persistent_volumes(settings):
        if volume.name in live_volumes_by_name:
            dangers += _persistent_volume_dangers(volume, live_volumes_by_name[volume.name], find_place)
    return tuple(dangers)


@dataclass(frozen=True)
class _DeclaredVolume:
    """A claim or a persistent volume of section `storage` or `objects`."""

    path: str
    manifest: Body
    adopt: bool
    protect: bool = False
    is_verbatim: bool = False
    """Whether the settings have the manifest itself, so that the path of an edit is that in the manifest."""

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"].get("namespace", ""))

    def path_of(self, setting: str, manifest_path: str) -> str:
        """Return the path in the settings of a field: `setting` in section `storage`, or the path in the manifest."""
        return f"{self.path}.{manifest_path if self.is_verbatim else setting}"


def _declared_claims(settings: Settings) -> Iterator[_DeclaredVolume]:
    if "training" in settings.environment.layers:
        for path, volume in with_paths("storage.volumes", settings.storage.volumes):
            manifest = storage.claim(volume, settings.stack)
            yield _DeclaredVolume(path, manifest, adopt=volume.adopt, protect=volume.protect)
    yield from _volumes_of_objects(settings, "PersistentVolumeClaim")


def _declared_persistent_volumes(settings: Settings) -> Iterator[_DeclaredVolume]:
    if "platform" in settings.environment.layers:
        for path, volume in with_paths("storage.persistentVolumes", settings.storage.persistent_volumes):
            yield _DeclaredVolume(path, storage.persistent_volume(volume, settings.stack), adopt=volume.adopt)
    yield from _volumes_of_objects(settings, "PersistentVolume")


def _volumes_of_objects(settings: Settings, kind: str) -> Iterator[_DeclaredVolume]:
    adopted_objects = adopted_identities(settings)
    for index, manifest in enumerate(other_objects.manifests(settings)):
        if manifest["kind"] == kind:
            adopt = identity(manifest) in adopted_objects
            yield _DeclaredVolume(f"objects.manifests[{index}]", manifest, adopt=adopt, is_verbatim=True)


def decide_discards(
    dangers: Sequence[VolumeDanger], discard: Sequence[str], mounting_pods: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return refusals and notes. The change may delete claims in `discard` that no pod mounts.

    `mounting_pods`: the result of `find_mounting_pods`.
    """
    refusals, notes = [], []
    for danger in dangers:
        pods = mounting_pods.get(danger.name, ())
        if danger.remedy:
            refusals.append(f"{danger.effect}; {danger.remedy}")
        elif danger.name not in discard:
            refusals.append(
                f"{danger.effect}; undo the edit, or allow the loss of its data: trainstack:storage: "
                f"discard: [{danger.name}]"
            )
        elif pods:
            refusals.append(
                f"{danger.effect}. It is mounted by {', '.join(pods)}, so it is not discarded: wait until the pods "
                "have ended, or stop their runs first"
            )
        else:
            notes.append(f"{danger.effect}; storage.discard allows it")
    unused_names = sorted({*discard} - {danger.name for danger in dangers})
    notes += (
        f"discard names {name}, which this change neither deletes nor replaces: remove the entry"
        for name in unused_names
    )
    return tuple(refusals), tuple(notes)


def find_mounting_pods(pods: Sequence[Body]) -> dict[str, tuple[str, ...]]:
    """Return the pods that mount claims and have not ended, by the `<namespace>/<name>` of the claims."""
    mounting_pods: dict[str, tuple[str, ...]] = {}
    for pod in pods:
        meta = pod["metadata"]
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for volume in pod["spec"].get("volumes") or ():
            if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
                name = f"{meta['namespace']}/{claim}"
                mounting_pods[name] = (*mounting_pods.get(name, ()), f"pod {meta['namespace']}/{meta['name']}")
    return mounting_pods


def _removal_dangers(body: Body, place: str) -> Iterator[VolumeDanger]:
    # A claim that was never bound has no data.
    if not body["spec"].get("volumeName"):
        return
    name = _claim_name(body)
    yield VolumeDanger(
        name,
        f"{place}PersistentVolumeClaim {name} is no longer declared, and this change would delete it with its data "
        f"(volume {body['spec']['volumeName']})",
        "",
    )


def _persistent_volume_dangers(volume: _DeclaredVolume, live: Body, find_place: PlaceFinder) -> Iterator[VolumeDanger]:
    for edit in differences(volume.manifest, live, is_own=not volume.adopt):
        path = volume.path_of(edit.field.setting, edit.field.path) if edit.field.setting else volume.path
        place = _place_prefix(find_place, path)
        effect = f"PersistentVolume {volume.name} has {edit.field.name} {edit.live}, and {edit.declared} is declared"
        remedy = "undo the edit, or declare the other folder as a volume with another name"
        yield VolumeDanger(volume.name, f"{place}{effect}: the field is immutable", remedy)


@dataclass(frozen=True)
class _RefusedEdit:
    """An edit of a claim that the API server would refuse."""

    setting: str
    manifest_path: str
    live: str
    declared: str


def _refused_edits(manifest: Body, live: Body, *, is_own: bool) -> Iterator[_RefusedEdit]:
    for edit in differences(manifest, live, is_own=is_own):
        yield _RefusedEdit(edit.field.name, edit.field.path, edit.live, edit.declared)
    live_size, size = _requested_size(live), _requested_size(manifest)
    if live_size and size and amount(live_size) > amount(size):
        yield _RefusedEdit("size", "spec.resources.requests.storage", live_size, size)


def _requested_size(claim: Body) -> str:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return str(requests.get("storage", ""))


def _edit_danger(
    body: Body, claim: _DeclaredVolume, edit: _RefusedEdit, find_place: PlaceFinder, *, is_claim_retained: bool
) -> VolumeDanger:
    name, place = _claim_name(body), _place_prefix(find_place, claim.path_of(edit.setting, edit.manifest_path))
    subject = f"{place}PersistentVolumeClaim {name} has {edit.setting} {edit.live}, and {edit.declared} is declared"
    remedy = "undo the edit, or declare a volume with another name and copy the data to it"
    if edit.setting == "size":
        return VolumeDanger(name, f"{subject}: a claim cannot be shrunk", remedy)
    effect = f"{subject}: the field is immutable, and this change would replace the claim with an empty one"
    if claim.protect:
        return VolumeDanger(name, effect, f"it is protected: {remedy}")
    if is_claim_retained:
        retain = f'annotate it with {RETAIN}: "false"' if claim.is_verbatim else "set `retain: false`"
        discard = f"to discard its data, {retain}, run `up`, then add the claim to storage.discard"
        return VolumeDanger(
            name, f"{subject}: the field is immutable, and the claim is retained", f"{remedy}; {discard}"
        )
    return VolumeDanger(name, effect, "")


def _claim_name(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _place_prefix(find_place: PlaceFinder, path: str) -> str:
    place = find_place(path)
    return f"{place}: {path}: " if place else f"{path}: "
