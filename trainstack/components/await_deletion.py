"""What takes the place of an object that is being deleted waits until that one is gone.

Server-side apply would edit the old one instead, and the new one would be gone with it: a run that nobody trains.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from trainstack.components.objects import called, not_tried
from trainstack.components.removal import in_a_thread
from trainstack.objects.labels import AFTER, LAUNCH

_AFTER = f'metadata.annotations["{AFTER}"]'


def after_those(departing: Mapping[str, Mapping[str, Any]], gone: Callable[[Mapping[str, Any]], None]) -> None:
    """Have the engine wait before it makes one of these objects. Comes before they are declared.

    A launch is made anew also where the state still holds the old one, as it does after an interruption; what else the
    state holds is left to the next `up --refresh`.

    Args:
        departing: manifests of objects whose namesakes are being deleted, by the UIDs of these.
        gone: returns once the namesake of one is gone; raises when it does not go.

    """
    waiting = {called(manifest): (uid, manifest) for uid, manifest in departing.items()}

    def wait(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if (args.type_, args.name) not in waiting:
            return None
        uid, manifest = waiting[args.type_, args.name]

        async def until_gone(_: pulumi.ResourceHookArgs) -> None:
            await in_a_thread(lambda: gone(manifest))

        hook = pulumi.ResourceHook(f"{args.type_}::{args.name}-is-gone", until_gone)
        opts = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_create=[hook]))
        given: Any = args.props["metadata"]
        metadata = {**given}
        if LAUNCH in metadata["labels"]:
            metadata["annotations"] = {**metadata["annotations"], AFTER: uid}
            opts.replace_on_changes, opts.delete_before_replace = [_AFTER], True
        if pulumi.runtime.is_dry_run():
            metadata = not_tried(metadata)
        props = {**args.props, "metadata": metadata}
        # First this hook, then the object's own: a launch is claimed when its place is free.
        return pulumi.ResourceTransformationResult(props, pulumi.ResourceOptions.merge(opts, args.opts))

    if waiting:
        pulumi.runtime.register_stack_transformation(wait)
