"""The hooks by which `pulumi destroy --run-program` takes a stack down in drain order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from trainstack.components.removal import in_a_thread

GONE_IN_TIME = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(delete="3m"))
"""For what a finalizer may hold for ever: the engine says so then, and not after its 10 minutes."""

Work = Callable[[Mapping[str, Any]], None]
"""Takes the manifest of what is about to be deleted; raises where that must not be."""


@dataclass(frozen=True, kw_only=True)
class Teardown:
    """One hook a kind. Their names never change: the state of a stack names them, also for what is not declared now."""

    guard: pulumi.ResourceHook
    """Before anything: is anybody in the way?"""
    queue: pulumi.ResourceHook
    """Before a ClusterQueue goes: it is held and drained."""
    controller: pulumi.ResourceHook
    """Before an operator's controller goes: what only it can let go is gone."""
    definition: pulumi.ResourceHook
    """Before the engine forgets a definition: it is deleted where nobody else has objects of its kind."""
    namespace: pulumi.ResourceHook
    """Before the engine forgets a namespace: it is deleted where nobody else has anything in it."""


def register(
    *, guard: Callable[[], None], queue: Work, controller: Work, definition: Work, namespace: Work
) -> Teardown:
    """Make the hooks known to the engine."""
    return Teardown(
        guard=_hook("guard", lambda _: guard(), on_dry_run=True),
        queue=_hook("queue", queue),
        controller=_hook("controller", controller),
        definition=_hook("definition", definition),
        namespace=_hook("namespace", namespace),
    )


def attach(teardown: Teardown) -> None:
    """Add the hooks to all objects that are declared from now on: cluster queues, controllers, definitions, namespaces.

    The namespaces are those that the engine only forgets. It deletes others itself.
    """
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
            await in_a_thread(lambda: work(inputs))

    return pulumi.ResourceHook(f"teardown-{name}", run, pulumi.ResourceHookOptions(on_dry_run=on_dry_run))


class Guard(pulumi.ComponentResource):
    """Nothing in the cluster. It depends on all that is, so a destroy comes to it first.

    If its hook raises, the destroy goes no further.
    """

    def __init__(self, name: str, hooks: Teardown, after: Sequence[pulumi.Resource]) -> None:
        """Declare it after everything else. It has all hooks: a program does not end before the engine knows them."""
        every = [hooks.guard, hooks.queue, hooks.controller, hooks.definition, hooks.namespace]
        binding = pulumi.ResourceHookBinding(before_delete=every)
        opts = pulumi.ResourceOptions(depends_on=[*after], hooks=binding)
        super().__init__("trainstack:teardown:Guard", name, {}, opts)
        self.register_outputs({})
