"""The installs: Kueue, then everything whose pods Kueue's webhooks would otherwise block."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from trainstack.components.objects import Object, declare
from trainstack.components.teardown import Teardown, forgotten
from trainstack.live.client import ClusterError
from trainstack.platform.operators.install import OperatorManifests


@dataclass(frozen=True, kw_only=True)
class OperatorArgs:
    """An operator's manifests, checked and adjusted, and how to see that it answers."""

    version: str
    manifests: OperatorManifests
    retained: frozenset[str]
    """Those of its namespaces that hold a retained volume."""
    answers: Callable[[], None]
    """Returns once the operator's webhooks take objects; raises ClusterError when they do not in time."""
    teardown: Teardown
    """What is done before one of its objects goes."""


@dataclass(frozen=True, kw_only=True)
class DefinitionsArgs:
    """What `Definitions` declares."""

    crds: Sequence[Mapping[str, Any]]
    teardown: Teardown
    """What is done before one of them goes."""


class Definitions(pulumi.ComponentResource):
    """The definitions (CRDs) of all operators, before the first of them: Kueue looks for its kinds when it starts.

    The engine only forgets them: deleting one deletes every object of its kind, other teams' included. A teardown
    deletes those of which nobody else has any.
    """

    kinds: pulumi.Output[list[str]]
    """The definitions that there are now, as `<plural>.<group>`."""

    def __init__(self, name: str, args: DefinitionsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare them."""
        super().__init__("trainstack:platform:Definitions", name, {}, opts)
        declare(args.crds, self, opts=forgotten(args.teardown.definition))
        self.kinds = pulumi.Output.from_input([each["metadata"]["name"] for each in args.crds])
        self.register_outputs({"kinds": self.kinds})


class Operator(pulumi.ComponentResource):
    """One operator, from its rights up to the point where its webhooks answer. It comes after the definitions."""

    version: pulumi.Output[str]
    """The release that is installed, once its webhooks answer; in a preview known only when its controller is there."""

    def __init__(self, name: str, args: OperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare rights, configuration and services, then the controller."""
        super().__init__("trainstack:platform:Operator", name, {}, opts)
        parts = args.manifests
        setup = self._setup(args)
        # Ready is not enough: until the node's rules lead to the pod, a first object is refused. The hook runs
        # where the controller was created or changed, and what it waits for is part of that.
        hook = pulumi.ResourceHook(f"{name}-answers", lambda _: args.answers())
        controllers = declare(
            parts.deployments,
            self,
            setup,
            pulumi.ResourceOptions(
                hooks=pulumi.ResourceHookBinding(
                    after_create=[hook], after_update=[hook], before_delete=[args.teardown.controller]
                )
            ),
        )
        declare(parts.extensions, self, controllers)
        self.version = pulumi.Output.all(*(each.id for each in controllers)).apply(lambda _: _answering(args))
        self.register_outputs({"version": self.version})

    def _setup(self, args: OperatorArgs) -> list[Object]:
        parts = args.manifests
        namespaces: list[Object] = []
        for each in (each for each in parts.setup if each["kind"] == "Namespace"):
            keep = forgotten(args.teardown.namespace) if each["metadata"]["name"] in args.retained else None
            namespaces += declare([each], self, opts=keep)
        rest = (each for each in parts.setup if each["kind"] != "Namespace")
        return declare(rest, self, namespaces)


async def _answering(args: OperatorArgs) -> str:
    """The release, once its webhooks answer.

    The hook is not enough: where the program was killed while it waited, the controller is in the state, and the next
    `up` finds nothing to do about it.
    """
    if not pulumi.runtime.is_dry_run():
        try:
            await asyncio.to_thread(args.answers)
        except ClusterError as error:
            raise pulumi.RunError(str(error)) from error
    return args.version
