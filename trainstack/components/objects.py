"""One Kubernetes object as a Pulumi resource, from the manifest that a builder made.

Every kind goes this way, so that a manifest means the same to `render`, to a test and to the engine. The resource's
type token is the generated SDK's (`kubernetes:batch/v1:Job`); that SDK's classes would add no check that the API
server's own dry run does not make, and turn each manifest into another form first.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pulumi

from trainstack.declared.component import Component
from trainstack.objects.labels import LAUNCH, MANAGED_BY
from trainstack.runs.recorded import type_token

PROVIDER_VERSION = "4.25.0"
"""The release of pulumi-kubernetes that every object is declared to; the plugin of that version serves it."""


class Object(pulumi.CustomResource):
    """A Kubernetes object. Its Pulumi name is `<namespace>/<name>`, or `<name>` where it has no namespace.

    One whose name the API server chooses is called by its launch instead.
    """

    def __init__(self, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare it."""
        super().__init__(
            *called(manifest),
            {**manifest},
            pulumi.ResourceOptions.merge(pulumi.ResourceOptions(version=PROVIDER_VERSION), opts),
        )


def called(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """The type and the name by which the engine knows an object."""
    metadata = manifest["metadata"]
    last = metadata["labels"][LAUNCH] if "generateName" in metadata else metadata["name"]
    name = "/".join(part for part in (metadata.get("namespace"), last) if part)
    return type_token(manifest["apiVersion"], manifest["kind"]), name


def not_tried(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """An object's metadata with an unknown label, for a preview that the server is not to try.

    Its dry run of what is wholly known would be an edit of the object that has the name, which takes few.
    """
    return {**metadata, "labels": {**metadata["labels"], MANAGED_BY: pulumi.Output.from_input(pulumi.UNKNOWN)}}


def declare(
    manifests: Iterable[Mapping[str, Any]],
    parent: pulumi.Resource,
    depends_on: Iterable[pulumi.Resource] = (),
    opts: pulumi.ResourceOptions | None = None,
) -> list[Object]:
    """Declare several objects under one parent, all after the same ones."""
    base = pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on))
    return [Object(manifest, pulumi.ResourceOptions.merge(base, opts)) for manifest in manifests]


def declare_component(
    component: Component,
    parent: pulumi.Resource,
    options: Mapping[str, pulumi.ResourceOptions] | None = None,
    change: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
) -> list[Object]:
    """Declare the objects of a component in their order.

    Args:
        component: the objects.
        parent: the component's resource.
        options: by kind, what the engine does with its objects. They do not apply to objects that are retained.
        change: from a manifest to what the engine receives, which may have outputs of other resources.

    """
    resources: dict[int, Object] = {}
    for declared in component.objects:
        manifest = declared.manifest
        own = pulumi.ResourceOptions(
            parent=parent, depends_on=[resources[id(before)] for before in declared.after], protect=declared.protect
        )
        if declared.retain:
            own = pulumi.ResourceOptions.merge(own, pulumi.ResourceOptions(retain_on_delete=True))
        elif options and manifest["kind"] in options:
            own = pulumi.ResourceOptions.merge(own, options[manifest["kind"]])
        resources[id(manifest)] = Object(change(manifest), own)
    return list(resources.values())
