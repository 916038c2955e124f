"""The hooks with which `pulumi destroy --run-program` deletes a stack in drain order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi

from trainstack.components.objects import in_thread

DELETE_TIMEOUT = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(delete="3m"))
"""For objects that a finalizer may block: the engine's own timeout is 10 minutes."""

Work = Callable[[Mapping[str, Any]], None]
"""Receives the manifest of an object before its deletion; raises to prevent it."""


Hooks = Mapping[str, pulumi.ResourceHook]
"""The hooks by the keys of HOOKS."""

HOOKS = {
    "guard": "",
    "queue": "ClusterQueue",
    "controller": "Deployment",
    "definition": "Stash",
    "namespace": "Namespace",
}
"""The kinds before whose deletion the hooks run. The names must not change: a stack's state has them, also for
resources that are not declared.

`guard`, before all deletions, refuses the destroy. `queue` holds and drains a ClusterQueue. `controller` waits for the
objects whose finalizers only an operator's controller removes. `definition` and `namespace`, before the definitions of
a release or a retained namespace leave the state, delete them unless other owners have objects of them or in them. The
other Stashes are declared before `attach` is called. An earlier release had `definition` on each definition.
"""


def register(work: Mapping[str, Work]) -> Hooks:
    return {name: _hook(name, work[name], on_dry_run=name == "guard") for name in HOOKS}


def attach(hooks: Hooks) -> None:
    """Add the hooks to all ClusterQueues, controllers, definitions and retained namespaces declared after this call."""
    by_kind = {kind: hooks[name] for name, kind in HOOKS.items() if kind}

    def add(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        kind = args.type_.rpartition(":")[2]
        if kind not in by_kind or (kind == "Namespace" and not args.opts.retain_on_delete):
            return None
        opts = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_delete=[by_kind[kind]]))
        return pulumi.ResourceTransformationResult(args.props, pulumi.ResourceOptions.merge(args.opts, opts))

    pulumi.runtime.register_stack_transformation(add)


def _hook(name: str, work: Work, *, on_dry_run: bool) -> pulumi.ResourceHook:
    async def run(args: pulumi.ResourceHookArgs) -> None:
        inputs = args.old_inputs or {}
        # The guard binds all hooks, and has no inputs.
        if inputs or on_dry_run:
            await in_thread(lambda: work(inputs))

    return pulumi.ResourceHook(f"teardown-{name}", run, pulumi.ResourceHookOptions(on_dry_run=on_dry_run))


class Guard(pulumi.ComponentResource):
    """A resource without an object. It depends on all others, so a destroy deletes it first, and ends if a hook raises.

    It binds all hooks, so that the program does not end before they are registered.
    """

    def __init__(self, name: str, hooks: Hooks, after: Sequence[pulumi.Resource]) -> None:
        binding = pulumi.ResourceHookBinding(before_delete=[*hooks.values()])
        opts = pulumi.ResourceOptions(depends_on=[*after], hooks=binding)
        super().__init__("trainstack:teardown:Guard", name, {}, opts)
        self.register_outputs({})
