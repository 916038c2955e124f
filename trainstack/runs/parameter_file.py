"""The ConfigMap with a sweep's parameter file: its sets as committed, and which trial each completion index is.

It is named after its content, and a launch keeps the one that it was launched with: whatever becomes of the sweep's
files, a number means the same set to it for ever.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trainstack.objects.labels import SWEEP, Manifest, metadata
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import canonical, digest
from trainstack.runs.manifests.launched_pods import launched_pods, mounted
from trainstack.runs.manifests.trial_names import Trial, trials
from trainstack.runs.manifests.trial_pod import NUMBER, SWEEP_VOLUME, TRIALS_FILE
from trainstack.runs.names import RUN_DIGITS, run_id, sweep_file_name
from trainstack.settings.search_space.hyperparams import SETS_FILE, ParameterSet, text_of
from trainstack.settings.sections.sweeps import Sweep

WITHDRAWN_FILE, STOPPED_FILE = "withdrawn.json", "stopped.json"
"""Lists of run ids that come into a file while its Job is active: trials whose sets were taken out, and those among
them that are to end though they run. They are not in the file's name."""
LIMIT_BYTES = 1 << 20
"""What a ConfigMap holds."""

Data = Mapping[str, str]
"""What a ConfigMap of this kind holds, by file."""


class TooManySetsError(WorkloadError):
    """A sweep of more sets than a ConfigMap holds."""

    def __init__(self, sweep: str, message: str, remedy: str) -> None:
        super().__init__(f"sweep {sweep}: {message}; {remedy}")
        self.message = message
        self.remedy = remedy


def jobs_data(sweep: Sweep) -> Data:
    """The file of a sweep whose trials are launched one by one. Raises TooManySetsError."""
    return _within_limit(sweep, lambda count: {SETS_FILE: _sets(sweep, count)})


def batch_data(sweep: Sweep, members: Sequence[tuple[str, Trial]]) -> Data:
    """The file of an Indexed Job of these trials, with their run ids. Raises TooManySetsError."""
    target = sweep.space.objective.target
    # The wrapper judges a target by metrics.jsonl alone.
    judged = sweep.space.objective.model_dump(by_alias=True, exclude={"metrics_format"})
    objective = judged if target is not None else None

    def first(count: int) -> Data:
        entries = [_entry(each, trial) for each, trial in members if trial.number <= count]
        listed = canonical({"objective": objective, "trials": entries})
        # All of them may be withdrawn later, and there must be room for that then.
        run_ids = [each["run_id"] for each in entries]
        return withdrawn({SETS_FILE: _sets(sweep, count), TRIALS_FILE: listed}, run_ids, run_ids)

    return withdrawn(_within_limit(sweep, first), (), ())


def check_size(sweep: Sweep) -> None:
    """Raise TooManySetsError where a sweep could not be launched whole."""
    if sweep.form == "indexed":
        # Which run a trial is does not change how long its id is.
        batch_data(sweep, [(run_id(sweep.name, f"{trial.number:0{RUN_DIGITS}}"), trial) for trial in trials(sweep)])
    elif sweep.space.file is not None:
        jobs_data(sweep)


def file_name(sweep: str, data: Data) -> str:
    """What the ConfigMap is called."""
    lasting = {name: text for name, text in data.items() if name not in (WITHDRAWN_FILE, STOPPED_FILE)}
    return sweep_file_name(sweep, digest(lasting))


def file_config_map(name: str, sweep: str, namespace: str, stack: str, data: Data) -> Manifest:
    """The ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, stack, namespace=namespace, labels={SWEEP: sweep}),
        "data": dict(data),
    }


def withdrawn(data: Data, run_ids: Iterable[str], stopped: Iterable[str]) -> Data:
    """A file with these trials withdrawn, and these among them told to end."""
    lists = {WITHDRAWN_FILE: sorted(run_ids), STOPPED_FILE: sorted(stopped)}
    lasting = {name: text for name, text in data.items() if name not in lists}
    return {**lasting, **{name: canonical(ids) for name, ids in lists.items() if ids}}


def file_of(objects: Sequence[Mapping[str, Any]]) -> str | None:
    """The name of the file that the pods of a launch mount; None where they mount none. See `mounted`."""
    return mounted(objects, SWEEP_VOLUME)


def number_of(launch: Mapping[str, Any]) -> int | None:
    """The number that the pods of a trial's launch are told; None where they are told none."""
    for pods in launched_pods(launch):
        for container in pods.spec["containers"]:
            for variable in container.get("env") or ():
                if variable["name"] == NUMBER and str(variable.get("value")).isdecimal():
                    return int(variable["value"])
    return None


def _sets(sweep: Sweep, count: int) -> str:
    """hyperparams.yml as it is committed; with fewer sets than there are, as it would be."""
    sets = _of(sweep)
    return sweep.sets_text if count == len(sets) else text_of(sweep.name, sweep.space, sets[:count])


def _of(sweep: Sweep) -> tuple[ParameterSet, ...]:
    return sweep.expansion.sets if sweep.expansion else ()


def _entry(run_id: str, trial: Trial) -> Manifest:
    return {
        "run_id": run_id,
        "number": trial.number,
        "id": trial.set_id,
        "parameters": dict(trial.parameters),
        "args": list(trial.args),
        "env": dict(trial.env),
    }


def _within_limit(sweep: Sweep, first: Callable[[int], Data]) -> Data:
    """The data of all sets, `first` giving it for as many as it is asked for.

    Raises TooManySetsError, with how many would fit.
    """
    count = len(_of(sweep))
    whole = first(count)
    if _bytes(whole) <= LIMIT_BYTES:
        return whole
    fit, too_many = 0, count
    while too_many - fit > 1:
        middle = (fit + too_many) // 2
        fit, too_many = (middle, too_many) if _bytes(first(middle)) <= LIMIT_BYTES else (fit, middle)
    message = f"its {count} sets need {_bytes(whole)} bytes, and a ConfigMap holds {LIMIT_BYTES}: {fit} sets fit"
    raise TooManySetsError(sweep.name, message, "make a second sweep of the others")


def _bytes(data: Data) -> int:
    return sum(len(text.encode()) for text in data.values())
