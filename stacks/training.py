"""The team's half: volumes and runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from components.runs import Runs, RunsArgs
from components.storage import StorageArgs, Volumes
from settings.model import Settings


def training(
    settings: Settings,
    runs: RunsArgs,
    after: Sequence[pulumi.Input[pulumi.Resource]],
    opts: pulumi.ResourceOptions,
) -> Mapping[str, pulumi.Input[Any]]:
    """Declare volumes and runs after the platform, where this stack holds it; return the stack's outputs."""
    volumes = Volumes(
        "volumes",
        StorageArgs(stack=settings.stack, storage=settings.storage),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*after])),
    )
    declared = Runs(
        "runs", runs, pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*after, volumes]))
    )
    return {"volumes": volumes.volumes, "runs": declared.launches}
