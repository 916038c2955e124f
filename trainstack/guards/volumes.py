"""Refusals to delete or replace volumes with data. Pure.

The engine never deletes volumes with `retain: true` (`retain_on_delete`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from trainstack.objects.immutable_fields import differences
from trainstack.objects.labels import STACK
from trainstack.platform import storage
from trainstack.platform.retained import is_retained
from trainstack.preflight.rule_context import with_paths
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.sections.storage import PersistentVolume, Volume
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
    layers = settings.environment.layers
    declared_claims = {
        (claim.namespace, claim.name): (path, claim)
        for path, claim in with_paths("storage.volumes", settings.storage.volumes)
        if "training" in layers
    }
    dangers: list[VolumeDanger] = []
    for body in claims:
        meta = body["metadata"]
        name = (meta["namespace"], meta["name"])
        path, volume = declared_claims.get(name, ("storage.volumes", None))
        is_own = (meta.get("labels") or {}).get(STACK) == settings.stack
        # The annotation is from the last `up`, as is the option in the engine's state, so it can replace that option.
        is_claim_retained = retention_by_claim.get(name, is_retained("PersistentVolumeClaim", meta))
        # The guard of owners (objects/ownership.py) refuses claims of other owners.
        if "deletionTimestamp" in meta or not (is_own or (volume and volume.adopt)):
            continue
        if volume is None:
            dangers += () if is_claim_retained else _removal_dangers(body, _place_prefix(find_place, path))
        else:
            dangers += (
                _edit_danger(
                    body,
                    volume,
                    edit,
                    _place_prefix(find_place, f"{path}.{edit[0]}"),
                    is_claim_retained=is_claim_retained,
                )
                for edit in _refused_edits(volume, settings.stack, body, is_own=is_own)
            )
    live_volumes_by_name = {body["metadata"]["name"]: body for body in volumes}
    for path, host_volume in with_paths("storage.persistentVolumes", settings.storage.persistent_volumes):
        if "platform" in layers and host_volume.name in live_volumes_by_name:
            dangers += _host_volume_dangers(
                host_volume, settings.stack, live_volumes_by_name[host_volume.name], find_place, path
            )
    return tuple(dangers)


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


def _host_volume_dangers(
    volume: PersistentVolume, stack: str, live: Body, find_place: PlaceFinder, path: str
) -> Iterator[VolumeDanger]:
    manifest = storage.persistent_volume(volume, stack)
    for edit in differences(manifest, live, is_own=not volume.adopt):
        place = _place_prefix(find_place, edit.field.settings_path(path))
        effect = f"PersistentVolume {volume.name} has {edit.field.name} {edit.live}, and {edit.declared} is declared"
        remedy = "undo the edit, or declare the other folder as a volume with another name"
        yield VolumeDanger(volume.name, f"{place}{effect}: the field is immutable", remedy)


def _refused_edits(volume: Volume, stack: str, live: Body, *, is_own: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the key, live value and declared value of each edit that the API server would refuse."""
    for edit in differences(storage.claim(volume, stack), live, is_own=is_own):
        yield edit.field.name, edit.live, edit.declared
    size = str(live["spec"]["resources"]["requests"]["storage"])
    if amount(size) > amount(volume.size):
        yield "size", size, volume.size


def _edit_danger(
    body: Body, volume: Volume, edit: tuple[str, str, str], place: str, *, is_claim_retained: bool
) -> VolumeDanger:
    name, (key, old, new) = _claim_name(body), edit
    claim = f"{place}PersistentVolumeClaim {name} has {key} {old}, and {new} is declared"
    remedy = "undo the edit, or declare a volume with another name and copy the data to it"
    if key == "size":
        return VolumeDanger(name, f"{claim}: a claim cannot be shrunk", remedy)
    effect = f"{claim}: the field is immutable, and this change would replace the claim with an empty one"
    if volume.protect:
        return VolumeDanger(name, effect, f"it is protected: {remedy}")
    if is_claim_retained:
        discard = "to discard its data, set `retain: false`, run `up`, then add the claim to storage.discard"
        return VolumeDanger(name, f"{claim}: the field is immutable, and the claim is retained", f"{remedy}; {discard}")
    return VolumeDanger(name, effect, "")


def _claim_name(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _place_prefix(find_place: PlaceFinder, path: str) -> str:
    place = find_place(path)
    return f"{place}: {path}: " if place else f"{path}: "
