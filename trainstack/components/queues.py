"""Kueue's objects. Each depends on the objects that it refers to, and is deleted before them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pulumi

from trainstack.components.objects import declare_component, resource_names
from trainstack.components.sections import build_stack_objects, validate_section
from trainstack.components.teardown import DELETE_TIMEOUT
from trainstack.objects.labels import MANAGED_BY, OWNER
from trainstack.settings.sections.queues import Queues as QueuesSettings
from trainstack.stack_objects.component import Component

_OPTIONS = {
    "ResourceFlavor": DELETE_TIMEOUT,
    "ClusterQueue": DELETE_TIMEOUT,
    "Topology": DELETE_TIMEOUT,
    "AdmissionCheck": DELETE_TIMEOUT,
    # The API server refuses an edit of a LocalQueue's clusterQueue.
    "LocalQueue": pulumi.ResourceOptions(replace_on_changes=["spec.clusterQueue"], delete_before_replace=True),
}


class Queues(pulumi.ComponentResource):
    """Resource flavors, cohorts, topologies, admission checks, cluster queues, local queues and priority classes."""

    cluster_queues: pulumi.Output[list[str]]
    """The names of the cluster queues, once they exist."""
    local_queues: pulumi.Output[list[str]]
    """The local queues, as `<namespace>/<name>`, once they exist."""

    def __init__(
        self,
        name: str,
        args: QueuesSettings | Mapping[str, Any] | Component,
        opts: pulumi.ResourceOptions | None = None,
        *,
        stack: str | None = None,
        kueue: pulumi.Output[str] | None = None,
    ) -> None:
        """Declare section `trainstack:queues` of an environment's file.

        `stack` labels the objects; by default, the Pulumi stack. `kueue` is the output `versions["kueue"]` of an
        `Operators` in the same program.
        """
        super().__init__("trainstack:platform:Queues", name, {}, opts)
        if not isinstance(args, Component):
            args = build_stack_objects(stack, queues=validate_section(QueuesSettings, args)).queues
        # A flavor in use cannot be deleted, so each kind is deleted before what it refers to.
        declare_component(args, self, _OPTIONS, partial(_with_label_after_install, kueue))
        self.cluster_queues, self.local_queues = (
            resource_names(args, "ClusterQueue"),
            resource_names(args, "LocalQueue"),
        )
        self.register_outputs({"cluster_queues": self.cluster_queues, "local_queues": self.local_queues})


def _with_label_after_install(kueue: pulumi.Output[str] | None, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    # The definitions of a destroyed stack remain, with the address of a webhook that is no longer available. The API
    # server's dry run would fail, so a preview has an unknown label until Kueue's controller exists.
    if kueue is None:
        return manifest
    meta = manifest["metadata"]
    owner = kueue.apply(lambda _: OWNER)
    return {**manifest, "metadata": {**meta, "labels": {**meta["labels"], MANAGED_BY: owner}}}
