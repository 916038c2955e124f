"""Training runs: their launches, and the wrapper that managed ones run in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from trainstack.components.launches import Launches, declare_launches
from trainstack.components.objects import Object, declare
from trainstack.runs.recorded import RUNS


@dataclass(frozen=True, kw_only=True)
class RunsArgs:
    """What `Runs` declares."""

    wrappers: Sequence[Mapping[str, Any]]
    """The ConfigMaps that hold the run wrapper, one a namespace; also those of sweeps."""
    launches: Launches


class Runs(pulumi.ComponentResource):
    """The runs of an environment."""

    launches: pulumi.Output[list[str]]
    """The launched objects, as `<namespace>/<name>`."""
    wrappers: Sequence[Object]
    """What managed launches come after."""

    def __init__(self, name: str, args: RunsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the wrappers, then launches and ledgers."""
        super().__init__(RUNS, name, {}, opts)
        self.wrappers = declare(args.wrappers, self)
        self.launches = declare_launches(args.launches, self, self.wrappers)
        self.register_outputs({"launches": self.launches})
