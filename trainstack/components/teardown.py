"""The hooks with which `pulumi destroy --run-program` deletes a stack in drain order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi

from trainstack.components.objects import in_thread

DELETE_TIMEOUT = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(delete="3m"))
"""For objects that a finalizer may block: the engine's own timeout is 10 minutes."""

Work = Callable[[pulumi.ResourceHookArgs], None]
"""Receives a resource before its deletion; raises to prevent it."""


Hooks = Mapping[str, pulumi.ResourceHook]
"""The hooks by the keys of HOOKS."""

HOOKS = {
    "guard": "",
    "deletion": "",
    "queue": "ClusterQueue",
    "controller": "Deployment",
    "definition": "Stash",
    "namespace": "Namespace",
}
"""The kinds before whose deletion the hooks run. The names must not change: a stack's state has them, also for
resources that are not declared.

`guard`, before all deletions, refuses the destroy. `deletion`, before the deletion of any object that the engine does
not retain, refuses that one. `queue` holds and drains a ClusterQueue. `controller` waits for the
objects whose finalizers only an operator's controller removes. `definition` and `namespace`, before the definitions of
a release or a retained namespace leave the state, delete them unless other owners have objects of them or in them. The
other Stashes are declared before `attach` is called.
"""


def register_hooks(work: Mapping[str, Work]) -> Hooks:
    return {name: _hook(name, work[name]) for name in HOOKS}


def attach_hooks(hooks: Hooks) -> None:
    """Add the hooks to all objects and definitions declared after this call.

    An object with a declared name is deleted before its replacement is created: `pulumi up --replace` would otherwise
    apply the replacement to the live object, and then delete that one.
    """
    hooks_by_kind = {kind: hooks[name] for name, kind in HOOKS.items() if kind}

    def add_hooks(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        kind, is_retained = args.type_.rpartition(":")[2], bool(args.opts.retain_on_delete)
        # The engine never deletes a resource that it only reads.
        is_deleted = args.type_.startswith("kubernetes:") and args.opts.id is None and not is_retained
        deletion_hooks = [hooks["deletion"]] if is_deleted else []
        if kind in hooks_by_kind and (kind != "Namespace" or is_retained):
            deletion_hooks.append(hooks_by_kind[kind])
        if not deletion_hooks:
            return None
        metadata: Any = args.props.get("metadata") or {}
        opts = pulumi.ResourceOptions(
            hooks=pulumi.ResourceHookBinding(before_delete=[*deletion_hooks]),
            delete_before_replace=True if is_deleted and "name" in metadata else None,
        )
        return pulumi.ResourceTransformationResult(args.props, pulumi.ResourceOptions.merge(args.opts, opts))

    pulumi.runtime.register_stack_transformation(add_hooks)


def _hook(name: str, work: Work) -> pulumi.ResourceHook:
    async def run(args: pulumi.ResourceHookArgs) -> None:
        # The guard binds all hooks, and has no inputs.
        if args.old_inputs or name == "guard":
            await in_thread(lambda: work(args))

    options = pulumi.ResourceHookOptions(on_dry_run=name in ("guard", "deletion"))
    return pulumi.ResourceHook(f"teardown-{name}", run, options)


class TeardownGuard(pulumi.ComponentResource):
    """A resource without an object. It depends on all others, so a destroy deletes it first, and ends if a hook raises.

    It binds all hooks, so that the program does not end before they are registered.
    """

    def __init__(self, name: str, hooks: Hooks, guarded_resources: Sequence[pulumi.Resource]) -> None:
        binding = pulumi.ResourceHookBinding(before_delete=[*hooks.values()])
        opts = pulumi.ResourceOptions(depends_on=[*guarded_resources], hooks=binding)
        super().__init__("trainstack:teardown:Guard", name, {}, opts)
        self.register_outputs({})
