"""Training runs: the launched objects, and the ledgers that remember them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.objects import Object, declare


@dataclass(frozen=True, kw_only=True)
class RunsArgs:
    """What `Runs` declares."""

    wrappers: Sequence[Mapping[str, Any]]
    """The ConfigMaps that hold the run wrapper, one a namespace."""
    launches: Sequence[Mapping[str, Any]]
    """Jobs and PyTorchJobs."""
    ledgers: Mapping[str, Mapping[str, Any]]
    """By launch name: the ConfigMap that remembers it."""


class Runs(pulumi.ComponentResource):
    """The runs of an environment."""

    launches: pulumi.Output[list[str]]
    """The launched objects, as `<namespace>/<name>`."""

    def __init__(self, name: str, args: RunsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare each launch, then its ledger: a ledger never speaks of what was not launched."""
        super().__init__("trainstack:training:Runs", name, {}, opts)
        wrappers = declare(args.wrappers, self)
        launched: dict[str, Object] = {}
        for manifest in args.launches:
            # The name carries every immutable field, so another launch is another object; it never waits for
            # its predecessor, whose quota it may need.
            (launched[manifest["metadata"]["name"]],) = declare([manifest], self, wrappers)
        for launch, ledger in args.ledgers.items():
            declare([ledger], self, [launched[launch]] if launch in launched else [])
        self.launches = pulumi.Output.from_input(
            [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in args.launches]
        )
        self.register_outputs({"launches": self.launches})
