"""The hooks with which `pulumi destroy --run-program` deletes a stack in drain order."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

DELETE_TIMEOUT = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(delete="3m"))
"""For objects that a finalizer may block: the engine's own timeout is 10 minutes."""

Work = Callable[[Mapping[str, Any]], None]
"""Receives the manifest of an object before its deletion; raises to prevent it."""


@dataclass(frozen=True, kw_only=True)
class Teardown:
    """The hooks. Their names must not change: a stack's state has them, also for resources that are not declared."""

    guard: pulumi.ResourceHook
    """Before all deletions: refuses the destroy."""
    queue: pulumi.ResourceHook
    """Before a ClusterQueue is deleted: holds and drains it."""
    controller: pulumi.ResourceHook
    """Before an operator's controller is deleted: waits for the objects whose finalizers only it removes."""
    definition: pulumi.ResourceHook
    """Before a retained CustomResourceDefinition leaves the state: deletes it unless other owners have such objects."""
    namespace: pulumi.ResourceHook
    """Before a retained namespace leaves the state: deletes it unless it has objects of other owners."""


def register(
    *, guard: Callable[[], None], queue: Work, controller: Work, definition: Work, namespace: Work
) -> Teardown:
    return Teardown(
        guard=_hook("guard", lambda _: guard(), on_dry_run=True),
        queue=_hook("queue", queue),
        controller=_hook("controller", controller),
        definition=_hook("definition", definition),
        namespace=_hook("namespace", namespace),
    )


def attach(teardown: Teardown) -> None:
    """Add the hooks to all ClusterQueues, controllers, definitions and retained namespaces declared after this call."""
    hooks = {
        "ClusterQueue": teardown.queue,
        "Deployment": teardown.controller,
        "CustomResourceDefinition": teardown.definition,
        "Namespace": teardown.namespace,
    }

    def add(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        hook = hooks.get(args.type_.rpartition(":")[2])
        if hook is None or (hook is teardown.namespace and not args.opts.retain_on_delete):
            return None
        opts = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_delete=[hook]))
        return pulumi.ResourceTransformationResult(args.props, pulumi.ResourceOptions.merge(args.opts, opts))

    pulumi.runtime.register_stack_transformation(add)


def _hook(name: str, work: Work, *, on_dry_run: bool = False) -> pulumi.ResourceHook:
    async def run(args: pulumi.ResourceHookArgs) -> None:
        inputs = args.old_inputs or {}
        if "kind" in inputs or on_dry_run:
            await asyncio.to_thread(lambda: work(inputs))

    return pulumi.ResourceHook(f"teardown-{name}", run, pulumi.ResourceHookOptions(on_dry_run=on_dry_run))


class Guard(pulumi.ComponentResource):
    """A resource without an object. It depends on all others, so a destroy deletes it first, and ends if a hook raises.

    It binds all hooks, so that the program does not end before they are registered.
    """

    def __init__(self, name: str, hooks: Teardown, after: Sequence[pulumi.Resource]) -> None:
        binding = pulumi.ResourceHookBinding(
            before_delete=[hooks.guard, hooks.queue, hooks.controller, hooks.definition, hooks.namespace]
        )
        opts = pulumi.ResourceOptions(depends_on=[*after], hooks=binding)
        super().__init__("trainstack:teardown:Guard", name, {}, opts)
        self.register_outputs({})
