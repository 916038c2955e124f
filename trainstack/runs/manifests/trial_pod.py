"""The labels, variables and volumes that connect the pods of a launch to their sweep."""

from trainstack.objects.labels import SET, SWEEP, Manifest
from trainstack.runs.launch import Launch
from trainstack.settings.search_space.hyperparams import SETS_FILE

TRIALS_FILE = "trials.json"
SWEEP_FOLDER = "/opt/trainstack-sweep"
"""Where the sweep's files are mounted in the pods of an Indexed Job."""
SWEEP_VOLUME = "trainstack-sweep"
NUMBER = "JOB_ID"
"""The variable with the number of a pod's set, from 1."""


def sweep_labels(launch: Launch) -> dict[str, str]:
    if launch.sweep is None:
        return {}
    trial = launch.sweep.trial
    return {SWEEP: launch.sweep.sweep, **({} if trial is None else {SET: trial.set_id})}


def sweep_env(launch: Launch) -> list[Manifest]:
    """The variables with the number of a pod's set, or with the file in which the wrapper finds it."""
    if launch.sweep is None:
        return []
    trial = launch.sweep.trial
    if trial is not None:
        return [{"name": NUMBER, "value": str(trial.number)}]
    values = {"TRAINSTACK_SWEEP": launch.sweep.sweep, "TRAINSTACK_TRIALS": f"{SWEEP_FOLDER}/{TRIALS_FILE}"}
    return [{"name": name, "value": value} for name, value in values.items()]


def sweep_definition(launch: Launch) -> Manifest:
    """The sweep's part of a trial's record; for an Indexed Job the wrapper adds it per index."""
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
    """The volume of `sweep_mounts`; empty if there are no mounts."""
    if launch.sweep is None or not sweep_mounts(launch):
        return []
    return [{"name": SWEEP_VOLUME, "configMap": {"name": launch.sweep.file}}]
