"""The branches and tags of `code`, and the commits that `pins/<environment>.yaml` holds for them."""

from collections.abc import Iterator, Mapping

from trainstack.settings.errors import Finding, Place
from trainstack.settings.model import Settings
from trainstack.settings.sections.code import Code, Commit
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.paths import nearest_place


def is_code(key: str) -> bool:
    """Whether a key of the file names code, `<git> <revision>`: references of images hold no space."""
    return " " in key


def named_code(settings: Settings) -> Iterator[tuple[str, str, Code]]:
    """The `code` whose revision is a branch or a tag: the revision's path, the key of its pin, and the code."""
    for path, run in settings.trained():
        if run.code is not None and run.code.pin is not None:
            yield f"{path}.code.revision", run.code.pin, run.code


def with_commits(settings: Settings, places: Mapping[str, Place], file: str, findings: list[Finding]) -> Settings:
    """The settings with the pinned commit in place of each branch and tag.

    A branch or tag without a pin in `file` is added to `findings`, and left.
    """
    named = list(named_code(settings))
    for path, key, code in named:
        if key not in settings.code_pins:
            message = f'is a branch or a tag, and {file} has no commit for it (value "{code.revision}")'
            remedy = f"run `trainstack pin -s {settings.stack} --code`, and commit what it writes"
            findings.append(Finding(nearest_place(places, path) or Place(file), path, message, remedy))
    if not named:
        return settings
    runs = tuple(_at_commit(run, settings.code_pins) for run in settings.workloads.runs)
    sweeps = tuple(_sweep_at_commit(sweep, settings.code_pins) for sweep in settings.sweeps.sweeps)
    return settings.model_copy(
        update={
            "workloads": settings.workloads.model_copy(update={"runs": runs}),
            "sweeps": settings.sweeps.model_copy(update={"sweeps": sweeps}),
        }
    )


def _sweep_at_commit(sweep: Sweep, pins: Mapping[str, Commit]) -> Sweep:
    return sweep.model_copy(update={"run": _at_commit(sweep.run, pins)})


def _at_commit(run: Workload, pins: Mapping[str, Commit]) -> Workload:
    commit = pins.get(run.code.pin) if run.code is not None and run.code.pin is not None else None
    if run.code is None or commit is None:
        return run
    return run.model_copy(update={"code": run.code.model_copy(update={"revision": commit})})
