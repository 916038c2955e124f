"""Declare one component as a program would, and read what the engine receives of it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pulumi

from tests.registrations.recorder import Registration, record
from trainstack.components.teardown import HOOKS, Hooks, attach, register

PROVIDER = "urn:pulumi:dev::trainstack::pulumi:providers:kubernetes"


def declare(
    component: Callable[[pulumi.ResourceOptions], pulumi.ComponentResource],
    *,
    providers: Collection[str] = ("cluster",),
    torn_down: bool = False,
) -> dict[str, Registration]:
    """The registrations of a component and its children, by kind and Pulumi name: `ClusterQueue research`.

    Args:
        component: declares it, with options that hold the provider `cluster`.
        providers: the names of the providers that the children have.
        torn_down: whether the program attaches the hooks of a teardown, as those of our stacks do.

    """

    def program() -> None:
        provider = pulumi.ProviderResource("kubernetes", "cluster", {})
        if torn_down:
            attach(hooks())
        component(pulumi.ResourceOptions(providers=[provider]))

    registrations = [found for found in record(program, "dev") if not found.type.startswith("pulumi:")]
    objects = [found for found in registrations if found.options["custom"]]
    assert {found.options["provider"] for found in objects} == {f"{PROVIDER}::{name}" for name in providers}
    return {f"{found.type.rpartition(':')[2]} {found.name}": found for found in registrations}


def hooks() -> Hooks:
    """The hooks of a teardown that does nothing. Call it in the program, which registers them."""

    def nothing(_: Mapping[str, Any]) -> None:
        """Delete nothing."""

    return register(dict.fromkeys(HOOKS, nothing))
