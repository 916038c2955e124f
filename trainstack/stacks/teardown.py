"""The hooks of a teardown (docs/decisions/0011), in three modes.

- `pulumi destroy --run-program`: the whole program runs; the hooks guard, drain and delete.
- `trainstack destroy`: the command is the guard. The program declares nothing, so that errors in the files do not
  prevent the teardown; the hooks drain and delete.
- `trainstack destroy --keep-platform`: the program declares nothing, and the hooks do nothing: definitions and
  namespaces with volumes remain.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pulumi

from trainstack.components.removal import delete, hold_and_drain, read_metadata, until
from trainstack.components.teardown import HOOKS, Guard, Hooks, Work, register
from trainstack.errors import RefusedError
from trainstack.guards.definitions import recorded_manifests
from trainstack.guards.states import NO_ID, owner_of
from trainstack.lifecycle.teardown.context import has_label_of, owned, owners
from trainstack.lifecycle.teardown.plan import decide, protected
from trainstack.lifecycle.teardown.users import holders, ownerless, queue_users, strangers
from trainstack.live import paths
from trainstack.live.client import ClusterError
from trainstack.live.snapshot import LAUNCH_KINDS, read_launches, run_namespaces
from trainstack.live.teardown import read_instances, read_kind, read_live_stack, read_namespace
from trainstack.objects.ownership import Identity, identity, shown
from trainstack.platform.retained import Retained
from trainstack.runs.launches import utc_now
from trainstack.runs.recorded import RecordedLaunch
from trainstack.runs.status.kinds import declared_kinds
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.model import Settings
from trainstack.stacks.teardown_mode import Mode

DEADLINE_SECONDS = 120
"""The deadline of a hook, longer than a pod's grace period of 30 s."""
_CONCURRENCY = 8
"""The number of definitions that are deleted at the same time."""


def end(root: Path, stack: str, mode: Mode) -> None:
    """Declare only the hooks of the resources in the state. Raises SettingsError if the files are invalid."""
    if mode == "keep-platform":
        hooks = register(dict.fromkeys(HOOKS, _nothing))
    else:
        hooks = register(_work(load_with_places(root, stack).settings, _nothing, None))
    Guard("guard", hooks, [])


def teardown(settings: Settings, retained: Collection[Retained], recorded: Sequence[RecordedLaunch] = ()) -> Hooks:
    """Return the hooks of a declared stack; `recorded` are the launches in the engine's state.

    If the engine removes a declared `retained` object from the state, it destroys the stack; an `up` removes only
    objects that are no longer declared, and they remain in the cluster.
    """
    identities = frozenset(kept.identity for kept in retained)
    return register(_work(settings, partial(_guard, settings, identities, recorded), identities))


def _work(settings: Settings, guard: Work, declared: frozenset[Identity] | None) -> Mapping[str, Work]:
    """Return the functions of the hooks. `declared`: the retained objects; None if the program declares nothing."""
    destroys = threading.Event()

    def guarded(manifest: Mapping[str, Any]) -> None:
        guard(manifest)
        destroys.set()

    def only_in_a_destroy(work: Callable[[Settings, Mapping[str, Any]], None], manifest: Mapping[str, Any]) -> None:
        if declared is None or identity(manifest) in declared:
            work(settings, manifest)

    def definitions(inputs: Mapping[str, Any]) -> None:
        if "kind" not in inputs:
            with ThreadPoolExecutor(_CONCURRENCY) as pool:
                list(pool.map(partial(only_in_a_destroy, _definition), recorded_manifests(inputs)))
        # An `up` removes the definitions that an earlier release has stored one by one, and they stay in the cluster.
        elif declared is None or destroys.is_set():
            _definition(settings, inputs)

    return {
        "guard": guarded,
        "queue": partial(_queue, settings),
        "controller": partial(_controller, settings),
        "definition": definitions,
        "namespace": partial(only_in_a_destroy, _namespace),
    }


def _nothing(_: Mapping[str, Any]) -> None:
    pass


def _guard(
    settings: Settings, retained: frozenset[Identity], recorded: Sequence[RecordedLaunch], _: Mapping[str, Any]
) -> None:
    stop = settings.workloads.stop
    live = read_live_stack(settings, retained=retained, protected=protected(settings), stop=stop, recorded=recorded)
    plan = decide(live, utc_now())
    if plan.refusals:
        raise RefusedError("nothing is deleted:\n" + "\n".join(plan.refusals))
    for who, reason in sorted(plan.stays.items(), key=str):
        pulumi.log.info(f"stays: {shown(who)}: {reason}")


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
    own = owned(read_launches(settings, run_namespaces(settings)), held)
    # The garbage collector discovers new kinds every 30 s: Workloads of a new Kueue may outlive their Jobs.
    kinds = sorted({*LAUNCH_KINDS, *declared_kinds(settings)})
    orphans = ownerless(held, [kind for _, kind in kinds], _owner_uids(held, kinds, context))
    workloads = [workload for workload in held if workload not in orphans]
    if users := queue_users(name, settings.stack, local_queues, workloads, own):
        raise ClusterError(
            f"ClusterQueue {name} is not deleted, because others use it: {', '.join(users)}; ask their owners to end, "
            "move or delete them"
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
        pulumi.log.info(f"stays: {shown(who)}: {reason}")
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
