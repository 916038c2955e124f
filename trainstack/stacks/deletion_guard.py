"""The check of each deletion of an object, immediately before the engine performs it.

The program refuses predictable faults before the first write (stacks/live_guards.py). Between that and a deletion,
others may change the object, and options of the engine, such as `--replace`, delete objects that the program keeps.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import pulumi

from trainstack.errors import RefusedError
from trainstack.guards.deletions import owner_refusal
from trainstack.lifecycle.teardown.users import may_be_used
from trainstack.live import paths
from trainstack.live.client import SharedClients, connect, get
from trainstack.live.snapshot import exists
from trainstack.live.teardown import read_users
from trainstack.objects.labels import LAUNCH, LEDGER, RUN, SWEEP
from trainstack.objects.ownership import Identity, format_identity
from trainstack.runs.launches import describe_state, live_launch, utc_now, wait_or_stop
from trainstack.settings.model import Settings
from trainstack.stacks.live_guards import user_refusals

Body = Mapping[str, Any]
_CLAIM, _COMPANION, _NAMESPACE = "PersistentVolumeClaim", "TrainingRuntime", "Namespace"


class DeletionGuard:
    """The refusal of deletions: objects of another owner, active runs, objects in use, and volumes with data.

    A hook of the engine's state calls it, only for objects that the engine does not retain.
    """

    def __init__(
        self,
        settings: Settings,
        state: str,
        *,
        stop: Collection[str],
        declared_launches: Collection[str] = (),
        declared_objects: Collection[Identity] = (),
        confirmed_objects: Collection[Identity] | None = None,
    ) -> None:
        """Set what may be deleted.

        Args:
            settings: the environment.
            state: the identity of the engine's state.
            stop: ids of runs and names of sweeps that may be stopped.
            declared_launches: in an `up`, the names of the live launches that it declares.
            declared_objects: in an `up`, the objects that it declares, which only a replacement deletes.
            confirmed_objects: in a command that deletes the stack, the objects whose deletion the user confirmed.

        """
        self._settings, self._state = settings, state
        self._stop = frozenset(stop)
        self._declared_launches = frozenset(declared_launches)
        self._declared_objects = frozenset(declared_objects)
        self._confirmed_objects = None if confirmed_objects is None else frozenset(confirmed_objects)
        self._is_destroy = confirmed_objects is not None

    def expect_destroy(self) -> None:
        """Permit the deletion of the whole stack, whose users and volumes have been checked."""
        self._is_destroy = True

    def check(self, args: pulumi.ResourceHookArgs) -> None:
        """Raise RefusedError if the object of a resource may not be deleted, and ClusterError if it cannot be read."""
        inputs = args.old_inputs or {}
        kind, declared_metadata = str(inputs.get("kind")), inputs.get("metadata") or {}
        namespace, _, name = args.id.rpartition("/")
        identity: Identity = (kind, namespace or None, name)
        body = self._read(
            str(inputs["apiVersion"]),
            identity,
            full_object=kind == _CLAIM or LAUNCH in (declared_metadata.get("labels") or {}),
        )
        if body is None or "deletionTimestamp" in body["metadata"]:
            return
        ownership_refusal = owner_refusal(
            identity,
            body["metadata"],
            urn=args.urn,
            stack=self._settings.stack,
            state_identity=self._state,
            take_over=self._settings.cluster.take_over,
        )
        # A launch that has lost other labels than its owner's is still a launch.
        labels = {**(body["metadata"].get("labels") or {}), **(declared_metadata.get("labels") or {})}
        if LAUNCH in labels:
            # A refresh drops a removed label from the state, too.
            labels.setdefault(RUN, labels[LAUNCH].rpartition("-")[0])
        labeled_body = {**body, "metadata": {**body["metadata"], "labels": labels}}
        if refusal := ownership_refusal or self._deletion_refusal(identity, labeled_body):
            raise RefusedError(refusal)

    def _deletion_refusal(self, identity: Identity, body: Body) -> str:
        """Return why an object of this stack may not be deleted, or an empty string."""
        # In a destroy with a confirmation, the user has seen the list of deleted objects.
        if self._confirmed_objects is not None and identity not in self._confirmed_objects:
            return (
                f"{format_identity(identity)} is not among the objects whose deletion was confirmed: the stack has "
                "changed since. Run the command again to see the current ones"
            )
        if LAUNCH in body["metadata"]["labels"]:
            return self._launch_refusal(identity, body)
        if self._is_destroy:
            # Others may have created objects in the namespace since the plan.
            return "\n".join(self._user_refusals(identity)) if identity[0] == _NAMESPACE else ""
        if identity in self._declared_objects and (identity[0] == _NAMESPACE or LEDGER in body["metadata"]["labels"]):
            return (
                f"{format_identity(identity)} is declared, and its replacement would delete "
                f"{'all objects in it' if identity[0] == _NAMESPACE else 'the record of a launch'}: leave out "
                "`--replace` and the like, or delete the whole stack with `trainstack destroy`"
            )
        if (
            identity[0] == _CLAIM
            and body["spec"].get("volumeName")
            and f"{identity[1]}/{identity[2]}" not in self._discardable_volumes
        ):
            return (
                f"{format_identity(identity)} would be deleted with its data (volume {body['spec']['volumeName']}); "
                "leave out `--replace` and the like, or allow the loss: trainstack:storage: discard: "
                f"[{identity[1]}/{identity[2]}]"
            )
        return "\n".join(self._user_refusals(identity)) if may_be_used(identity[0], body["metadata"]) else ""

    def _launch_refusal(self, identity: Identity, body: Body) -> str:
        """Return why an object of a launch may not be deleted, or an empty string."""
        labels = body["metadata"]["labels"]
        if labels[LAUNCH] in self._declared_launches and not self._is_destroy:
            return (
                f"{format_identity(identity)} belongs to a launch of run {labels.get(RUN)} that this change keeps. Its "
                "replacement would launch the run a second time: leave out `--replace` and the like, and raise the "
                "run's `attempt` to train again. `trainstack destroy` deletes the whole stack"
            )
        if identity[0] == _COMPANION or {labels.get(RUN), labels.get(SWEEP)} & self._stop:
            return ""
        launch = live_launch(body)
        if not launch.is_active:
            return ""
        return f"{describe_state(launch, utc_now())}, and it was not named to be stopped; {wait_or_stop(launch)}"

    @cached_property
    def _clients(self) -> SharedClients:
        return SharedClients()

    @property
    def _discardable_volumes(self) -> Collection[str]:
        return self._settings.storage.discard

    def _user_refusals(self, identity: Identity) -> list[str]:
        live = read_users(self._settings, {identity})
        # The change deletes the other launches, which may be terminating.
        declared_launches = [
            launch for launch in live.launches if launch.is_active and launch.launch in self._declared_launches
        ]
        active_launches = (
            () if self._is_destroy else {(launch.kind, launch.namespace, launch.name) for launch in declared_launches}
        )
        return user_refusals(live, frozenset({identity}), active_launches)

    def _read(self, api_version: str, identity: Identity, *, full_object: bool) -> Body | None:
        kind, namespace, name = identity
        manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}}
        path = paths.object_path(manifest)

        async def read_live() -> Body | None:
            response = await get(await connect(self._settings.cluster.context), path, metadata_only=not full_object)
            return {"kind": kind, "apiVersion": api_version, **response.body} if exists(path, response) else None

        return self._clients.run(read_live())
