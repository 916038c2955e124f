"""Volumes with data: which this change would delete or replace, and whether it may.

Pure: from the settings and what a cluster holds to refusals. What the settings retain is never deleted by the engine
(`retain_on_delete`); here stands what it would delete, and what it would try to replace and could not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import RETAIN, STACK
from trainstack.preflight.rule_context import with_paths
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.sections.storage import Volume
from trainstack.settings.values.quantities import amount

Body = Mapping[str, Any]
Name = tuple[str, str]
"""Namespace and name of a claim."""
Where = Callable[[str], Place | None]
"""Where a setting's value, or what encloses it, is set."""


@dataclass(frozen=True)
class Danger:
    """A volume that this change would harm."""

    name: str
    """`<namespace>/<name>` of a claim, the name of a persistent volume."""
    what: str
    """What would happen to it, as a sentence."""
    never: str
    """What to do instead, where the change cannot have it by naming it either; else empty."""


def dangers(settings: Settings, claims: Sequence[Body], volumes: Sequence[Body], where: Where) -> tuple[Danger, ...]:
    """Every volume that this change would delete or replace.

    Args:
        settings: the environment.
        claims: the live claims that it declares, or that bear this stack's mark.
        volumes: the live persistent volumes that it declares.
        where: tells the place of a setting.

    """
    halves = settings.environment.halves
    declared = {
        (one.namespace, one.name): (path, one)
        for path, one in with_paths("storage.volumes", settings.storage.volumes)
        if "training" in halves
    }
    found: list[Danger] = []
    for body in claims:
        meta = body["metadata"]
        path, volume = declared.get((meta["namespace"], meta["name"]), ("storage.volumes", None))
        ours = (meta.get("labels") or {}).get(STACK) == settings.stack
        # What is somebody else's is refused as such.
        if "deletionTimestamp" in meta or not (ours or (volume and volume.adopt)):
            continue
        if volume is None:
            found += _removed(body, _place(where, path))
        else:
            found += (_edited(body, volume, *edit, where, path) for edit in _edits(volume, body["spec"]))
    by_name = {body["metadata"]["name"]: body["spec"] for body in volumes}
    for path, one in with_paths("storage.persistentVolumes", settings.storage.persistent_volumes):
        held = (by_name.get(one.name) or {}).get("hostPath", {}).get("path", one.host_path)
        if "platform" in halves and held != one.host_path:
            found.append(
                Danger(
                    one.name,
                    f"{_place(where, f'{path}.hostPath')}PersistentVolume {one.name} stands on {held}, and "
                    f"{one.host_path} is declared: another folder is another volume, and no volume can be edited so",
                    "undo the edit, or give the volume on the other folder another name",
                )
            )
    return tuple(found)


def judge(
    found: Sequence[Danger], discard: Sequence[str], mounted: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Refusals and notes: what the change names goes, but not under a pod that mounts it.

    Args:
        found: the volumes in danger.
        discard: the claims whose data the environment lets this change delete.
        mounted: the pods that mount a claim, by `<namespace>/<name>`.

    """
    refusals, notes = [], []
    for danger in found:
        pods = mounted.get(danger.name, ())
        if danger.never:
            refusals.append(f"{danger.what}; {danger.never}")
        elif danger.name not in discard:
            refusals.append(
                f"{danger.what}; undo the edit, or, if its data may go: trainstack:storage: discard: [{danger.name}]"
            )
        elif pods:
            refusals.append(
                f"{danger.what}. It is mounted by {', '.join(pods)}, so it is not discarded: wait until the pods have "
                "ended, or stop their runs first"
            )
        else:
            notes.append(f"{danger.what}, as storage.discard says")
    idle = sorted({*discard} - {danger.name for danger in found})
    notes += (f"discard names {name}, which this change neither deletes nor replaces: drop the entry" for name in idle)
    return tuple(refusals), tuple(notes)


def mounting(pods: Sequence[Body]) -> dict[str, tuple[str, ...]]:
    """The pods that have not ended, by the `<namespace>/<name>` of each claim that they mount."""
    users: dict[str, tuple[str, ...]] = {}
    for pod in pods:
        meta = pod["metadata"]
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for volume in pod["spec"].get("volumes") or ():
            if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
                name = f"{meta['namespace']}/{claim}"
                users[name] = (*users.get(name, ()), f"pod {meta['namespace']}/{meta['name']}")
    return users


def _removed(body: Body, place: str) -> Iterator[Danger]:
    """A claim that no setting names any more; one that is retained stays, and one that was never bound is empty."""
    if _retained(body) or not body["spec"].get("volumeName"):
        return
    name = _name(body)
    yield Danger(
        name,
        f"{place}PersistentVolumeClaim {name} is no longer named, and this change would delete it with its data "
        f"(volume {body['spec']['volumeName']})",
        "",
    )


def _edits(volume: Volume, spec: Body) -> Iterator[tuple[str, str, str]]:
    """Key, value there and value here of each setting that a live claim cannot take."""
    if spec.get("storageClassName") != volume.storage_class:
        yield "storageClass", str(spec.get("storageClassName")), volume.storage_class
    if sorted(spec.get("accessModes") or ()) != sorted(volume.access_modes):
        yield "accessModes", ", ".join(spec.get("accessModes") or ()), ", ".join(volume.access_modes)
    held = (spec.get("selector") or {}).get("matchLabels") or {}
    if held != volume.selector:
        yield "selector", str(held or "none"), str(volume.selector or "none")
    size = str(spec["resources"]["requests"]["storage"])
    if amount(size) > amount(volume.size):
        yield "size", size, volume.size


def _edited(body: Body, volume: Volume, key: str, old: str, new: str, where: Where, path: str) -> Danger:
    name, place = _name(body), _place(where, f"{path}.{key}")
    claim = f"{place}PersistentVolumeClaim {name} has {key} {old}, and {new} is declared"
    instead = "undo the edit, or declare a volume of another name and copy the data to it"
    if key == "size":
        return Danger(name, f"{claim}: no claim can become smaller", instead)
    what = f"{claim}: no claim can be edited so, and this change would replace it with an empty one"
    if volume.protect:
        return Danger(name, what, f"it is protected: {instead}")
    if _retained(body):
        first = "to give its data up, set `retain: false` first, run `up`, and name it in storage.discard then"
        return Danger(name, f"{claim}: no claim can be edited so, and this one is retained", f"{instead}; {first}")
    return Danger(name, what, "")


def _retained(body: Body) -> bool:
    """Whether the engine would leave it where it is; what it knows is what the last `up` has told it."""
    return (body["metadata"].get("annotations") or {}).get(RETAIN) != "false"


def _name(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _place(where: Where, path: str) -> str:
    place = where(path)
    return f"{place}: {path}: " if place else f"{path}: "
