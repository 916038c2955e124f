"""How a stack ends: what the hooks of its resources do, and in which of three ways.

- `pulumi destroy --run-program`: the whole program runs, and the hooks guard, drain and clear as docs/decisions/0011
  says.
- `trainstack teardown`: the command has looked already; the program declares nothing, so that no fault of the files
  stands in the way, and the hooks drain and clear.
- `trainstack destroy`: the program declares nothing, and the hooks do nothing: definitions and namespaces stay.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pulumi

from trainstack.components.removal import delete, hold_and_drain, read_metadata, until
from trainstack.components.teardown import Guard, Teardown, register
from trainstack.guards.states import NO_ID, owner_of
from trainstack.lifecycle.teardown.context import is_ours, owned, owners
from trainstack.lifecycle.teardown.plan import decide, protected
from trainstack.lifecycle.teardown.users import holders, ownerless, queue_users, strangers
from trainstack.live import paths
from trainstack.live.client import ClusterError
from trainstack.live.snapshot import LAUNCH_KINDS, read_launches, run_namespaces
from trainstack.live.teardown import read_instances, read_kind, read_namespace, read_scene
from trainstack.objects.ownership import Identity, identity, shown
from trainstack.platform.retained import Retained
from trainstack.runs.launches import utc_now
from trainstack.runs.recorded import RecordedLaunch
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.model import Settings
from trainstack.stacks.teardown_mode import Way

DEADLINE_SECONDS = 120
"""For what a hook waits: longer than the 30 s that a pod has to end."""


def end(root: Path, stack: str, way: Way) -> None:
    """Declare nothing but the hooks that the resources in the state name.

    Raises SettingsError where the files do not say which cluster it is.
    """
    if way == "destroy":
        hooks = register(guard=_nothing, queue=_none, controller=_none, definition=_none, namespace=_none)
    else:
        hooks = _hooks(load_with_places(root, stack).settings, _nothing, None)
    Guard("guard", hooks, [])


def teardown(settings: Settings, retained: Collection[Retained], recorded: Sequence[RecordedLaunch] = ()) -> Teardown:
    """The hooks of a stack that is declared.

    Args:
        settings: the environment.
        retained: what the engine only forgets. Where it is about to forget what is declared, it destroys the stack; an
            `up` forgets what is declared no more, and leaves that in the cluster.
        recorded: the launches in the engine's state.

    """
    forgotten = frozenset((each.kind, each.namespace, each.name) for each in retained)
    return _hooks(settings, partial(_guard, settings, forgotten, recorded), forgotten)


def _hooks(settings: Settings, guard: Callable[[], None], declared: frozenset[Identity] | None) -> Teardown:
    def only_at_the_end(work: Callable[[Settings, Mapping[str, Any]], None], manifest: Mapping[str, Any]) -> None:
        if declared is None or identity(manifest) in declared:
            work(settings, manifest)

    return register(
        guard=guard,
        queue=partial(_queue, settings),
        controller=partial(_controller, settings),
        definition=partial(only_at_the_end, _definition),
        namespace=partial(only_at_the_end, _namespace),
    )


def _nothing() -> None:
    pass


def _none(_: Mapping[str, Any]) -> None:
    pass


def _guard(settings: Settings, retained: frozenset[Identity], recorded: Sequence[RecordedLaunch]) -> None:
    stop = settings.workloads.stop
    scene = read_scene(settings, retained=retained, protected=protected(settings), stop=stop, recorded=recorded)
    plan = decide(scene, utc_now())
    if plan.refusals:
        raise ClusterError("nothing is deleted:\n" + "\n".join(plan.refusals))
    for who, why in sorted(plan.stays.items(), key=str):
        pulumi.log.info(f"stays: {shown(who)}: {why}")


def _queue(settings: Settings, manifest: Mapping[str, Any]) -> None:
    """Hold and drain a ClusterQueue. Those who came after the guard had looked are named, and keep it."""
    context, name = settings.cluster.context, manifest["metadata"]["name"]
    metadata = read_metadata(paths.location(manifest), context)
    if metadata is None:
        return
    _departed(settings)
    version = manifest["apiVersion"]

    def holding() -> list[Mapping[str, Any]]:
        return holders(name, read_kind(version, "Workload", context))

    def held_by() -> str:
        return ", ".join(shown(identity(each)) for each in holding())

    local_queues, held = read_kind(version, "LocalQueue", context), holding()
    mine = owned(read_launches(settings.stack, run_namespaces(settings), context), held)
    # The garbage collector learns of new kinds every 30 s: of a Kueue that has just come Workloads outlive their Jobs.
    left = ownerless(held, [kind for _, kind in LAUNCH_KINDS], _living(held, context))
    users = queue_users(name, settings.stack, local_queues, [each for each in held if each not in left], mine)
    if users:
        raise ClusterError(
            f"ClusterQueue {name} is not deleted, because others use it: {', '.join(users)}; whose they are has to "
            "end, move or delete them first"
        )
    hold_and_drain(manifest, context)
    until(f"ClusterQueue {name} holds no quota for anybody", held_by, DEADLINE_SECONDS)


def _living(workloads: Sequence[Mapping[str, Any]], context: str | None) -> frozenset[str]:
    """The uids of all objects of the kinds that own these Workloads, as far as runs are launched as such."""
    named = {each["kind"] for body in workloads for each in owners(body)}
    kinds = [each for each in LAUNCH_KINDS if each[1] in named]
    return frozenset(str(body["metadata"]["uid"]) for each in kinds for body in read_kind(*each, context))


def _controller(settings: Settings, manifest: Mapping[str, Any]) -> None:
    """Wait for what only this controller can let go."""
    if read_metadata(paths.location(manifest), settings.cluster.context) is not None:
        _departed(settings)


def _departed(settings: Settings) -> None:
    """Wait for the launches that are being deleted: the engine does not, and with a Job goes its Workload."""

    def going() -> str:
        bodies = read_launches(settings.stack, run_namespaces(settings), settings.cluster.context)
        left = [body for body in bodies if "deletionTimestamp" in body["metadata"]]
        return ", ".join(
            f"{shown(identity(body))}, held by {', '.join(body['metadata'].get('finalizers') or ['its pods'])}"
            for body in left
        )

    until("the runs that are deleted are gone", going, DEADLINE_SECONDS)


def _still_ours(metadata: Mapping[str, Any], manifest: Mapping[str, Any], stack: str) -> bool:
    """Whether a live object belongs to this stack, and to the state that is about to forget it."""
    return is_ours({"metadata": metadata}, stack) and owner_of(metadata) in (NO_ID, owner_of(manifest["metadata"]))


def _definition(settings: Settings, manifest: Mapping[str, Any]) -> None:
    """Delete a definition that is ours, where nobody has an object of its kind any more."""
    context, name = settings.cluster.context, manifest["metadata"]["name"]
    path = paths.location(manifest)
    metadata = read_metadata(path, context)
    if metadata is None or not _still_ours(metadata, manifest, settings.stack):
        return
    try:
        others = [shown(identity(each)) for each in read_instances(name, context)]
    except ClusterError as error:
        others = [str(error)]
    if others:
        pulumi.log.info(f"stays: CustomResourceDefinition {name}: objects of this kind are left: {', '.join(others)}")
        return
    delete(path, metadata["uid"], context, DEADLINE_SECONDS)


def _namespace(settings: Settings, manifest: Mapping[str, Any]) -> None:
    """Delete a namespace that is ours, where nobody has anything in it any more."""
    context, name = settings.cluster.context, manifest["metadata"]["name"]
    path = paths.location(manifest)
    metadata = read_metadata(path, context)
    if metadata is None or not _still_ours(metadata, manifest, settings.stack):
        return
    left = [each for each in read_namespace(name, context) if "deletionTimestamp" not in each["metadata"]]
    there = [shown(identity(each)) for each in strangers(left, {name})]
    if there:
        pulumi.log.info(f"stays: Namespace {name}: it holds {', '.join(there)}")
        return
    delete(path, metadata["uid"], context, DEADLINE_SECONDS)
