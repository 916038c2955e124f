"""Namespaces, with what keeps their pods apart from others'."""

from dataclasses import dataclass

import pulumi

from trainstack.components.objects import declare
from trainstack.components.teardown import GONE_IN_TIME, Teardown, forgotten
from trainstack.platform import namespaces as build
from trainstack.platform import networks
from trainstack.settings.sections.environment import Namespace


@dataclass(frozen=True, kw_only=True)
class NamespacesArgs:
    """What `Namespaces` declares."""

    stack: str
    namespaces: tuple[Namespace, ...]
    retained: frozenset[str]
    """Those that hold a retained volume: a namespace takes all that is in it along."""
    teardown: Teardown
    """What is done before one of them goes."""


class Namespaces(pulumi.ComponentResource):
    """The namespaces of an environment."""

    names: pulumi.Output[list[str]]
    """The namespaces that there are now."""

    def __init__(self, name: str, args: NamespacesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare them."""
        super().__init__("trainstack:platform:Namespaces", name, {}, opts)
        for each in args.namespaces:
            keep = forgotten(args.teardown.namespace) if each.name in args.retained else GONE_IN_TIME
            made = declare([build.namespace(each, args.stack)], self, opts=keep)
            declare(networks.policies(each, args.stack), self, made)
        self.names = pulumi.Output.from_input([each.name for each in args.namespaces])
        self.register_outputs({"names": self.names})
