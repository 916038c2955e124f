"""The hooks of a teardown (docs/decisions/0011), in three modes.

- `pulumi destroy --run-program`: the whole program runs; the hooks guard, drain and delete.
- `trainstack destroy`: the program decides again what the command has confirmed. It declares nothing, so that runs
  that were edited do not prevent the teardown; the hooks drain and delete.
- `trainstack destroy --keep-platform`: as before, but the hooks do not drain: definitions and namespaces with volumes
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

from trainstack.components.removal import delete, hold_and_drain, read_metadata, until
from trainstack.components.teardown import HOOKS, Guard, Hooks, Work, register
from trainstack.errors import RefusedError
from trainstack.guards.definitions import recorded_manifests
from trainstack.guards.deletions import owner_refusals
from trainstack.guards.states import NO_ID, OwnState, owner_of
from trainstack.lifecycle.teardown.context import has_label_of, owners
from trainstack.lifecycle.teardown.plan import decide, protected
from trainstack.lifecycle.teardown.users import holders, ownerless, queue_users, strangers
from trainstack.live import paths
from trainstack.live.client import ClusterError
from trainstack.live.marked import read_held
from trainstack.live.snapshot import LAUNCH_KINDS, read_launches, run_namespaces
from trainstack.live.teardown import plan_teardown, read_instances, read_kind, read_live_stack, read_namespace
from trainstack.objects.ownership import Identity, identity, shown
from trainstack.platform.retained import Retained
from trainstack.printable import clean
from trainstack.runs.launches import utc_now
from trainstack.runs.recorded import RecordedLaunch, StateResource, recorded_launches
from trainstack.runs.status.kinds import declared_kinds
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.model import Settings
from trainstack.stacks.deletion_guard import DeletionGuard
from trainstack.stacks.engine_state import own_state
from trainstack.stacks.exit_code import report
from trainstack.stacks.teardown_mode import Permission

DEADLINE_SECONDS = 120
"""The deadline of a hook, longer than a pod's grace period of 30 s."""
_CONCURRENCY = 8
"""The number of definitions that are deleted at the same time."""


def end(root: Path, permission: Permission, resources: Sequence[StateResource]) -> None:
    """Declare only the hooks of the `resources` in the state, after deciding again about what the user confirmed.

    The program runs under the engine's lock, so no other `up` of the stack launches a run after this. Raises
    SettingsError if the files are invalid, ClusterError, and RefusedError if the teardown is refused by now.
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
        known=state.held,
        recorded=recorded_launches(permission.stack, resources),
    )
    unconfirmed = sorted(map(shown, plan.deleted - {*permission.deleted}))
    live = read_held({who: recorded.api_version for who, recorded in state.objects.items()}, settings.cluster.context)
    refusals = [*plan.refusals, *owner_refusals(live, state, settings.stack, settings.cluster.take_over)]
    refusals += (f"{name} has been created or changed since the confirmation" for name in unconfirmed)
    if refusals:
        raise RefusedError(
            "nothing was deleted, because the stack has changed since its plan was shown:\n" + "\n".join(refusals)
        )
    deletions = DeletionGuard(settings, state.identity, stop=permission.stop, confirmed=permission.deleted)
    work = dict.fromkeys(HOOKS, _nothing) if keep_platform else _work(settings, _nothing, deletions, None)
    Guard("guard", register({**work, "deletion": deletions.check}), [])


def teardown(
    settings: Settings,
    state: OwnState,
    retained: Collection[Retained],
    kept: Collection[str] = (),
    declared: Collection[Identity] = (),
    recorded: Sequence[RecordedLaunch] = (),
) -> Hooks:
    """Return the hooks of a stack with this engine's state, which declares objects.

    `kept` are the names of the live launches that it declares; `recorded` are the launches in the engine's state. If
    the engine removes a declared `retained` object from the state, it destroys the stack; an `up` removes only objects
    that are no longer declared, and they remain in the cluster.
    """
    identities = frozenset(kept.identity for kept in retained)
    deletions = DeletionGuard(settings, state.identity, stop=settings.workloads.stop, kept=kept, declared=declared)
    guard = partial(_guard, settings, identities, state.held, recorded)
    return register(_work(settings, guard, deletions, identities))


def _work(
    settings: Settings, guard: Callable[[], None], deletions: DeletionGuard, declared: frozenset[Identity] | None
) -> Mapping[str, Work]:
    """Return the functions of the hooks. `declared`: the retained objects; None if the program declares nothing."""
    destroys = threading.Event()

    def guarded() -> None:
        guard()
        deletions.destroy()
        destroys.set()

    def only_in_a_destroy(work: Callable[[Settings, Mapping[str, Any]], None], manifest: Mapping[str, Any]) -> None:
        # `pulumi up --replace` calls the hooks of objects that it declares again.
        if declared is None or (destroys.is_set() and identity(manifest) in declared):
            work(settings, manifest)

    def definitions(inputs: Mapping[str, Any]) -> None:
        if "kind" not in inputs:
            with ThreadPoolExecutor(_CONCURRENCY) as pool:
                list(pool.map(partial(only_in_a_destroy, _definition), recorded_manifests(inputs)))
        # An `up` removes the definitions that an earlier release has stored one by one, and they stay in the cluster.
        elif declared is None or destroys.is_set():
            _definition(settings, inputs)

    def with_inputs(work: Callable[[Mapping[str, Any]], None]) -> Work:
        return lambda args: work(args.old_inputs or {})

    return {
        "guard": lambda _: guarded(),
        "deletion": deletions.check,
        "queue": with_inputs(partial(_queue, settings)),
        "controller": with_inputs(partial(_controller, settings)),
        "definition": with_inputs(definitions),
        "namespace": with_inputs(partial(only_in_a_destroy, _namespace)),
    }


def _nothing(*_: object) -> None:
    pass


def _guard(
    settings: Settings,
    retained: frozenset[Identity],
    held: frozenset[Identity],
    recorded: Sequence[RecordedLaunch],
) -> None:
    stop = settings.workloads.stop
    live = read_live_stack(settings, retained=retained, protected=protected(settings), stop=stop, recorded=recorded)
    # The engine does not delete the volumes that an earlier `up` has retained.
    left = {identity(body) for body in live.of("PersistentVolumeClaim", "PersistentVolume")} - held
    plan = decide(replace(live, retained=live.retained | left), utc_now())
    if plan.refusals:
        error = RefusedError("nothing is deleted:\n" + "\n".join(plan.refusals))
        report(error)
        raise error
    for who, reason in sorted(plan.stays.items(), key=str):
        pulumi.log.info(clean(f"stays: {shown(who)}: {reason}"))


def _queue(settings: Settings, manifest: Mapping[str, Any]) -> None:
    """Hold and drain a ClusterQueue. Raises ClusterError with users that the guard did not find."""
    context, name = settings.cluster.context, manifest["metadata"]["name"]
    if read_metadata(paths.location(manifest), context) is None:
        return
    _wait_for_terminating_launches(settings)
    version = manifest["apiVersion"]

    def holding() -> list[Mapping[str, Any]]:
        return holders(name, read_kind(version, "Workload", context))

    def held_by() -> str:
        return ", ".join(shown(identity(workload)) for workload in holding())

    local_queues, held = read_kind(version, "LocalQueue", context), holding()
    # The garbage collector discovers new kinds every 30 s: Workloads of a new Kueue may outlive their Jobs.
    kinds = sorted({*LAUNCH_KINDS, *declared_kinds(settings)})
    orphans = ownerless(held, [kind for _, kind in kinds], _owner_uids(held, kinds, context))
    workloads = [workload for workload in held if workload not in orphans]
    # The engine has deleted the stack's launches before, unless it replaces the queue.
    if users := queue_users(name, settings.stack, local_queues, workloads):
        raise ClusterError(
            f"ClusterQueue {name} is not deleted, because it is used: {', '.join(users)}; wait for them, or ask their "
            "owners to end, move or delete them"
        )
    hold_and_drain(manifest, context)
    until(f"ClusterQueue {name} holds no quota", held_by, DEADLINE_SECONDS)


def _owner_uids(
    workloads: Sequence[Mapping[str, Any]], kinds: Sequence[tuple[str, str]], context: str | None
) -> frozenset[str]:
    """Return the UIDs of all live objects that own Workloads, as far as they are of `kinds`."""
    owning = {owner["kind"] for body in workloads for owner in owners(body)}
    owner_kinds = [(version, kind) for version, kind in kinds if kind in owning]
    return frozenset(str(body["metadata"]["uid"]) for kind in owner_kinds for body in read_kind(*kind, context))


def _controller(settings: Settings, manifest: Mapping[str, Any]) -> None:
    # Only this controller removes the finalizers of its objects.
    if read_metadata(paths.location(manifest), settings.cluster.context) is not None:
        _wait_for_terminating_launches(settings)


def _wait_for_terminating_launches(settings: Settings) -> None:
    # The engine does not wait. A Job's Workload is deleted with the Job.
    def terminating() -> str:
        bodies = read_launches(settings, run_namespaces(settings))
        return ", ".join(
            f"{shown(identity(body))}, held by {', '.join(body['metadata'].get('finalizers') or ['its pods'])}"
            for body in bodies
            if "deletionTimestamp" in body["metadata"]
        )

    until("all terminating runs are deleted", terminating, DEADLINE_SECONDS)


def _delete_unless_used(
    settings: Settings, manifest: Mapping[str, Any], users: Callable[[str, str | None], str]
) -> None:
    """Delete a retained object of this stack and state, unless `users`, by its name and the context, finds a reason."""
    context, who, path = settings.cluster.context, identity(manifest), paths.location(manifest)
    metadata = read_metadata(path, context)
    states = NO_ID, owner_of(manifest["metadata"])
    if metadata is None or not has_label_of({"metadata": metadata}, settings.stack) or owner_of(metadata) not in states:
        return
    if reason := users(who[2], context):
        pulumi.log.info(clean(f"stays: {shown(who)}: {reason}"))
        return
    delete(path, metadata["uid"], context, DEADLINE_SECONDS)


def _definition(settings: Settings, manifest: Mapping[str, Any]) -> None:
    def instances(name: str, context: str | None) -> str:
        try:
            found = ", ".join(shown(identity(body)) for body in read_instances(name, context))
        except ClusterError as error:
            found = str(error)
        return found and f"objects of this kind are left: {found}"

    _delete_unless_used(settings, manifest, instances)


def _namespace(settings: Settings, manifest: Mapping[str, Any]) -> None:
    def contents(name: str, context: str | None) -> str:
        bodies = [body for body in read_namespace(name, context) if "deletionTimestamp" not in body["metadata"]]
        found = ", ".join(shown(identity(body)) for body in strangers(bodies, {name}))
        return found and f"it holds {found}"

    _delete_unless_used(settings, manifest, contents)
