"""The training layer: volumes, runs and sweeps."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from trainstack.components.launches import LaunchOptions
from trainstack.components.runs import Runs
from trainstack.components.storage import Volumes
from trainstack.components.sweeps import Sweep
from trainstack.declared.component import Component
from trainstack.declared.launches import LaunchGroup


def training(
    claims: Component,
    groups: Sequence[tuple[LaunchGroup, LaunchOptions]],
    after: Sequence[pulumi.Input[pulumi.Resource]],
    opts: pulumi.ResourceOptions,
) -> tuple[tuple[pulumi.Resource, ...], Mapping[str, pulumi.Input[Any]]]:
    """Declare volumes, runs and sweeps; return their resources and outputs.

    `groups` are the launches of the runs, then those of each sweep; `after` are the platform's resources, if this stack
    has them; `opts` are the options of all components, with the provider.
    """

    def following(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*after, *resources]))

    volumes = Volumes("volumes", claims, following())
    (first, launching), *rest = groups
    runs = Runs("runs", first, launching, following(volumes))
    sweeps = {
        str(group.sweep): Sweep(f"sweep-{group.sweep}", group, following(volumes, *runs.wrappers), launching=launching)
        for group, launching in rest
    }
    outputs = {
        "volumes": volumes.volumes,
        "runs": runs.launches,
        "sweeps": {name: sweep.launches for name, sweep in sweeps.items()},
    }
    return (volumes, runs, *sweeps.values()), outputs
