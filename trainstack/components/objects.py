"""Kubernetes objects as Pulumi resources.

A resource has the manifest unchanged, so that `render`, the tests and the engine have the same objects. Its type token
is the generated SDK's (`kubernetes:batch/v1:Job`). The classes of that SDK would convert each manifest, and add no
check to the API server's dry run.
"""

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any, TypeVar

import pulumi

from trainstack.objects.labels import LAUNCH, MANAGED_BY
from trainstack.runs.recorded_launches import type_token
from trainstack.stack_objects.component import Component

T = TypeVar("T")
_HOOK_THREADS = ThreadPoolExecutor(max_workers=1024, thread_name_prefix="hook")
"""With many resources, all default threads of the event loop wait in registrations, which end only when the hooks of
their resources have run. The engine's parallelism limits the number of hooks that run at once."""
PROVIDER_VERSION = version("pulumi-kubernetes")
"""The release of pulumi-kubernetes that every object is declared to: the installed one, as of its own resources in the
same program. The plugin of that version serves them."""


class Object(pulumi.CustomResource):
    """A Kubernetes object. Its Pulumi name is `<namespace>/<name>`, or `<name>` without a namespace.

    An object whose name the API server generates has the name of its launch instead.
    """

    def __init__(self, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        opts = pulumi.ResourceOptions.merge(pulumi.ResourceOptions(version=PROVIDER_VERSION), opts)
        super().__init__(*type_and_name(manifest), {**manifest}, opts)


def type_and_name(manifest: Mapping[str, Any]) -> tuple[str, str]:
    metadata = manifest["metadata"]
    own_name = metadata["labels"][LAUNCH] if "generateName" in metadata else metadata["name"]
    name = "/".join(part for part in (metadata.get("namespace"), own_name) if part)
    return type_token(manifest["apiVersion"], manifest["kind"]), name


def with_unknown_label(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata with an unknown label, so that a preview skips the API server's dry run.

    The dry run would edit the live object of the same name, many fields of which are immutable.
    """
    return {**metadata, "labels": {**metadata["labels"], MANAGED_BY: pulumi.Output.from_input(pulumi.UNKNOWN)}}


def blocking_hook(name: str, work: Callable[[], object]) -> pulumi.ResourceHook:
    """Run blocking work in a thread."""

    async def run(_: pulumi.ResourceHookArgs) -> None:
        await in_thread(work)

    return pulumi.ResourceHook(name, run)


async def in_thread(work: Callable[[], T]) -> T:
    """Run the blocking work of a hook."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_HOOK_THREADS, context.run, work)


def resource_names(component: Component, kind: str) -> pulumi.Output[list[str]]:
    """The objects of a kind, by their Pulumi names."""
    return pulumi.Output.from_input([type_and_name(manifest)[1] for manifest in component.manifests_of_kind(kind)])


def declare_objects(
    manifests: Iterable[Mapping[str, Any]],
    parent: pulumi.Resource,
    depends_on: Iterable[pulumi.Resource] = (),
    opts: pulumi.ResourceOptions | None = None,
) -> list[Object]:
    base = pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on))
    return [Object(manifest, pulumi.ResourceOptions.merge(base, opts)) for manifest in manifests]


def declare_component(
    component: Component,
    parent: pulumi.Resource,
    options: Mapping[str, pulumi.ResourceOptions] | None = None,
    change: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
) -> list[Object]:
    """Declare the objects of a component in their order.

    `options` by kind do not apply to retained objects. `change` converts a manifest into the resource's inputs, which
    may contain outputs of other resources.
    """
    resources: dict[int, Object] = {}
    for stack_object in component.objects:
        manifest = stack_object.manifest
        opts = pulumi.ResourceOptions(
            parent=parent,
            depends_on=[resources[id(dependency)] for dependency in stack_object.dependencies],
            protect=stack_object.protect,
        )
        if stack_object.retain:
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(retain_on_delete=True))
        elif options and manifest["kind"] in options:
            opts = pulumi.ResourceOptions.merge(opts, options[manifest["kind"]])
        resources[id(manifest)] = Object(change(manifest), opts)
    return list(resources.values())
