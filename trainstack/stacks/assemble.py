"""The declaration of a stack's resources: platform, training layer or both."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import pulumi

from trainstack.components.await_deletion import await_deletion
from trainstack.components.cluster import mark_with_state, prove_cluster, remember_cluster
from trainstack.components.definitions import PreparationSteps
from trainstack.components.field_transfer import take_fields_over, transfer_fields
from trainstack.components.launch_claims import LaunchClaim
from trainstack.components.launches import LaunchOptions
from trainstack.components.objects import PROVIDER_VERSION
from trainstack.components.other_objects import OtherObjects
from trainstack.components.secrets import Secrets
from trainstack.components.teardown import TeardownGuard, attach_hooks
from trainstack.errors import RefusedError
from trainstack.guards.definition_releases import KIND
from trainstack.guards.other_states import owning_state
from trainstack.guards.platform_queues import unknown_queue_errors
from trainstack.lifecycle.teardown.plan import protected_volumes
from trainstack.live.deletion_waits import wait_until_replaceable
from trainstack.objects.labels import LAUNCH, with_state
from trainstack.objects.ownership import format_identity, identity
from trainstack.settings.model import Settings
from trainstack.stack_objects.launch_groups import LaunchGroup
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.stacks.exit_code import report_exit_code
from trainstack.stacks.plan_change import LoadedProgram
from trainstack.stacks.platform import declare_platform
from trainstack.stacks.teardown_hooks import teardown_hooks
from trainstack.stacks.training import declare_training


def assemble(program: LoadedProgram, secrets: pulumi.Output[Any] | None = None) -> Mapping[str, pulumi.Input[Any]]:
    """Declare all resources; return the stack's outputs.

    `secrets` is the decrypted section `secrets`; None without one. Raises RunError.
    """
    settings, run_decision = program.settings, program.run_decision
    layers = settings.environment.layers
    is_expected = settings.cluster.identity is not None
    profile = settings.environment.profile
    # First, so that the state has the identity of its cluster even if the `up` fails later.
    cluster_memory = remember_cluster(
        program.cluster, program.state.identity, settings.stack, profile, is_expected=is_expected, refuse=_refuse
    )
    context = settings.cluster.context
    # Server-side apply needs a name, so objects with `generateName` have a provider without it.
    provider, generating_provider = _provider("cluster", context, cluster_memory), None
    if any("generateName" in ledger.launch["metadata"] for ledger in run_decision.all_launches):
        generating_provider = _provider("cluster-generating", context, cluster_memory, enableServerSideApply="false")
    proofs = [prove_cluster(provider, "cluster", program.cluster, refuse=_refuse)]
    if generating_provider:
        proofs.append(prove_cluster(generating_provider, "cluster-generating", program.cluster, refuse=_refuse))
    mark_with_state(program.state.identity)
    gates = [proof for proof in proofs if proof is not None]
    opts = pulumi.ResourceOptions(providers=[provider], depends_on=[cluster_memory, *gates])
    outputs: dict[str, pulumi.Input[Any]] = {"schema": 1}
    dependencies: tuple[pulumi.Input[pulumi.Resource], ...] = ()
    all_resources: tuple[pulumi.Resource, ...] = ()
    # These register transformations of all objects that are declared from here on, so they precede them.
    await_deletion(program.replacements, partial(wait_until_replaceable, context=context))
    take_fields_over(program.takeovers, program.state.identity, context)
    stack_objects = program.stack_objects
    live_launches = run_decision.live_objects.keys() & {ledger.launch_name for ledger in run_decision.all_launches}
    declared_identities = {
        identity(manifest)
        for manifest in stack_objects.manifests(run_decision.groups)
        if "name" in manifest["metadata"]
    }
    # The hooks need all identities: a hook refuses the replacement of a declared launch or namespace.
    hooks = teardown_hooks(
        settings,
        program.state,
        stack_objects.retained_objects,
        live_launches,
        declared_identities,
        program.recorded_launches,
    )
    attach_hooks(hooks)
    if "platform" in layers:
        platform_layer = declare_platform(
            stack_objects, program.definitions, _definition_preparations(program), secrets, opts
        )
        dependencies, all_resources = platform_layer.dependencies, platform_layer.resources
        outputs.update(platform_layer.outputs)
    elif settings.environment.platform is not None:
        reference = pulumi.StackReference(settings.environment.platform)
        outputs["localQueues"] = queues = reference.require_output("localQueues")
        # Volumes and runs depend on the reference, so that a missing queue prevents them all.
        dependencies = (queues.apply(partial(_refuse_unknown_queues, reference, settings)),)
    if secrets is not None and "platform" not in layers:
        secret_options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*dependencies]))
        dependencies = (*dependencies, Secrets("secrets", stack_objects, secrets, secret_options))
    others = _declare_other_objects(stack_objects, dependencies, opts)
    # Volumes and runs may use them.
    dependencies, all_resources = (*dependencies, *others), (*all_resources, *others)
    if "training" in layers:
        groups = [(group, _launch_options(program, group, generating_provider)) for group in run_decision.groups]
        training_resources, training_outputs = declare_training(stack_objects.volumes, groups, dependencies, opts)
        all_resources += training_resources
        outputs.update(training_outputs)
        outputs["waiting"] = {run: list(run_ids) for run, run_ids in run_decision.waiting.items()}
        outputs["waitingTrials"] = {sweep.name: len(sweep.waiting) for sweep in run_decision.sweeps if sweep.waiting}
        outputs["protected"] = list(protected_volumes(settings))
    # Last: the engine deletes in reverse order, so a destroy is refused before it deletes anything.
    TeardownGuard("guard", hooks, all_resources)
    outputs["retained"] = [
        f"{format_identity(retained.identity)}: {retained.reason}" for retained in stack_objects.retained_objects
    ]
    outputs["commands"] = {
        "status": f"trainstack status -s {settings.stack}",
        "wait": f"trainstack wait -s {settings.stack}",
        **{
            f"fetch {ledger.run_id}": f"trainstack fetch {ledger.run_id} -s {settings.stack}"
            for ledger in run_decision.runs.ledgers
        },
    }
    return outputs


def _declare_other_objects(
    stack_objects: StackObjects, dependencies: Sequence[pulumi.Input[pulumi.Resource]], opts: pulumi.ResourceOptions
) -> tuple[OtherObjects, ...]:
    """Declare the objects of section `objects`, if there are any."""
    if not stack_objects.other_objects.objects:
        return ()
    options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*dependencies]))
    return (OtherObjects("objects", stack_objects.other_objects, options),)


def _definition_preparations(program: LoadedProgram) -> PreparationSteps:
    """Return the steps that precede each definition: wait for a terminating one, or transfer its fields."""
    context, state = program.settings.cluster.context, program.state.identity
    steps: defaultdict[str, list[Callable[[], object]]] = defaultdict(list)
    for manifest in program.replacements.values():
        if manifest["kind"] == KIND:
            steps[manifest["metadata"]["name"]].append(partial(wait_until_replaceable, manifest, context))
    for manifest, metadata in program.takeovers:
        if manifest["kind"] == KIND:
            owner = owning_state(metadata)
            steps[manifest["metadata"]["name"]].append(partial(transfer_fields, manifest, owner, state, context))
    return steps


def _launch_options(
    program: LoadedProgram, group: LaunchGroup, generating: pulumi.ProviderResource | None
) -> LaunchOptions:
    """Return the options of a group's launches. `generating` is the provider of objects with `generateName`."""
    run_decision, state_identity = program.run_decision, program.state.identity
    recorded_names = {launch_name.labels.get(LAUNCH) for launch_name in program.recorded_launches}
    claims = {}
    for ledger in group.launches:
        launch_name = ledger.launch_name
        if (config_map := group.ledger_config_maps.get(launch_name)) is not None:
            claims[launch_name] = LaunchClaim(
                launch=ledger.launch,
                # The claim is written before the engine declares the ledger, which adds the identity of the state.
                ledger={**config_map, "metadata": with_state(config_map["metadata"], state_identity)},
                ledger_version=run_decision.config_map_versions.get(identity(config_map)),
                unconfirmed_claims=run_decision.claims_of(ledger),
                is_live=launch_name in run_decision.live_objects,
                is_recorded=launch_name in recorded_names,
            )
    return LaunchOptions(
        context=program.settings.cluster.context,
        live_objects=run_decision.live_objects,
        claims=claims,
        generating_provider=generating,
    )


def _provider(
    name: str, context: str | None, cluster_memory: pulumi.Output[pulumi.Resource], **overrides: str
) -> pulumi.ProviderResource:
    """Return a provider that reads KUBECONFIG in every operation.

    `pulumi_kubernetes.Provider` has KUBECONFIG as an input. The state would contain the path of one user and differ for
    the next one, and `destroy` and `refresh`, which do not run the program, would use the cluster of the last `up`.
    """
    properties = {
        # ConfigMaps and Secrets are updated: a replacement would affect pods that mount them.
        "enableConfigMapMutable": "true",
        "enableSecretMutable": "true",
        **({"context": context} if context else {}),
        **overrides,
    }
    # All objects depend on their provider, and with it on the check that this is the stack's cluster.
    opts = pulumi.ResourceOptions(version=PROVIDER_VERSION, depends_on=[cluster_memory])
    return pulumi.ProviderResource("kubernetes", name, properties, opts)


def _refuse_unknown_queues(
    platform: pulumi.StackReference, settings: Settings, local_queues: Sequence[str]
) -> pulumi.StackReference:
    """Return the platform's stack. Raises RunError if the platform does not have the queue of a run."""
    if violations := unknown_queue_errors(settings, local_queues):
        _refuse("\n".join(violations))
    return platform


def _refuse(message: str) -> NoReturn:
    """Report the exit code of a refusal, and raise RunError."""
    # Functions that are applied to outputs run after the program, whose error handling does not catch their errors.
    report_exit_code(RefusedError(message))
    raise pulumi.RunError(message)
