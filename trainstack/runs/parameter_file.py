"""The ConfigMap with a sweep's parameter file: the committed sets, and the trial of each completion index.

The ConfigMap is named after its content, and a launch keeps the ConfigMap that it was launched with. A number therefore
always denotes the same set within a launch, even if the sweep's files change.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trainstack.objects.labels import SWEEP, Manifest, metadata
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import canonical, digest
from trainstack.runs.manifests.launched_pods import launched_pods, mounted_config_map
from trainstack.runs.manifests.sweep_pod import NUMBER_VARIABLE, SWEEP_VOLUME, TRIALS_FILE, file_annotations
from trainstack.runs.manifests.trials import Trial, trials
from trainstack.runs.names import RUN_DIGITS, run_id, sweep_file_name
from trainstack.settings.search_space.hyperparams import SETS_FILE, format_sets
from trainstack.settings.sections.sweeps import Sweep

WITHDRAWN_FILE, STOPPED_FILE = "withdrawn.json", "stopped.json"
"""Lists of run ids that are added to the ConfigMap while its Job is active: the trials whose sets were removed, and
those of them that are stopped even if they are running. The name of the ConfigMap does not depend on them."""
MAX_CONFIG_MAP_BYTES = 1 << 20
"""The maximum size of a ConfigMap's data."""
MAX_ANNOTATION_BYTES = 240 << 10
"""The maximum size of the files in a dispatched pod's annotations, which may have 256 KiB in all."""

FileContents = Mapping[str, str]
"""The data of the ConfigMap: contents by file name."""


class TooManySetsError(WorkloadError):
    """An error in a sweep with more sets than fit into a ConfigMap or into the annotations of a dispatched pod."""


def jobs_data(sweep: Sweep) -> FileContents:
    """Return the data of a sweep whose trials are launched individually. Raises TooManySetsError."""
    return _data_within_limit(sweep, lambda count: {SETS_FILE: _sets_text(sweep, count)})


def batch_data(sweep: Sweep, members: Sequence[tuple[str, Trial]]) -> FileContents:
    """Return the data of an Indexed Job with these run ids and trials. Raises TooManySetsError."""
    target = sweep.space.objective.target
    # The wrapper reads the objective from metrics.jsonl only, so it needs no format for logs.
    objective_fields = sweep.space.objective.model_dump(by_alias=True, exclude={"metrics_format"})
    objective = objective_fields if target is not None else None

    def data_of_first(count: int) -> FileContents:
        entries = [_trial_entry(member, trial) for member, trial in members if trial.number <= count]
        trials_text = canonical({"objective": objective, "trials": entries})
        # Count the withdrawal of all trials, so that a later withdrawal fits into the ConfigMap, too.
        run_ids = [member["run_id"] for member in entries]
        return withdraw_trials({SETS_FILE: _sets_text(sweep, count), TRIALS_FILE: trials_text}, run_ids, run_ids)

    return withdraw_trials(_data_within_limit(sweep, data_of_first), (), ())


def check_size(sweep: Sweep) -> None:
    """Raise TooManySetsError if the data of all of a sweep's sets exceeds a ConfigMap."""
    _all_sets_data(sweep)


def check_annotation_size(sweep: Sweep) -> None:
    """Raise TooManySetsError if the pods of a dispatched sweep cannot have its files as annotations.

    `check_size` reports a sweep whose files do not even fit into a ConfigMap; this function ignores it.
    """
    try:
        files = _all_sets_data(sweep)
    except TooManySetsError:
        return
    size, count = _size_bytes(file_annotations(files, sweep.space.file)), len(sweep.sets)
    if size > MAX_ANNOTATION_BYTES:
        message = (
            f"its {count} sets need {size} bytes, but the annotations of a dispatched pod hold {MAX_ANNOTATION_BYTES} "
            f"(about {count * MAX_ANNOTATION_BYTES // size} sets)"
        )
        raise TooManySetsError(message, "move the others to a second sweep", path=f"sweep {sweep.name}")


def _all_sets_data(sweep: Sweep) -> FileContents:
    """Return the data of all sets; {} if no pod reads a file. Raises TooManySetsError."""
    if sweep.form == "indexed":
        # Stand-ins suffice for the size: all run ids of a sweep have the same length.
        members = [(run_id(sweep.name, f"{trial.number:0{RUN_DIGITS}}"), trial) for trial in trials(sweep)]
        return batch_data(sweep, members)
    return {} if sweep.space.file is None else jobs_data(sweep)


def parameter_file_name(sweep: str, data: FileContents) -> str:
    return sweep_file_name(sweep, digest(withdraw_trials(data, (), ())))


def parameter_config_map(name: str, sweep: str, namespace: str, stack: str, data: FileContents) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, stack, namespace=namespace, labels={SWEEP: sweep}),
        "data": dict(data),
    }


def read_parameter_file(config_map: Mapping[str, Any]) -> FileContents:
    """Return the data of a live ConfigMap. Raises WorkloadError if its trials cannot be read."""
    data: FileContents = config_map.get("data") or {}
    try:
        set_ids_by_run(data)
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        place = f"ConfigMap {config_map['metadata'].get('namespace')}/{config_map['metadata']['name']}"
        raise WorkloadError(
            f"{place}: {TRIALS_FILE} has the trials of a sweep, but cannot be read ({type(error).__name__}: "
            f"{str(error)[:200]}): it was edited. Restore it"
        ) from error
    return data


def set_ids_by_run(data: FileContents) -> dict[str, str]:
    """Return the set ids of the trials by run id, in the order of the completion indexes."""
    content = json.loads(data.get(TRIALS_FILE, '{"trials": []}'))
    return {str(trial["run_id"]): str(trial["id"]) for trial in content["trials"]}


def withdraw_trials(data: FileContents, run_ids: Iterable[str], stopped: Iterable[str]) -> FileContents:
    """Return a copy in which `run_ids` are withdrawn; the trials in `stopped` end even if they are running."""
    lists = {WITHDRAWN_FILE: sorted(run_ids), STOPPED_FILE: sorted(stopped)}
    other_files = {name: text for name, text in data.items() if name not in lists}
    return {**other_files, **{name: canonical(ids) for name, ids in lists.items() if ids}}


def mounted_parameter_file(objects: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the name of the parameter ConfigMap that the pods of a launch mount; None if they mount none.

    Raises WorkloadError for an edited ledger.
    """
    return mounted_config_map(objects, SWEEP_VOLUME)


def read_trial_number(launch: Mapping[str, Any]) -> int | None:
    """Return the trial number in the environment of a launch's pods; None for an Indexed Job and for a run."""
    for pods in launched_pods(launch):
        for container in pods.spec["containers"]:
            for variable in container.get("env") or ():
                if variable["name"] == NUMBER_VARIABLE and str(variable.get("value")).isdecimal():
                    return int(variable["value"])
    return None


def _sets_text(sweep: Sweep, count: int) -> str:
    """Return hyperparams.yml as committed, or with its first `count` sets only."""
    is_complete = count == len(sweep.sets)
    return sweep.sets_text if is_complete else format_sets(sweep.name, sweep.space, sweep.sets[:count])


def _trial_entry(run_id: str, trial: Trial) -> Manifest:
    return {
        "run_id": run_id,
        "number": trial.number,
        "id": trial.set_id,
        "parameters": dict(trial.parameters),
        "args": list(trial.overrides.args),
        "env": dict(trial.overrides.env),
    }


def _data_within_limit(sweep: Sweep, data_of_first: Callable[[int], FileContents]) -> FileContents:
    """Return the data of all sets. Raises TooManySetsError with the number of sets that fit.

    `data_of_first`: a function that returns the data of the first n sets.
    """
    count = len(sweep.sets)
    all_data = data_of_first(count)
    if _size_bytes(all_data) <= MAX_CONFIG_MAP_BYTES:
        return all_data
    fitting_count = bisect_right(
        range(1, count), MAX_CONFIG_MAP_BYTES, key=lambda number: _size_bytes(data_of_first(number))
    )
    message = (
        f"its {count} sets need {_size_bytes(all_data)} bytes, but a ConfigMap holds {MAX_CONFIG_MAP_BYTES} "
        f"({fitting_count} sets)"
    )
    raise TooManySetsError(message, "move the others to a second sweep", path=f"sweep {sweep.name}")


def _size_bytes(data: FileContents) -> int:
    return sum(len(text.encode()) for text in data.values())
