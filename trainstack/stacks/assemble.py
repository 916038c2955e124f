"""Declares the resources of a stack: platform, training layer or both."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import pulumi

from trainstack.components.await_deletion import await_deletion
from trainstack.components.cluster import mark, prove, remember
from trainstack.components.definitions import Before
from trainstack.components.field_transfer import take_fields_over, transfer
from trainstack.components.launch_claims import Claim
from trainstack.components.launches import LaunchOptions
from trainstack.components.objects import PROVIDER_VERSION
from trainstack.components.secrets import Secrets
from trainstack.components.teardown import Guard, attach
from trainstack.declared.launches import LaunchGroup
from trainstack.errors import RefusedError
from trainstack.guards.definitions import KIND
from trainstack.guards.platform_queues import unknown_queues
from trainstack.guards.states import owner_of
from trainstack.lifecycle.teardown.plan import protected
from trainstack.live.names import wait_until_replaceable
from trainstack.objects.labels import LAUNCH, with_state
from trainstack.objects.ownership import identity, shown
from trainstack.settings.model import Settings
from trainstack.stacks.exit_code import report
from trainstack.stacks.plan_change import Program
from trainstack.stacks.platform import platform
from trainstack.stacks.teardown import teardown
from trainstack.stacks.training import training


def assemble(program: Program, secrets: pulumi.Output[Any] | None = None) -> Mapping[str, pulumi.Input[Any]]:
    """Declare all resources and return the stack's outputs. `secrets` is the decrypted section, if there is one."""
    settings, decided = program.settings, program.decided
    layers = settings.environment.layers
    expected = settings.cluster.identity is not None
    profile = settings.environment.profile
    known = remember(
        program.cluster, program.state.identity, settings.stack, profile, expected=expected, refuse=_refuse
    )
    context = settings.cluster.context
    provider, generating = _provider("cluster", context, known), None
    if any("generateName" in ledger.launch["metadata"] for ledger in decided.all_launches):
        generating = _provider("cluster-generating", context, known, enableServerSideApply="false")
    proofs = [prove(provider, "cluster", program.cluster, refuse=_refuse)]
    if generating:
        proofs.append(prove(generating, "cluster-generating", program.cluster, refuse=_refuse))
    mark(program.state.identity)
    gates = [proof for proof in proofs if proof is not None]
    opts = pulumi.ResourceOptions(providers=[provider], depends_on=[known, *gates])
    outputs: dict[str, pulumi.Input[Any]] = {"schema": 1}
    after: tuple[pulumi.Input[pulumi.Resource], ...] = ()
    everything: tuple[pulumi.Resource, ...] = ()
    await_deletion(program.replacements, partial(wait_until_replaceable, context=context))
    take_fields_over(program.taken, program.state.identity, context)
    declared = program.declared
    kept = decided.live.keys() & {ledger.launch_name for ledger in decided.all_launches}
    named = {identity(item) for item in declared.manifests(decided.groups) if "name" in item["metadata"]}
    hooks = teardown(settings, program.state, declared.retained, kept, named, program.recorded)
    attach(hooks)
    if "platform" in layers:
        owned = platform(declared, program.definitions, _before_definitions(program), secrets, opts)
        after, everything = owned.last, owned.resources
        outputs.update(owned.outputs)
    elif settings.environment.platform is not None:
        reference = pulumi.StackReference(settings.environment.platform)
        outputs["localQueues"] = queues = reference.require_output("localQueues")
        # Volumes and runs depend on the reference, so that a missing queue prevents them all.
        after = (queues.apply(partial(_with_queues_of, reference, settings)),)
    if secrets is not None and "platform" not in layers:
        following = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*after]))
        after = (*after, Secrets("secrets", declared, secrets, following))
    if "training" in layers:
        groups = [(group, _launching(program, group, generating)) for group in decided.groups]
        resources, declared_outputs = training(declared.volumes, groups, after, opts)
        everything += resources
        outputs.update(declared_outputs)
        outputs["waiting"] = {run: list(others) for run, others in decided.waiting.items()}
        outputs["waitingTrials"] = {sweep.name: len(sweep.waiting) for sweep in decided.sweeps if sweep.waiting}
        outputs["protected"] = list(protected(settings))
    Guard("guard", hooks, everything)
    outputs["retained"] = [f"{shown(kept.identity)}: {kept.reason}" for kept in declared.retained]
    outputs["commands"] = {
        "status": f"trainstack status -s {settings.stack}",
        "wait": f"trainstack wait -s {settings.stack}",
        **{
            f"fetch {ledger.run_id}": f"trainstack fetch {ledger.run_id} -s {settings.stack}"
            for ledger in decided.runs.ledgers
        },
    }
    return outputs


def _before_definitions(program: Program) -> Before:
    """Return the steps before definitions are applied: the end of a terminating one, or the transfer of its fields."""
    context, state = program.settings.cluster.context, program.state.identity
    result: defaultdict[str, list[Callable[[], object]]] = defaultdict(list)
    for manifest in program.replacements.values():
        if manifest["kind"] == KIND:
            result[manifest["metadata"]["name"]].append(partial(wait_until_replaceable, manifest, context))
    for manifest, metadata in program.taken:
        if manifest["kind"] == KIND:
            owner = owner_of(metadata)
            result[manifest["metadata"]["name"]].append(partial(transfer, manifest, owner, state, context))
    return result


def _launching(program: Program, group: LaunchGroup, generating: pulumi.ProviderResource | None) -> LaunchOptions:
    decided, state = program.decided, program.state.identity
    recorded = {launch.labels.get(LAUNCH) for launch in program.recorded}
    claims = {}
    for launched in group.launches:
        launch = launched.launch_name
        if (ledger := group.config_maps.get(launch)) is not None:
            claims[launch] = Claim(
                launch=launched.launch,
                # The claim is written before the engine declares the ledger, which adds the identity of the state.
                ledger={**ledger, "metadata": with_state(ledger["metadata"], state)},
                version=decided.config_map_versions.get(identity(ledger)),
                earlier=decided.claims_of(launched),
                is_live=launch in decided.live,
                is_recorded=launch in recorded,
            )
    return LaunchOptions(
        context=program.settings.cluster.context, live=decided.live, claims=claims, generating=generating
    )


def _provider(
    name: str, context: str | None, known: pulumi.Output[pulumi.Resource], **changes: str
) -> pulumi.ProviderResource:
    """Return a provider that reads KUBECONFIG in every operation.

    `pulumi_kubernetes.Provider` has KUBECONFIG as an input. The state would contain one user's path, differ for the
    next user, and direct `destroy` and `refresh`, which do not run the program, to the cluster of the last `up`.
    """
    properties = {
        # ConfigMaps and Secrets are updated, not replaced, which a pod that mounts them would notice.
        "enableConfigMapMutable": "true",
        "enableSecretMutable": "true",
        **({"context": context} if context else {}),
        **changes,
    }
    # All objects depend on their provider, and so on the check that this is the stack's own cluster.
    opts = pulumi.ResourceOptions(version=PROVIDER_VERSION, depends_on=[known])
    return pulumi.ProviderResource("kubernetes", name, properties, opts)


def _with_queues_of(
    platform: pulumi.StackReference, settings: Settings, local_queues: Sequence[str]
) -> pulumi.StackReference:
    """Return the platform's stack. Raises RunError if it does not have a run's queue."""
    if unknown := unknown_queues(settings, local_queues):
        _refuse("\n".join(unknown))
    return platform


def _refuse(message: str) -> NoReturn:
    # The engine runs what an output is applied to after the program, whose error handling does not see it.
    report(RefusedError(message))
    raise pulumi.RunError(message)
