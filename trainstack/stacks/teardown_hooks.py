"""The hooks of a teardown (docs/decisions/0011), in three modes.

- `pulumi destroy --run-program`: the whole program runs; the hooks guard, drain and delete.
- `trainstack destroy`: the program repeats the decision that the user confirmed. It declares nothing, so that edited
  runs do not prevent the teardown; the hooks drain and delete.
- `trainstack destroy --keep-platform`: as before, but the hooks do not drain. Definitions and namespaces with volumes
  remain.

In all modes, and in an `up`, a hook checks each deletion (stacks/deletion_guard.py).
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pulumi

from trainstack.components.removal import delete_and_wait, hold_and_drain, read_metadata, wait_until
from trainstack.components.teardown import HOOKS, Hooks, TeardownGuard, Work, register_hooks
from trainstack.errors import RefusedError
from trainstack.guards.definition_releases import recorded_manifests
from trainstack.guards.deletions import owner_refusals
from trainstack.guards.other_states import NO_STATE_IDENTITY, OwnState, owning_state
from trainstack.lifecycle.teardown.live_stack import has_label_of, owners
from trainstack.lifecycle.teardown.plan import plan_full_teardown, protected_volumes
from trainstack.lifecycle.teardown.users import (
    objects_of_others,
    queue_users,
    workloads_holding_quota,
    workloads_without_owner,
)
from trainstack.live import paths
from trainstack.live.client import ClusterError
from trainstack.live.labeled_objects import read_state_metadata
from trainstack.live.snapshot import LAUNCH_KINDS, read_launches, run_namespaces
from trainstack.live.teardown import plan_teardown, read_instances, read_kind, read_live_stack, read_namespace
from trainstack.objects.ownership import Identity, format_identity, identity
from trainstack.platform.retained import RetainedObject
from trainstack.printable import clean
from trainstack.runs.launches import utc_now
from trainstack.runs.recorded_launches import RecordedLaunch, StateResource, recorded_launches
from trainstack.runs.status.launch_kinds import other_launch_kinds
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.model import Settings
from trainstack.stacks.deletion_guard import DeletionGuard
from trainstack.stacks.engine_state import own_state
from trainstack.stacks.exit_code import report_exit_code
from trainstack.stacks.teardown_permission import Permission

DEADLINE_SECONDS = 120
"""The timeout of a hook, longer than a pod's grace period of 30 s."""
_CONCURRENCY = 8
"""The number of definitions that are deleted at the same time."""


def declare_teardown(root: Path, permission: Permission, resources: Sequence[StateResource]) -> None:
    """Repeat the decision that the user confirmed, and declare only the hooks of the `resources` in the state.

    The program runs under the engine's lock, so no other `up` of the stack launches a run after this. Raises
    SettingsError if the files are invalid, ClusterError, and RefusedError if the teardown is refused now.
    """
    settings = load_with_places(root, permission.stack).settings
    keep_platform = permission.mode == "keep-platform"
    state = own_state(resources)
    plan = plan_teardown(
        settings,
        keep_platform=keep_platform,
        retained=permission.retained,
        protected=permission.protected,
        stop=permission.stop,
        state_objects=state.object_identities,
        recorded=recorded_launches(permission.stack, resources),
    )
    # Others may have created objects between the confirmation and the engine's lock.
    unconfirmed = sorted(map(format_identity, plan.deleted - {*permission.deleted}))
    live_metadata = read_state_metadata(
        {key: state_object.api_version for key, state_object in state.objects.items()},
        settings.cluster.context,
    )
    refusals = [*plan.refusals, *owner_refusals(live_metadata, state, settings.stack, settings.cluster.take_over)]
    refusals += (f"{name} has been created or changed since the confirmation" for name in unconfirmed)
    if refusals:
        raise RefusedError(
            "nothing was deleted, because the stack has changed since its plan was shown:\n" + "\n".join(refusals)
        )
    deletion_guard = DeletionGuard(settings, state.identity, stop=permission.stop, confirmed_objects=permission.deleted)
    work_by_hook = (
        dict.fromkeys(HOOKS, _do_nothing) if keep_platform else _hook_work(settings, _do_nothing, deletion_guard, None)
    )
    TeardownGuard("guard", register_hooks({**work_by_hook, "deletion": deletion_guard.check}), [])


def teardown_hooks(
    settings: Settings,
    state: OwnState,
    retained_objects: Collection[RetainedObject],
    declared_launches: Collection[str] = (),
    declared_objects: Collection[Identity] = (),
    state_launches: Sequence[RecordedLaunch] = (),
) -> Hooks:
    """Return the hooks of a stack with this engine's state, which declares objects.

    `declared_launches` are the names of the live launches that it declares; `state_launches` are the launches in the
    engine's state. If the engine removes a declared object of `retained_objects` from the state, this is a destroy: an
    `up` removes only objects that are no longer declared, and they remain in the cluster.
    """
    retained_identities = frozenset(retained_object.identity for retained_object in retained_objects)
    deletion_guard = DeletionGuard(
        settings,
        state.identity,
        stop=settings.workloads.stop,
        declared_launches=declared_launches,
        declared_objects=declared_objects,
    )
    guard = partial(_refuse_teardown, settings, retained_identities, state.object_identities, state_launches)
    return register_hooks(_hook_work(settings, guard, deletion_guard, retained_identities))


def _hook_work(
    settings: Settings,
    guard: Callable[[], None],
    deletion_guard: DeletionGuard,
    retained_identities: frozenset[Identity] | None,
) -> Mapping[str, Work]:
    """Return the functions of the hooks by hook.

    `guard` raises an error if the stack may not be destroyed. `retained_identities` are the retained objects; None if
    the program declares nothing.
    """
    destroy_has_started = threading.Event()

    def start_destroy() -> None:
        guard()
        deletion_guard.expect_destroy()
        destroy_has_started.set()

    def work_in_a_destroy(work: Callable[[Settings, Mapping[str, Any]], None], manifest: Mapping[str, Any]) -> None:
        # `pulumi up --replace` calls the hooks of objects that it declares again.
        if retained_identities is None or (destroy_has_started.is_set() and identity(manifest) in retained_identities):
            work(settings, manifest)

    def delete_definitions(inputs: Mapping[str, Any]) -> None:
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            list(pool.map(partial(work_in_a_destroy, _delete_definition), recorded_manifests(inputs)))

    def with_inputs(work: Callable[[Mapping[str, Any]], None]) -> Work:
        return lambda args: work(args.old_inputs or {})

    return {
        "guard": lambda _: start_destroy(),
        "deletion": deletion_guard.check,
        "queue": with_inputs(partial(_drain_queue, settings)),
        "controller": with_inputs(partial(_prepare_controller_deletion, settings)),
        "definition": with_inputs(delete_definitions),
        "namespace": with_inputs(partial(work_in_a_destroy, _delete_namespace)),
    }


def _do_nothing(*_: object) -> None:
    pass


def _refuse_teardown(
    settings: Settings,
    retained_identities: frozenset[Identity],
    state_identities: frozenset[Identity],
    launches: Sequence[RecordedLaunch],
) -> None:
    stop = settings.workloads.stop
    live = read_live_stack(
        settings, retained=retained_identities, protected=protected_volumes(settings), stop=stop, recorded=launches
    )
    # The engine does not delete the volumes that an earlier `up` has retained.
    forgotten_volumes = {
        identity(body) for body in live.labeled_objects_of("PersistentVolumeClaim", "PersistentVolume")
    } - state_identities
    plan = plan_full_teardown(replace(live, retained=live.retained | forgotten_volumes), utc_now())
    if plan.refusals:
        error = RefusedError("nothing is deleted:\n" + "\n".join(plan.refusals))
        report_exit_code(error)
        raise error
    for object_identity, reason in sorted(plan.retention_reasons.items(), key=str):
        pulumi.log.info(clean(f"stays: {format_identity(object_identity)}: {reason}"))


def _drain_queue(settings: Settings, manifest: Mapping[str, Any]) -> None:
    """Hold and drain a ClusterQueue. Raises ClusterError if others have used it since the guard's check."""
    context, name = settings.cluster.context, manifest["metadata"]["name"]
    if read_metadata(paths.object_path(manifest), context) is None:
        return
    _wait_for_terminating_launches(settings)
    api_version = manifest["apiVersion"]

    def read_holders() -> list[Mapping[str, Any]]:
        return workloads_holding_quota(name, read_kind(api_version, "Workload", context))

    def holder_names() -> str:
        return ", ".join(format_identity(identity(workload)) for workload in read_holders())

    local_queues, holding_workloads = read_kind(api_version, "LocalQueue", context), read_holders()
    # The garbage collector discovers new kinds every 30 s, so Workloads of a new Kueue may outlive their Jobs.
    kinds = sorted({*LAUNCH_KINDS, *other_launch_kinds(settings)})
    orphans = workloads_without_owner(
        holding_workloads, [kind for _, kind in kinds], _owner_uids(holding_workloads, kinds, context)
    )
    workloads = [workload for workload in holding_workloads if workload not in orphans]
    # The engine has already deleted the stack's launches, unless it replaces the queue.
    if users := queue_users(name, settings.stack, local_queues, workloads):
        raise ClusterError(
            f"ClusterQueue {name} is not deleted, because it is used: {', '.join(users)}; wait for them, or ask their "
            "owners to end, move or delete them"
        )
    hold_and_drain(manifest, context)
    wait_until(f"ClusterQueue {name} holds no quota", holder_names, DEADLINE_SECONDS)


def _owner_uids(
    workloads: Sequence[Mapping[str, Any]], kinds: Sequence[tuple[str, str]], context: str | None
) -> frozenset[str]:
    """Return the UIDs of all live objects that own Workloads, as far as they are of `kinds`."""
    owner_kind_names = {owner["kind"] for body in workloads for owner in owners(body)}
    owner_kinds = [(version, kind) for version, kind in kinds if kind in owner_kind_names]
    return frozenset(str(body["metadata"]["uid"]) for kind in owner_kinds for body in read_kind(*kind, context))


def _prepare_controller_deletion(settings: Settings, manifest: Mapping[str, Any]) -> None:
    # Only this controller removes the finalizers of its objects.
    if read_metadata(paths.object_path(manifest), settings.cluster.context) is not None:
        _wait_for_terminating_launches(settings)


def _wait_for_terminating_launches(settings: Settings) -> None:
    # The engine does not wait for the end of a deletion. A Job's Workload is deleted with the Job.
    def terminating_launches() -> str:
        bodies = read_launches(settings, run_namespaces(settings))
        return ", ".join(
            f"{format_identity(identity(body))}, held by "
            f"{', '.join(body['metadata'].get('finalizers') or ['its pods'])}"
            for body in bodies
            if "deletionTimestamp" in body["metadata"]
        )

    wait_until("all terminating runs are deleted", terminating_launches, DEADLINE_SECONDS)


def _delete_unless_used(
    settings: Settings, manifest: Mapping[str, Any], usage_reason: Callable[[str, str | None], str]
) -> None:
    """Delete a retained object of this stack and state, unless it is used.

    `usage_reason` returns why it is used, from its name and the context, or an empty string.
    """
    context, object_identity, path = settings.cluster.context, identity(manifest), paths.object_path(manifest)
    metadata = read_metadata(path, context)
    permitted_states = NO_STATE_IDENTITY, owning_state(manifest["metadata"])
    if (
        metadata is None
        or not has_label_of({"metadata": metadata}, settings.stack)
        or owning_state(metadata) not in permitted_states
    ):
        return
    if reason := usage_reason(object_identity[2], context):
        pulumi.log.info(clean(f"stays: {format_identity(object_identity)}: {reason}"))
        return
    delete_and_wait(path, metadata["uid"], context, DEADLINE_SECONDS)


def _delete_definition(settings: Settings, manifest: Mapping[str, Any]) -> None:
    def remaining_instances(name: str, context: str | None) -> str:
        try:
            names = ", ".join(format_identity(identity(body)) for body in read_instances(name, context))
        except ClusterError as error:
            names = str(error)
        return names and f"objects of this kind are left: {names}"

    _delete_unless_used(settings, manifest, remaining_instances)


def _delete_namespace(settings: Settings, manifest: Mapping[str, Any]) -> None:
    def remaining_contents(name: str, context: str | None) -> str:
        bodies = [body for body in read_namespace(name, context) if "deletionTimestamp" not in body["metadata"]]
        names = ", ".join(format_identity(identity(body)) for body in objects_of_others(bodies, {name}))
        return names and f"it holds {names}"

    _delete_unless_used(settings, manifest, remaining_contents)
