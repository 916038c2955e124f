"""The team's half: volumes, runs and sweeps."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from components.runs import Runs, RunsArgs
from components.storage import StorageArgs, Volumes
from components.sweeps import Sweep, SweepArgs
from settings.model import Settings


def training(
    settings: Settings,
    runs: RunsArgs,
    sweeps: Mapping[str, SweepArgs],
    after: Sequence[pulumi.Input[pulumi.Resource]],
    opts: pulumi.ResourceOptions,
) -> Mapping[str, pulumi.Input[Any]]:
    """Declare volumes, runs and sweeps after the platform, where this stack holds it; return the stack's outputs."""
    volumes = Volumes(
        "volumes",
        StorageArgs(stack=settings.stack, storage=settings.storage),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*after])),
    )
    first = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*after, volumes]))
    declared = Runs("runs", runs, first)
    then = pulumi.ResourceOptions.merge(first, pulumi.ResourceOptions(depends_on=[*declared.wrappers]))
    launched = {name: Sweep(f"sweep-{name}", args, then).launches for name, args in sweeps.items()}
    return {"volumes": volumes.volumes, "runs": declared.launches, "sweeps": launched}
