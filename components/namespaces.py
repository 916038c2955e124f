"""Namespaces, with what keeps their pods apart from others'."""

from dataclasses import dataclass

import pulumi

from components.objects import declare
from manifests import namespaces as build
from manifests import networks
from settings.environment import Namespace


@dataclass(frozen=True, kw_only=True)
class NamespacesArgs:
    """What `Namespaces` declares."""

    stack: str
    namespaces: tuple[Namespace, ...]
    retained: frozenset[str]
    """Those that hold a retained volume: a namespace takes all that is in it along."""


class Namespaces(pulumi.ComponentResource):
    """The namespaces of an environment."""

    names: pulumi.Output[list[str]]
    """The namespaces that there are now."""

    def __init__(self, name: str, args: NamespacesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare them."""
        super().__init__("trainstack:platform:Namespaces", name, {}, opts)
        for each in args.namespaces:
            keep = pulumi.ResourceOptions(retain_on_delete=each.name in args.retained)
            made = declare([build.namespace(each, args.stack)], self, opts=keep)
            declare(networks.policies(each, args.stack), self, made)
        self.names = pulumi.Output.from_input([each.name for each in args.namespaces])
        self.register_outputs({"names": self.names})
