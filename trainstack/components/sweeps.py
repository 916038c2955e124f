"""A sweep: the launches of its trials, and the parameter files that they mount."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from trainstack.components.launches import Launches, declare_launches
from trainstack.components.objects import declare
from trainstack.runs.recorded import SWEEP


@dataclass(frozen=True, kw_only=True)
class SweepArgs:
    """What `Sweep` declares."""

    files: Sequence[Mapping[str, Any]]
    """The ConfigMaps that its launches mount."""
    launches: Launches


class Sweep(pulumi.ComponentResource):
    """One sweep: form `indexed` has one Job, one file and one ledger for any number of new trials."""

    launches: pulumi.Output[list[str]]
    """The launched objects, as `<namespace>/<name>`."""

    def __init__(self, name: str, args: SweepArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the files, then launches and ledgers."""
        super().__init__(SWEEP, name, {}, opts)
        files = declare(args.files, self)
        self.launches = declare_launches(args.launches, self, files)
        self.register_outputs({"launches": self.launches})
