"""The proof of a conversion: the objects that the changed project renders, compared with those of the files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.objects.labels import Manifest
from trainstack.objects.ownership import Identity, identity
from trainstack.onboarding.convert.comparison import NO_DIFFERENCES, Comparison, LostField, compare, compare_trial
from trainstack.onboarding.convert.conversion import Conversion
from trainstack.onboarding.convert.kinds import ENTRIES
from trainstack.onboarding.convert.outcomes import ConvertedObject
from trainstack.onboarding.convert.section_entries import current_form, with_api_defaults
from trainstack.onboarding.project_files import staged_project
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.stack_objects.stack_objects import StackObjects


@dataclass(frozen=True)
class CheckedObject:
    """A converted object with the differences of its rendered form; no differences for other objects."""

    converted: ConvertedObject
    comparison: Comparison = NO_DIFFERENCES


def check_conversion(
    root: Path, files: Mapping[str, str], stack: str, conversion: Conversion
) -> tuple[CheckedObject, ...]:
    """Render the project with the changed files, and compare its objects with those that were converted.

    `files`: all changed files, with the environment's. Raises SettingsError and WorkloadError.
    """
    with staged_project(root, files) as folder:
        rendered = _RenderedObjects(folder, stack, conversion)
        return tuple(CheckedObject(item, rendered.compare(item)) for item in conversion.objects)


class _RenderedObjects:
    def __init__(self, root: Path, stack: str, conversion: Conversion) -> None:
        runs = {item.run for item in conversion.objects if item.run}
        self._objects = StackObjects.from_files(_only_runs(load(root, stack), runs), root, use_cache=False)
        self._runs = {run.workload.name: run.manifest for run in self._objects.runs}
        self._trials = {
            (planned.sweep.name, trial.number): planned.job_ledger(run_id).launch
            for planned in self._objects.sweeps
            for run_id, trial in planned.trials.items()
        }
        components = (*self._objects.platform, *self._objects.components_before_launches)
        self._others: dict[Identity, Manifest] = {
            identity(manifest): manifest for component in components for manifest in component.manifests
        }

    def compare(self, item: ConvertedObject) -> Comparison:
        if item.outcome != "converted":
            return NO_DIFFERENCES
        source, body = item.source, item.source.body
        is_entry = (source.group, source.kind) in ENTRIES
        if is_entry:
            body = current_form(body)
        rendered = self._find(item)
        if rendered is None:
            return Comparison((LostField("metadata.name", source.name, None),), ())
        if item.trial is not None:
            return compare_trial(body, rendered)
        return compare(body, rendered, with_api_defaults(body) if is_entry else None)

    def _find(self, item: ConvertedObject) -> Mapping[str, Any] | None:
        if item.trial is not None:
            return self._trials.get((item.run, item.trial))
        if item.run:
            return self._runs.get(item.run)
        kind, name = item.source.kind, item.source.name
        namespaces = (item.namespace, None)
        keys: list[Identity] = [(kind, namespace, name) for namespace in namespaces]
        return next((self._others[key] for key in keys if key in self._others), None)


def _only_runs(settings: Settings, names: set[str]) -> Settings:
    """Return the settings without releases, and without other runs and sweeps, whose files are not needed then."""
    runs = tuple(run for run in settings.workloads.runs if run.name in names)
    sweeps = tuple(sweep for sweep in settings.sweeps.sweeps if sweep.name in names)
    return settings.model_copy(
        update={
            "operators": Operators(),
            "workloads": settings.workloads.model_copy(update={"runs": runs}),
            "sweeps": settings.sweeps.model_copy(update={"sweeps": sweeps}),
        }
    )
