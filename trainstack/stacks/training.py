"""The training layer: volumes, runs and sweeps."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from trainstack.components.launches import LaunchOptions
from trainstack.components.runs import Runs
from trainstack.components.storage import Volumes
from trainstack.components.sweeps import Sweep
from trainstack.stack_objects.component import Component
from trainstack.stack_objects.launch_groups import LaunchGroup


def declare_training(
    claims: Component,
    groups: Sequence[tuple[LaunchGroup, LaunchOptions]],
    dependencies: Sequence[pulumi.Input[pulumi.Resource]],
    opts: pulumi.ResourceOptions,
) -> tuple[tuple[pulumi.Resource, ...], Mapping[str, pulumi.Input[Any]]]:
    """Declare volumes, runs and sweeps; return their resources and outputs.

    `groups` are the launches of the runs, then those of each sweep; `dependencies` are the platform's resources,
    if this stack has them; `opts` are the options of all components, with the provider.
    """

    def options_after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*dependencies, *resources]))

    volumes = Volumes("volumes", claims, options_after())
    (run_group, launch_options), *sweep_groups = groups
    runs = Runs("runs", run_group, launch_options, options_after(volumes))
    sweeps = {
        str(group.sweep): Sweep(
            f"sweep-{group.sweep}", group, options_after(volumes, *runs.wrappers), launch_options=launch_options
        )
        for group, launch_options in sweep_groups
    }
    outputs = {
        "volumes": volumes.volumes,
        "runs": runs.launches,
        "sweeps": {name: sweep.launches for name, sweep in sweeps.items()},
    }
    return (volumes, runs, *sweeps.values()), outputs
