"""The identity of a stack's state and of its cluster, which every component depends on.

An object does not need the dependency: its registration has the URN of its component, and so waits for it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

import pulumi

from trainstack.components.objects import PROVIDER_VERSION
from trainstack.guards import other_states
from trainstack.guards.cluster_identity import (
    ClusterIdentity,
    facts_resource_name,
    namespace_identity,
    other_cluster_refusal,
    provider_cluster_refusal,
)
from trainstack.objects.labels import with_state

_OBJECTS = "kubernetes:"

Refuse = Callable[[str], NoReturn]
"""Ends the program with a message, before any object is written."""


def remember_cluster(
    live_cluster: ClusterIdentity, state_identity: str, stack: str, profile: str, *, is_expected: bool, refuse: Refuse
) -> pulumi.Output[pulumi.Resource]:
    """Store the identity of the state and of the cluster in the engine's state; return the dependency of components.

    These are the first resources, so an `up` that fails later has stored them. On another cluster the program fails,
    in previews too, before any component that depends on the result. `state_identity` is the identity that the state
    has, or a new one. `is_expected`: the environment names this cluster, which then replaces the stored one.
    """
    # `output` of a Stash is the input of the first `up`, until the Stash is replaced.
    identity_stash = pulumi.Stash(
        other_states.IDENTITY_RESOURCE_NAME, input=state_identity, opts=pulumi.ResourceOptions(ignore_changes=["input"])
    )
    memory = pulumi.Stash(
        facts_resource_name(profile),
        input=dict(live_cluster.facts),
        opts=pulumi.ResourceOptions(
            replace_on_changes=["input"], ignore_changes=[] if is_expected else ["input"], depends_on=[identity_stash]
        ),
    )
    return memory.output.apply(
        partial(_refuse_other_cluster, memory, live_cluster, stack, is_expected=is_expected, refuse=refuse)
    )


def _refuse_other_cluster(
    memory: pulumi.Resource,
    live_cluster: ClusterIdentity,
    stack: str,
    remembered_facts: Mapping[str, str] | None,
    *,
    is_expected: bool,
    refuse: Refuse,
) -> pulumi.Resource:
    # A `destroy` that runs the program does not create a Stash that the state does not have.
    if not is_expected and (refusal := other_cluster_refusal(remembered_facts or {}, live_cluster, stack)):
        refuse(refusal)
    return memory


def prove_cluster(
    provider: pulumi.ProviderResource, name: str, live_cluster: ClusterIdentity, *, refuse: Refuse
) -> pulumi.Output[pulumi.Resource] | None:
    """Compare the cluster that a provider reaches with the one that the program read; return what components depend on.

    The provider reads the kubeconfig separately, after the program, and keeps its client. If it reaches another
    cluster, the program fails, in previews too, before the provider writes or deletes. Returns None for a tenant
    without the right to read a namespace, since there is nothing to compare.
    """
    if live_cluster.namespace is None:
        return None
    # The engine never changes or deletes a resource that it only reads.
    opts = pulumi.ResourceOptions(id=live_cluster.namespace, provider=provider, version=PROVIDER_VERSION)
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": live_cluster.namespace}}
    namespace = pulumi.CustomResource("kubernetes:core/v1:Namespace", f"{name}-identity", manifest, opts)
    metadata: pulumi.Output[Mapping[str, Any]] = pulumi.Output.from_input(getattr(namespace, "metadata"))  # noqa: B009
    return metadata.apply(partial(_refuse_other_provider_cluster, namespace, live_cluster, refuse))


def _refuse_other_provider_cluster(
    namespace: pulumi.Resource, live_cluster: ClusterIdentity, refuse: Refuse, metadata: Mapping[str, Any]
) -> pulumi.Resource:
    if refusal := provider_cluster_refusal(live_cluster, namespace_identity(metadata)):
        refuse(refusal)
    return namespace


def mark_with_state(state_identity: str) -> None:
    """Add the state's identity to all objects that are declared after this call."""

    def with_identity(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith(_OBJECTS) or args.opts.id is not None:
            return None
        declared_metadata: Any = args.props["metadata"]
        return pulumi.ResourceTransformationResult(
            {**args.props, "metadata": with_state(declared_metadata, state_identity)}, args.opts
        )

    pulumi.runtime.register_stack_transformation(with_identity)
