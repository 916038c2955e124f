"""What a stack remembers, and the gate that all its objects come after: its own state, on its own cluster."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pulumi

from trainstack.components.objects import PROVIDER_VERSION
from trainstack.guards import states
from trainstack.guards.cluster_identity import Cluster, another, elsewhere, fact_of, memory_name
from trainstack.objects.labels import with_state

_OBJECTS = "kubernetes:"


def remember(here: Cluster, state: str, stack: str, profile: str, *, expected: bool) -> pulumi.Output[pulumi.Resource]:
    """Keep in the engine's state its own identity, then which cluster this is; return what all objects come after.

    They are the first things that the state holds, so an `up` that fails later has remembered them. On another cluster
    it fails, in previews too, and whatever comes after it is not made.

    Args:
        here: the cluster before us.
        state: the identity of the state, as it holds it already, or a new one.
        stack: this stack.
        profile: who asks, an owner or a tenant.
        expected: the environment names this cluster, so it is remembered from now on in place of any other.

    """
    # The engine hands out the value of the first `up` as `output`, whatever it is given later, until it is replaced.
    own = pulumi.Stash(states.MEMORY, input=state, opts=pulumi.ResourceOptions(ignore_changes=["input"]))
    memory = pulumi.Stash(
        memory_name(profile),
        input=dict(here.facts),
        opts=pulumi.ResourceOptions(
            replace_on_changes=["input"], ignore_changes=[] if expected else ["input"], depends_on=[own]
        ),
    )
    return memory.output.apply(partial(_same, memory, here, stack, expected=expected))


def _same(
    memory: pulumi.Resource, here: Cluster, stack: str, remembered: Mapping[str, str] | None, *, expected: bool
) -> pulumi.Resource:
    # A `destroy` that runs the program makes no memory where the state has none.
    if not expected and (refusal := another(remembered or {}, here, stack)):
        raise pulumi.RunError(refusal)
    return memory


def prove(provider: pulumi.ProviderResource, name: str, here: Cluster) -> pulumi.Output[pulumi.Resource] | None:
    """Have a provider read a namespace of the cluster, and return what all its objects come after.

    The provider reads the kubeconfig by itself, later than the program, and keeps one client from then on. Where it
    reaches another cluster the program fails, in previews too, before the provider writes or deletes.

    Args:
        provider: the provider.
        name: its Pulumi name.
        here: the cluster that the program read.

    Returns None for a tenant who may read no namespace: nothing can be compared.

    """
    if here.namespace is None:
        return None
    # A read: the engine never changes or deletes it.
    opts = pulumi.ResourceOptions(id=here.namespace, provider=provider, version=PROVIDER_VERSION)
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": here.namespace}}
    read = pulumi.CustomResource("kubernetes:core/v1:Namespace", f"{name}-identity", manifest, opts)
    metadata: pulumi.Output[Mapping[str, Any]] = pulumi.Output.from_input(getattr(read, "metadata"))  # noqa: B009
    return metadata.apply(lambda found: _proven(read, here, found))


def _proven(read: pulumi.Resource, here: Cluster, metadata: Mapping[str, Any]) -> pulumi.Resource:
    if refusal := elsewhere(here, fact_of(metadata)):
        raise pulumi.RunError(refusal)
    return read


def mark_and_order(state: str, gates: Sequence[pulumi.Input[pulumi.Resource]]) -> None:
    """Add the state's identity to all objects that are declared from now on, and make them depend on these gates."""

    def mark(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith(_OBJECTS) or args.opts.id is not None:
            return None
        given: Any = args.props["metadata"]
        opts = pulumi.ResourceOptions(depends_on=[*gates])
        return pulumi.ResourceTransformationResult(
            {**args.props, "metadata": with_state(given, state)}, pulumi.ResourceOptions.merge(args.opts, opts)
        )

    pulumi.runtime.register_stack_transformation(mark)
