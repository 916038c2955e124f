"""The trials of a sweep with their workloads."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from trainstack.objects.labels import Manifest
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import Facts
from trainstack.settings.search_space import templates
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import ParameterSet
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import PodOverrides, Workload
from trainstack.settings.values.paths import PathStep, parse_steps

R = TypeVar("R", bound=PodOverrides)


@dataclass(frozen=True, kw_only=True)
class TrialOverrides:
    """What a parameter set adds to the workload of its sweep, or changes in its manifest."""

    args: tuple[str, ...]
    env: Mapping[str, str]
    fields: Mapping[str, str] = field(default_factory=dict)
    """Values of the manifest by their paths."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A parameter set of a sweep and the workload that runs it."""

    parameter_set: ParameterSet
    """The parameter set. Its number, the position in hyperparams.yml from 1, is the variable JOB_ID."""
    overrides: TrialOverrides
    workload: Workload
    """The sweep's `run` with the overrides applied."""

    @property
    def number(self) -> int:
        return self.parameter_set.number

    @property
    def set_id(self) -> str:
        return self.parameter_set.id

    @property
    def parameters(self) -> Mapping[str, Value]:
        return self.parameter_set.parameters

    def facts(self, shared: Facts) -> Facts:
        """Return the trial's facts, given those that all trials of its sweep share."""
        return replace(shared, parameter_set=self.parameter_set)

    def with_number(self, number: int) -> "Trial":
        return replace(self, parameter_set=self.parameter_set.model_copy(update={"number": number}))


def trials(sweep: Sweep) -> tuple[Trial, ...]:
    """Return the trials of a sweep in the order of their numbers; () if the sweep is not expanded."""
    return tuple(build_trial(sweep, parameter_set) for parameter_set in sweep.sets)


def build_trial(sweep: Sweep, parameter_set: ParameterSet) -> Trial:
    overrides = parameter_overrides(sweep, parameter_set)
    return Trial(parameter_set=parameter_set, overrides=overrides, workload=with_overrides(sweep.run, overrides))


def parameter_overrides(sweep: Sweep, parameter_set: ParameterSet) -> TrialOverrides:
    """Return the sweep's `args`, `env` and `fields` with the values of a set.

    Arguments, variables and fields that refer to a parameter that the set lacks are omitted.
    """
    args = (templates.fill_template(template, parameter_set.parameters) for template in sweep.space.args)
    env = {
        name: templates.fill_template(template, parameter_set.parameters) for name, template in sweep.space.env.items()
    }
    fields = {
        path: templates.fill_template(template, parameter_set.parameters)
        for path, template in sweep.space.fields.items()
    }
    return TrialOverrides(
        args=tuple(text for text in args if text is not None),
        env={name: text for name, text in env.items() if text is not None},
        fields={path: text for path, text in fields.items() if text is not None},
    )


def with_overrides(run: Workload, overrides: TrialOverrides) -> Workload:
    """Return a sweep's `run` with the overrides in every role: arguments are appended, variables replaced.

    Fields replace values of the manifest. Raises WorkloadError if the manifest lacks one.
    """
    if run.manifest is not None and overrides.fields:
        run = run.model_copy(update={"manifest": _replace_fields(run.name, run.manifest, overrides.fields)})
    return run.model_copy(
        update={
            "args": (*run.args, *overrides.args),
            "env": {**run.env, **overrides.env},
            "roles": {
                name: _override_role(role, _overrides_of_role(run, name, overrides)) for name, role in run.roles.items()
            },
            "replicated_jobs": tuple(_override_role(job, overrides) for job in run.replicated_jobs),
        }
    )


def _replace_fields(sweep: str, manifest: Mapping[str, Any], fields: Mapping[str, str]) -> Manifest:
    result: Manifest = deepcopy(dict(manifest))
    for path, text in fields.items():
        *steps, last_step = parse_steps(path)
        parent: Any = result
        try:
            for step in steps:
                parent = parent[_key(parent, step)]
            key = _key(parent, last_step)
            is_text = isinstance(parent[key], str)
        except (LookupError, TypeError):
            is_text = False
        if not is_text:
            message = f"sweep {sweep}: space.fields has {path}, but the manifest has no such string"
            raise WorkloadError(message, "correct the path, or add the string to the manifest")
        parent[key] = text
    return result


def _key(parent: Any, step: PathStep) -> Any:
    """Return the key or the index of a step in a map or list. Raises LookupError or TypeError if there is none."""
    if step.element is None:
        return step.key
    names = [item.get("name") if isinstance(item, Mapping) else None for item in parent]
    return names.index(step.element) if step.element in names else _index(step.element)


def _index(text: str) -> int:
    if not text.isdigit():
        raise LookupError(text)
    return int(text)


def _overrides_of_role(run: Workload, role: str, overrides: TrialOverrides) -> TrialOverrides:
    return overrides if run.runs_program(role) else replace(overrides, args=())


def _override_role(role: R, overrides: TrialOverrides) -> R:
    return role.model_copy(
        update={
            "args": None if role.args is None else (*role.args, *overrides.args),
            "env": None if role.env is None else {**role.env, **overrides.env},
        }
    )
