"""Declare one component in a Pulumi program, and return the registrations that the engine receives."""

from collections.abc import Callable, Collection

import pulumi

from tests.registrations.recorder import Registration, record
from trainstack.components.teardown import HOOKS, Hooks, attach_hooks, register_hooks

PROVIDER = "urn:pulumi:dev::trainstack::pulumi:providers:kubernetes"


def declare(
    component: Callable[[pulumi.ResourceOptions], pulumi.ComponentResource],
    *,
    providers: Collection[str] = ("cluster",),
    with_teardown: bool = False,
) -> dict[str, Registration]:
    """Return the registrations of a component and its children, by kind and Pulumi name: `ClusterQueue research`.

    Args:
        component: declares the component, with options that have the provider `cluster`.
        providers: the names of the providers that the children have.
        with_teardown: whether the program attaches the hooks of a teardown, like the programs of the two stacks.

    """

    def program() -> None:
        provider = pulumi.ProviderResource("kubernetes", "cluster", {})
        if with_teardown:
            attach_hooks(hooks())
        component(pulumi.ResourceOptions(providers=[provider]))

    registrations = [entry for entry in record(program, "dev") if not entry.type.startswith("pulumi:")]
    objects = [entry for entry in registrations if entry.options["custom"]]
    assert {entry.options["provider"] for entry in objects} == {f"{PROVIDER}::{name}" for name in providers}
    return {f"{entry.type.rpartition(':')[2]} {entry.name}": entry for entry in registrations}


def hooks() -> Hooks:
    """Return the hooks of a teardown that does nothing. Call it in the program, which registers them."""

    def nothing(_: pulumi.ResourceHookArgs) -> None:
        """Delete nothing."""

    return register_hooks(dict.fromkeys(HOOKS, nothing))
