"""Creation of an object that replaces a terminating object of the same name.

Server-side apply would edit the terminating object, whose deletion would delete the new run too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from trainstack.components.objects import blocking_hook, type_and_name, with_unknown_label
from trainstack.objects.labels import AFTER, LAUNCH

_AFTER = f'metadata.annotations["{AFTER}"]'


def await_deletion(
    replacements: Mapping[str, Mapping[str, Any]], wait_until_deleted: Callable[[Mapping[str, Any]], None]
) -> None:
    """Make the engine wait for terminating objects before it creates their replacements. Call it before they exist.

    `replacements` are manifests by the UID of the terminating object of the same name, for which `wait_until_deleted`
    waits. A launch is replaced even if the state still holds the old object, as it does after an interruption. Other
    objects in the state need an `up --refresh`.
    """
    terminating_by_resource = {type_and_name(manifest): (uid, manifest) for uid, manifest in replacements.items()}

    def add_deletion_hook(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if (args.type_, args.name) not in terminating_by_resource:
            return None
        uid, manifest = terminating_by_resource[args.type_, args.name]
        hook = blocking_hook(f"{args.type_}::{args.name}-is-gone", lambda: wait_until_deleted(manifest))
        opts = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_create=[hook]))
        declared_metadata: Any = args.props["metadata"]
        metadata = {**declared_metadata}
        if LAUNCH in metadata["labels"]:
            metadata["annotations"] = {**metadata["annotations"], AFTER: uid}
            opts.replace_on_changes, opts.delete_before_replace = [_AFTER], True
        if pulumi.runtime.is_dry_run():
            metadata = with_unknown_label(metadata)
        props = {**args.props, "metadata": metadata}
        # This hook precedes the object's own hooks: a launch is claimed once its name is free.
        return pulumi.ResourceTransformationResult(props, pulumi.ResourceOptions.merge(opts, args.opts))

    if terminating_by_resource:
        pulumi.runtime.register_stack_transformation(add_deletion_hook)
