"""What takes the place of an object that is being deleted waits until that one is gone.

Server-side apply would edit the old one instead, and the new one would be gone with it: a run that nobody trains.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi

from components.objects import called
from manifests.labels import LAUNCH, MANAGED_BY


def after_those(departing: Sequence[Mapping[str, Any]], gone: Callable[[Mapping[str, Any]], object]) -> None:
    """Have the engine wait before it makes one of these objects. Comes before they are declared.

    Args:
        departing: manifests of objects whose namesakes are being deleted.
        gone: returns once the namesake of one is gone; raises when it does not go.

    """
    waiting = {called(manifest): manifest for manifest in departing}

    def wait(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        manifest = waiting.get((args.type_, args.name))
        if manifest is None:
            return None

        def until_gone(_: pulumi.ResourceHookArgs) -> None:
            gone(manifest)

        hook = pulumi.ResourceHook(f"{args.type_}::{args.name}-is-gone", until_gone)
        binding = pulumi.ResourceHookBinding(before_create=[hook])
        opts = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(hooks=binding))
        return pulumi.ResourceTransformationResult(_not_tried(args.props), opts)

    if waiting:
        pulumi.runtime.register_stack_transformation(wait)


def _not_tried(props: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object, of a launch in a preview with an unknown label: the server's dry run would be an edit of the old one,
    and Pods, for one, take none.
    """
    metadata = props["metadata"]
    labels = metadata.get("labels", {})
    if not pulumi.runtime.is_dry_run() or LAUNCH not in labels:
        return props
    return {
        **props,
        "metadata": {**metadata, "labels": {**labels, MANAGED_BY: pulumi.Output.from_input(pulumi.UNKNOWN)}},
    }
