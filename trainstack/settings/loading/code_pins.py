"""The branches and tags in `code`, and their pinned commits in `pins/<environment>.yaml`."""

from collections.abc import Iterator, Mapping

from trainstack.settings.errors import Place, SettingsFinding
from trainstack.settings.model import Settings
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.paths import nearest_place


def is_code_key(key: str) -> bool:
    """Return whether a key of the file pins code, `<git> <revision>`; image references contain no space."""
    return " " in key


def code_to_pin(settings: Settings) -> Iterator[tuple[str, str, Code]]:
    """Yield each `code` whose revision is a branch or tag: the revision's path, the key of its pin, and the code."""
    for path, run in settings.runs_and_trials():
        if run.code is not None and run.code.pin_key is not None:
            yield f"{path}.code.revision", run.code.pin_key, run.code


def apply_code_pins(
    settings: Settings, places: Mapping[str, Place], file: str, findings: list[SettingsFinding]
) -> Settings:
    """Replace each branch and tag by its pinned commit; add a finding for each one without a pin in `file`."""
    for path, key, code in code_to_pin(settings):
        if key not in settings.code_pins:
            message = f'is a branch or tag without a commit in {file} (value "{code.revision}")'
            remedy = f"run `trainstack pin -s {settings.stack} --code`, and commit the file"
            findings.append(SettingsFinding(nearest_place(places, path) or Place(file), path, message, remedy))

    def pin_commit(run: Workload) -> Workload:
        commit = settings.code_pins.get(run.code.pin_key or "") if run.code is not None else None
        if run.code is None or commit is None:
            return run
        return run.model_copy(update={"code": run.code.model_copy(update={"revision": commit})})

    return settings.map_runs(pin_commit)
