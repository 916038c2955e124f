"""Kueue's objects, in the order in which they refer to each other, and so in the reverse order when they go."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi

from trainstack.components.objects import Object, declare
from trainstack.components.teardown import GONE_IN_TIME, Teardown, before_delete
from trainstack.objects.labels import MANAGED_BY, OWNER, Manifest
from trainstack.platform import queues as build
from trainstack.settings.sections.queues import Queues as QueuesSettings


@dataclass(frozen=True, kw_only=True)
class QueuesArgs:
    """What `Queues` declares."""

    stack: str
    queues: QueuesSettings
    kueue: pulumi.Output[str] | None
    """The release that this stack installs, once its webhooks answer; None where somebody else installed it."""
    teardown: Teardown
    """What is done before one of them goes."""


class Queues(pulumi.ComponentResource):
    """Flavors, cohorts, cluster queues, local queues and priorities."""

    cluster_queues: pulumi.Output[list[str]]
    """The cluster queues that there are now."""
    local_queues: pulumi.Output[list[str]]
    """The queues that runs name, as `<namespace>/<name>`."""

    def __init__(self, name: str, args: QueuesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare them. A flavor in use refuses to go, so each kind goes before what it refers to."""
        super().__init__("trainstack:platform:Queues", name, {}, opts)
        queues, stack = args.queues, args.stack
        after = partial(_after, args.kueue)
        declare((after(build.priority_class(each, stack)) for each in queues.priority_classes), self)
        cohorts: list[Object] = declare((after(build.cohort(each, stack)) for each in queues.cohorts), self)
        flavors = declare(
            (after(build.resource_flavor(each, stack)) for each in queues.flavors), self, (), GONE_IN_TIME
        )
        cluster_queues = declare(
            (after(build.cluster_queue(each, stack)) for each in queues.cluster_queues),
            self,
            cohorts + flavors,
            pulumi.ResourceOptions.merge(GONE_IN_TIME, before_delete(args.teardown.queue)),
        )
        # A LocalQueue refuses to be pointed elsewhere: another clusterQueue is another object.
        declare(
            (after(build.local_queue(each, stack)) for each in queues.local_queues),
            self,
            cluster_queues,
            pulumi.ResourceOptions(replace_on_changes=["spec.clusterQueue"], delete_before_replace=True),
        )
        self.cluster_queues = pulumi.Output.from_input([each.name for each in queues.cluster_queues])
        self.local_queues = pulumi.Output.from_input([f"{each.namespace}/{each.name}" for each in queues.local_queues])
        self.register_outputs({"cluster_queues": self.cluster_queues, "local_queues": self.local_queues})


def _after(kueue: pulumi.Output[str] | None, manifest: Manifest) -> Mapping[str, Any]:
    """The object, in a preview with an unknown label until Kueue's controller is there.

    The definitions outlive a destroyed stack, and with them the address of a webhook that nobody answers: the server's
    dry run of an object that is wholly known would fail on it.
    """
    if kueue is None:
        return manifest
    meta = manifest["metadata"]
    owner = kueue.apply(lambda _: OWNER)
    return {**manifest, "metadata": {**meta, "labels": {**meta["labels"], MANAGED_BY: owner}}}
