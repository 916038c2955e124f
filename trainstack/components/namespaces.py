"""Namespaces and their NetworkPolicies."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from trainstack.components.objects import declare_component, resource_names
from trainstack.components.sections import build_stack_objects, validate_section
from trainstack.components.teardown import DELETE_TIMEOUT
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.stack_objects.component import Component


class Namespaces(pulumi.ComponentResource):
    """Namespaces that admit only restricted pods, with the NetworkPolicies that isolate them."""

    names: pulumi.Output[list[str]]
    """The names of the namespaces, once they exist."""

    def __init__(
        self,
        name: str,
        args: Sequence[Namespace | Mapping[str, Any]] | Component,
        opts: pulumi.ResourceOptions | None = None,
        *,
        stack: str | None = None,
    ) -> None:
        """Declare namespaces, with the keys of `environment.namespaces` in an environment's file.

        `stack` labels the objects; by default, the Pulumi stack.
        """
        super().__init__("trainstack:platform:Namespaces", name, {}, opts)
        if not isinstance(args, Component):
            environment = Environment(namespaces=tuple(validate_section(Namespace, namespace) for namespace in args))
            args = build_stack_objects(stack, environment=environment).namespaces
        declare_component(args, self, {"Namespace": DELETE_TIMEOUT})
        self.names = resource_names(args, "Namespace")
        self.register_outputs({"names": self.names})
