"""The trials of a sweep, each with its workload."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from trainstack.runs.identity import Facts
from trainstack.settings.loading import templates
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import PodOverrides, Workload

R = TypeVar("R", bound=PodOverrides)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A parameter set of a sweep and the workload that runs it."""

    sweep: str
    number: int
    """The set's place in hyperparams.yml, from 1: JOB_ID."""
    set_id: str
    parameters: Mapping[str, Value]
    args: tuple[str, ...]
    """The arguments that the set adds to the workload's."""
    env: Mapping[str, str]
    """The variables that the set lays over the workload's."""
    workload: Workload
    """The sweep's `run` with both."""


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    trial: Trial
    run_id: str
    facts: Facts


def trials(sweep: Sweep) -> tuple[Trial, ...]:
    """The trials in the order of their numbers; none of a sweep that is not expanded."""
    result = []
    for each in sweep.expansion.sets if sweep.expansion else ():
        args = tuple(text for word in sweep.space.args if (text := templates.filled(word, each.parameters)) is not None)
        env = {
            name: text
            for name, word in sweep.space.env.items()
            if (text := templates.filled(word, each.parameters)) is not None
        }
        result.append(
            Trial(
                sweep=sweep.name,
                number=each.number,
                set_id=each.id,
                parameters=each.parameters,
                args=args,
                env=env,
                workload=with_set(sweep.run, args, env),
            )
        )
    return tuple(result)


def with_set(run: Workload, args: tuple[str, ...], env: Mapping[str, str]) -> Workload:
    """A sweep's `run` with a set's arguments after its own and the set's variables over them, in every role."""
    return run.model_copy(
        update={
            "args": (*run.args, *args),
            "env": {**run.env, **env},
            "roles": {name: _role(role, args, env) for name, role in run.roles.items()},
            "replicated_jobs": tuple(_role(job, args, env) for job in run.replicated_jobs),
        }
    )


def _role(role: R, args: tuple[str, ...], env: Mapping[str, str]) -> R:
    return role.model_copy(
        update={
            "args": None if role.args is None else (*role.args, *args),
            "env": None if role.env is None else {**role.env, **env},
        }
    )
