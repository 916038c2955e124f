"""The trials of a sweep with their workloads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from trainstack.runs.identity import Facts
from trainstack.settings.search_space import templates
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import ParameterSet
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import PodOverrides, Workload

R = TypeVar("R", bound=PodOverrides)


@dataclass(frozen=True, kw_only=True)
class TrialOverrides:
    """The arguments and variables that a parameter set adds to the workload of its sweep."""

    args: tuple[str, ...]
    env: Mapping[str, str]


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
    """Return the sweep's `args` and `env` with the values of a set.

    Arguments and variables that refer to a parameter that the set lacks are omitted.
    """
    args = (templates.fill_template(template, parameter_set.parameters) for template in sweep.space.args)
    env = {
        name: templates.fill_template(template, parameter_set.parameters) for name, template in sweep.space.env.items()
    }
    return TrialOverrides(
        args=tuple(text for text in args if text is not None),
        env={name: text for name, text in env.items() if text is not None},
    )


def with_overrides(run: Workload, overrides: TrialOverrides) -> Workload:
    """Return a sweep's `run` with the overrides in every role: arguments are appended, variables replaced."""
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


def _overrides_of_role(run: Workload, role: str, overrides: TrialOverrides) -> TrialOverrides:
    return overrides if run.runs_program(role) else replace(overrides, args=())


def _override_role(role: R, overrides: TrialOverrides) -> R:
    return role.model_copy(
        update={
            "args": None if role.args is None else (*role.args, *overrides.args),
            "env": None if role.env is None else {**role.env, **overrides.env},
        }
    )
