"""The labels, variables and volumes that connect the pods of a launch to their sweep."""

from collections.abc import Mapping

from trainstack.objects.labels import SET, SETS, SWEEP, TRIALS, Manifest
from trainstack.runs.launch import Launch
from trainstack.settings.search_space.hyperparams import SETS_FILE

TRIALS_FILE = "trials.json"
SWEEP_FOLDER = "/opt/trainstack-sweep"
"""The mount path of the sweep's files in the pods of an Indexed Job."""
SWEEP_VOLUME = "trainstack-sweep"
ANNOTATIONS_BY_FILE = {SETS_FILE: SETS, TRIALS_FILE: TRIALS}
"""The annotations of a dispatched pod by the file whose content they contain."""
NUMBER_VARIABLE = "JOB_ID"
"""The name of the variable with the number of a pod's set, from 1."""


def sweep_labels(launch: Launch) -> dict[str, str]:
    if launch.sweep is None:
        return {}
    trial = launch.sweep.trial
    return {SWEEP: launch.sweep.sweep, **({} if trial is None else {SET: trial.set_id})}


def sweep_env(launch: Launch) -> list[Manifest]:
    """Return the variable with the number of a pod's set, or those with the file from which the wrapper reads it."""
    if launch.sweep is None:
        return []
    trial = launch.sweep.trial
    if trial is not None:
        return [{"name": NUMBER_VARIABLE, "value": str(trial.number)}]
    values = {"TRAINSTACK_SWEEP": launch.sweep.sweep, "TRAINSTACK_TRIALS": f"{SWEEP_FOLDER}/{TRIALS_FILE}"}
    return [{"name": name, "value": value} for name, value in values.items()]


def sweep_definition(launch: Launch) -> Manifest:
    """Return the sweep's part of a trial's record; for an Indexed Job the wrapper adds it per index."""
    if launch.sweep is None or launch.sweep.trial is None:
        return {}
    trial = launch.sweep.trial
    parameters = dict(trial.parameters)
    return {"sweep": {"name": launch.sweep.sweep, "number": trial.number, "id": trial.set_id, "parameters": parameters}}


def sweep_mounts(launch: Launch) -> list[Manifest]:
    mounts: list[Manifest] = []
    if launch.sweep is not None and launch.sweep.trial is None:
        mounts.append({"name": SWEEP_VOLUME, "mountPath": SWEEP_FOLDER, "readOnly": True})
    if launch.sweep is not None and launch.sweep.path is not None:
        mounts.append({"name": SWEEP_VOLUME, "mountPath": launch.sweep.path, "subPath": SETS_FILE, "readOnly": True})
    return mounts


def sweep_volumes(launch: Launch) -> list[Manifest]:
    """Return the volume of `sweep_mounts`; empty if there are no mounts."""
    if launch.sweep is None or not sweep_mounts(launch):
        return []
    return [{"name": SWEEP_VOLUME, "configMap": {"name": launch.sweep.file}}]


def file_annotations(files: Mapping[str, str], path: str | None) -> dict[str, str]:
    """Return the annotations of a dispatched launch's pods.

    `files`: the contents of the sweep's files. `path`: where the program reads the sets; None if it does not.
    """
    return {
        annotation: files[file]
        for file, annotation in ANNOTATIONS_BY_FILE.items()
        if file in files and (file != SETS_FILE or path is not None)
    }


def mount_files_from_annotations(template: Manifest, files: Mapping[str, str]) -> None:
    """Put the sweep's files into the annotations of a pod template, and mount them from there.

    A worker cluster does not have the sweep's ConfigMap. The volume still contains its name, because commands read the
    name back.
    """
    spec = template["spec"]
    volume = next((candidate for candidate in spec.get("volumes") or () if candidate["name"] == SWEEP_VOLUME), None)
    if volume is None:
        return
    mounts = [mount for container in spec["containers"] for mount in container.get("volumeMounts") or ()]
    path = next((mount["mountPath"] for mount in mounts if mount.get("subPath") == SETS_FILE), None)
    annotations = file_annotations(files, path)
    metadata = template.setdefault("metadata", {})
    metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}
    items = [
        {"path": file, "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}
        for file, annotation in ANNOTATIONS_BY_FILE.items()
        if annotation in annotations
    ]
    config_map = {**volume.pop("configMap"), "optional": True}
    volume["projected"] = {"sources": [{"downwardAPI": {"items": items}}, {"configMap": config_map}]}
