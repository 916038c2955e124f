"""The team's half: volumes, runs and sweeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from trainstack.components.runs import Runs, RunsArgs
from trainstack.components.storage import StorageArgs, Volumes
from trainstack.components.sweeps import Sweep, SweepArgs
from trainstack.settings.model import Settings


@dataclass(frozen=True)
class Training:
    """What a team has."""

    resources: tuple[pulumi.Resource, ...]
    outputs: Mapping[str, pulumi.Input[Any]]


def training(
    settings: Settings,
    runs: RunsArgs,
    sweeps: Mapping[str, SweepArgs],
    after: Sequence[pulumi.Input[pulumi.Resource]],
    opts: pulumi.ResourceOptions,
) -> Training:
    """Declare volumes, runs and sweeps after the platform, where this stack holds it."""
    volumes = Volumes(
        "volumes",
        StorageArgs(stack=settings.stack, storage=settings.storage),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*after])),
    )
    first = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*after, volumes]))
    declared = Runs("runs", runs, first)
    then = pulumi.ResourceOptions.merge(first, pulumi.ResourceOptions(depends_on=[*declared.wrappers]))
    several = {name: Sweep(f"sweep-{name}", args, then) for name, args in sweeps.items()}
    return Training(
        resources=(volumes, declared, *several.values()),
        outputs={
            "volumes": volumes.volumes,
            "runs": declared.launches,
            "sweeps": {name: each.launches for name, each in several.items()},
        },
    )
