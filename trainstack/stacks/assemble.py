"""From a decision to resources: both halves of the house, or the one that the stack holds."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pulumi

from trainstack.components.await_deletion import await_deletion
from trainstack.components.claims import Claim
from trainstack.components.cluster import mark_and_order, prove, remember
from trainstack.components.field_managers import take_fields_over
from trainstack.components.launches import LaunchOptions
from trainstack.components.objects import PROVIDER_VERSION
from trainstack.components.secrets import Secrets, SecretsArgs
from trainstack.components.teardown import Guard, attach
from trainstack.declared.launches import LaunchGroup
from trainstack.guards.platform_queues import unknown_queues
from trainstack.lifecycle.teardown.plan import protected
from trainstack.live.names import wait_until_replaceable
from trainstack.objects.labels import with_state
from trainstack.objects.ownership import identity
from trainstack.settings.model import Settings
from trainstack.stacks.plan_change import Program
from trainstack.stacks.platform import platform
from trainstack.stacks.teardown import teardown
from trainstack.stacks.training import training


def assemble(program: Program, secrets: pulumi.Output[Any] | None = None) -> Mapping[str, pulumi.Input[Any]]:
    """Declare everything and return the stack's outputs: what a person needs next.

    `secrets`: the section of that name as the engine decrypts it; None where there is none.
    """
    settings, decided = program.settings, program.decided
    halves = settings.environment.halves
    expected = settings.cluster.identity is not None
    profile = settings.environment.profile
    known = remember(program.cluster, program.state.identity, settings.stack, profile, expected=expected)
    provider, generating = _provider("cluster", settings.cluster.context, known), _generating(program, known)
    proofs = [prove(provider, "cluster", program.cluster)]
    proofs += [prove(generating, "cluster-generating", program.cluster)] if generating else []
    mark_and_order(program.state.identity, [each for each in proofs if each is not None])
    opts = pulumi.ResourceOptions(providers=[provider])
    outputs: dict[str, pulumi.Input[Any]] = {"schema": 1}
    after: tuple[pulumi.Input[pulumi.Resource], ...] = ()
    everything: tuple[pulumi.Resource, ...] = ()
    await_deletion(program.departing, partial(wait_until_replaceable, context=settings.cluster.context))
    take_fields_over(program.taken, program.state.identity, settings.cluster.context)
    declared = program.declared
    hooks = teardown(settings, declared.retained, program.recorded)
    attach(hooks)
    sealed = SecretsArgs(secrets=settings.secrets, objects=declared.secrets, values=secrets) if secrets else None
    if "platform" in halves:
        owned = platform(declared, sealed, opts)
        after, everything = owned.resources, (*owned.resources, *owned.others)
        outputs.update(owned.outputs)
    elif settings.environment.platform is not None:
        reference = pulumi.StackReference(settings.environment.platform)
        outputs["localQueues"] = queues = reference.require_output("localQueues")
        # Volumes and runs come after it: none is made when a run's queue is not there.
        after = (queues.apply(partial(_with_queues_of, reference, settings)),)
    if sealed and "platform" not in halves:
        then = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*after]))
        after = (*after, Secrets("secrets", sealed, then))
    if "training" in halves:
        groups = [(group, _launching(program, group, generating)) for group in decided.groups]
        team = training(declared.volumes, groups, after, opts)
        everything += team.resources
        outputs.update(team.outputs)
        outputs["waiting"] = {run: list(others) for run, others in decided.waiting.items()}
        outputs["waitingTrials"] = {each.name: len(each.waiting) for each in decided.sweeps if each.waiting}
        outputs["protected"] = list(protected(settings))
    Guard("guard", hooks, everything)
    outputs["retained"] = [
        f"{each.kind} {f'{each.namespace}/' if each.namespace else ''}{each.name}: {each.reason}"
        for each in declared.retained
    ]
    outputs["commands"] = {
        "status": f"trainstack status -s {settings.stack}",
        "wait": f"trainstack wait -s {settings.stack}",
        **{
            f"fetch {each.run_id}": f"trainstack fetch {each.run_id} -s {settings.stack}"
            for each in decided.runs.ledgers
        },
    }
    return outputs


def _launching(program: Program, group: LaunchGroup, generating: pulumi.ProviderResource | None) -> LaunchOptions:
    state, versions = program.state.identity, program.decided.config_map_versions
    claims = {}
    for launch, ledger in group.config_maps.items():
        # A claim is written before the engine declares the ledger, which adds the identity of the state.
        claimed = {**ledger, "metadata": with_state(ledger["metadata"], state)}
        claims[launch] = Claim(ledger=claimed, version=versions.get(identity(ledger)))
    return LaunchOptions(
        context=program.settings.cluster.context, live=program.decided.live, claims=claims, generating=generating
    )


def _generating(program: Program, known: pulumi.Output[pulumi.Resource]) -> pulumi.ProviderResource | None:
    """A second provider to the same cluster, for launches whose names the API server chooses; None without them."""
    if all("name" in each.launch["metadata"] for each in program.decided.all_launches):
        return None
    return _provider("cluster-generating", program.settings.cluster.context, known, enableServerSideApply="false")


def _provider(
    name: str, context: str | None, known: pulumi.Output[pulumi.Resource], **changes: str
) -> pulumi.ProviderResource:
    """The cluster that KUBECONFIG names to whoever runs the engine, whichever command they run.

    Not pulumi_kubernetes.Provider: that one takes KUBECONFIG for an input. The state would hold one person's path,
    differ for the next, and send `destroy` and `refresh`, which need run no program, to the cluster of the last `up`.
    """
    properties = {
        # A changed ConfigMap is edited, not deleted first (which a pod would notice).
        "enableConfigMapMutable": "true",
        "enableSecretMutable": "true",
        **({"context": context} if context else {}),
        **changes,
    }
    # Every object comes after its provider, and so after it is known that this is the stack's own cluster.
    opts = pulumi.ResourceOptions(version=PROVIDER_VERSION, depends_on=[known])
    return pulumi.ProviderResource("kubernetes", name, properties, opts)


def _with_queues_of(
    platform: pulumi.StackReference, settings: Settings, local_queues: Sequence[str]
) -> pulumi.StackReference:
    """The platform's stack, once its outputs show that it has every queue that the runs name."""
    unknown = unknown_queues(settings, local_queues)
    if unknown:
        raise pulumi.RunError("\n".join(unknown))
    return platform
