"""Kueue's objects, in the order in which they refer to each other, and so in the reverse order when they go."""

from dataclasses import dataclass

import pulumi

from components.objects import Object, declare
from manifests import queues as build
from settings.queues import Queues as QueuesSettings


@dataclass(frozen=True, kw_only=True)
class QueuesArgs:
    """What `Queues` declares."""

    stack: str
    queues: QueuesSettings


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
        declare((build.priority_class(each, stack) for each in queues.priority_classes), self)
        cohorts: list[Object] = declare((build.cohort(each, stack) for each in queues.cohorts), self)
        flavors = declare((build.resource_flavor(each, stack) for each in queues.flavors), self)
        cluster_queues = declare(
            (build.cluster_queue(each, stack) for each in queues.cluster_queues), self, cohorts + flavors
        )
        # A LocalQueue refuses to be pointed elsewhere: another clusterQueue is another object.
        declare(
            (build.local_queue(each, stack) for each in queues.local_queues),
            self,
            cluster_queues,
            pulumi.ResourceOptions(replace_on_changes=["spec.clusterQueue"], delete_before_replace=True),
        )
        self.cluster_queues = pulumi.Output.from_input([each.name for each in queues.cluster_queues])
        self.local_queues = pulumi.Output.from_input([f"{each.namespace}/{each.name}" for each in queues.local_queues])
        self.register_outputs({"cluster_queues": self.cluster_queues, "local_queues": self.local_queues})
