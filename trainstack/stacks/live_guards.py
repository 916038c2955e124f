"""The refusals and notes about live objects, which are read before the first write."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from trainstack.guards import field_managers as managers
from trainstack.guards import immutable_edits as immutable
from trainstack.guards import volumes
from trainstack.guards.definition_releases import KIND as DEFINITION
from trainstack.guards.deletions import owner_refusals
from trainstack.guards.other_states import (
    OwnState,
    TakeoverDecision,
    decide_takeover,
    objects_of_other_states,
    stack_rename_refusal,
)
from trainstack.lifecycle.evictions import (
    draining_queues,
    eviction_refusals,
    find_evicted_runs,
    runs_on_removed_workers,
    worker_refusals,
)
from trainstack.lifecycle.teardown.live_stack import LiveStack
from trainstack.lifecycle.teardown.users import foreign_users, may_be_used
from trainstack.live import paths
from trainstack.live.client import read
from trainstack.live.labeled_objects import read_state_metadata
from trainstack.live.rights import uncreatable_namespace_errors
from trainstack.live.snapshot import exists, read_metadata
from trainstack.live.teardown import read_kinds, read_stack_launches, read_users
from trainstack.live.volumes import read_mounts, read_volumes
from trainstack.objects.labels import DRAINED
from trainstack.objects.ownership import Identity, adoption_remedy, format_identity, identity
from trainstack.platform.retained import RetainedObject
from trainstack.runs.recorded_launches import RecordedLaunch
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.values.paths import nearest_place
from trainstack.stack_objects.immutable_objects import objects_with_immutable_fields
from trainstack.stack_objects.stack_objects import StackObjects


def missing_namespace_refusals(settings: Settings, manifests: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return refusals about declared namespaces that do not exist and that the user may not create.

    A deployer has roles only in its namespaces, so it cannot read objects in a missing one. Raises ClusterError.
    """
    namespaces = [manifest for manifest in manifests if manifest["kind"] == "Namespace"]
    if not namespaces:
        return ()
    context = settings.cluster.context
    missing_namespaces = {*map(identity, namespaces)} - read_metadata(namespaces, context).keys()
    return uncreatable_namespace_errors((name for *_, name in missing_namespaces), settings.stack, context)


def check_data_loss(
    settings: Settings, state: OwnState, places: Mapping[str, Place]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return refusals and notes about the volumes that the change would delete or replace. Raises ClusterError."""
    retention_by_claim = {
        key: state_object.is_retained
        for key, state_object in state.objects.items()
        if key[0] == "PersistentVolumeClaim"
    }
    claims, persistent_volumes = read_volumes(settings, retention_by_claim)
    retention_by_name = {
        (str(namespace), name): is_retained for (_, namespace, name), is_retained in retention_by_claim.items()
    }
    dangers = volumes.find_dangers(
        settings, claims, persistent_volumes, lambda path: nearest_place(places, path), retention_by_name
    )
    discard = settings.storage.discard
    discard_namespaces = {
        danger.name.partition("/")[0] for danger in dangers if danger.name in discard and not danger.remedy
    }
    return volumes.decide_discards(dangers, discard, read_mounts(discard_namespaces, settings.cluster.context))


def check_foreign_fields(
    settings: Settings,
    manifests: Sequence[Mapping[str, Any]],
    live_metadata: Mapping[Identity, Mapping[str, Any]],
    adopted_objects: Collection[Identity],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return refusals and notes about values that other field managers have set in this stack's objects.

    `live_metadata` is the metadata of the live objects; values in `adopted_objects` are overwritten. Raises
    ClusterError.
    """
    complete_manifests = [_with_secret_keys(settings, manifest) for manifest in manifests]
    manifests_and_fields = [
        (manifest, managers.foreign_fields(manifest, live_metadata[identity(manifest)]))
        for manifest in complete_manifests
    ]
    fields_by_path = {
        paths.object_path(manifest): (manifest, fields) for manifest, fields in manifests_and_fields if fields
    }
    refusals, notes = [], []
    for path, response in read(list(fields_by_path), settings.cluster.context).items() if fields_by_path else ():
        if exists(path, response):
            manifest, fields = fields_by_path[path]
            for difference in managers.describe_differences(manifest, response.body, fields):
                if identity(manifest) in adopted_objects:
                    notes.append(f"{difference}, which wins (adopt: true)")
                elif manifest["kind"] == "Secret":
                    notes.append(f"{difference}, which wins if they differ (only the engine can decrypt it)")
                else:
                    refusals.append(
                        f"{difference}; declare that value in the settings, restore the declared value in the cluster, "
                        f"or {adoption_remedy(manifest)} to overwrite it"
                    )
    return tuple(sorted(refusals)), tuple(sorted(notes))


def immutable_edit_refusals(
    stack_objects: StackObjects, state: OwnState, editable_objects: Collection[Identity], places: Mapping[str, Place]
) -> tuple[str, ...]:
    """Return refusals of edits of immutable fields.

    `editable_objects`: the live objects that this change may edit. `check_data_loss` covers claims and volumes.
    Raises ClusterError.
    """
    manifests_by_location = {
        paths.object_path(manifest): (settings_path, manifest)
        for settings_path, manifest in objects_with_immutable_fields(stack_objects)
        if (key := identity(manifest)) in editable_objects
        and immutable.may_be_refused(key[0], in_state=key in state.objects)
    }
    refusals: list[str] = []
    for location, response in (
        read(list(manifests_by_location), stack_objects.settings.cluster.context).items()
        if manifests_by_location
        else ()
    ):
        settings_path, manifest = manifests_by_location[location]
        if exists(location, response):
            in_state = identity(manifest) in state.objects
            refusals += immutable.refusals(settings_path, manifest, response.body, places, in_state=in_state)
    return tuple(sorted(refusals))


def _with_secret_keys(settings: Settings, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the declared keys to a Secret, whose values only the engine can decrypt."""
    if manifest["kind"] != "Secret":
        return manifest
    secret_key = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    secrets = [secret for secret in settings.secrets.secrets if (secret.namespace, secret.name) == secret_key]
    return {**manifest, "data": {key: "" for secret in secrets for key in secret.values}} if secrets else manifest


def renamed_stack_refusal(settings: Settings, state: OwnState) -> str:
    """Return the refusal of a change of a stack that was renamed, or an empty string. Raises ClusterError."""
    if state.stack in ("", settings.stack):
        return ""
    versions = {key: state_object.api_version for key, state_object in state.objects.items()}
    return stack_rename_refusal(read_state_metadata(versions, settings.cluster.context), state, settings.stack)


def check_other_states(
    settings: Settings,
    state: OwnState,
    live_metadata: Mapping[Identity, Mapping[str, Any]],
    adopted_objects: Collection[Identity],
    retained_objects: Iterable[RetainedObject],
) -> TakeoverDecision:
    """Decide about live objects that belong to another state: declared ones, those of runs, and those to be deleted.

    `live_metadata` is the metadata of the live objects that are declared or in the state, and of all objects of runs;
    `retained_objects` are the objects that `destroy` leaves in the cluster.
    """
    foreign_objects = objects_of_other_states(live_metadata, state, settings.stack)
    return decide_takeover(
        foreign_objects,
        state,
        settings.stack,
        take_over=settings.cluster.take_over,
        adopted_objects=adopted_objects,
        retained_objects={retained_object.identity for retained_object in retained_objects},
    )


def read_removed_objects(
    state: OwnState, declared_objects: Collection[Identity], context: str | None
) -> dict[Identity, dict[str, Any]]:
    """Return the live metadata of the state's objects that are no longer declared, without those of launches.

    Raises ClusterError.
    """
    versions = {
        key: state_object.api_version
        for key, state_object in state.objects.items()
        if key not in declared_objects and not state_object.belongs_to_launch
    }
    return read_state_metadata(versions, context) if versions else {}


def deletion_refusals(
    settings: Settings,
    state: OwnState,
    removed_metadata: Mapping[Identity, Mapping[str, Any]],
    declared_objects: Collection[Identity],
    active_launches: Collection[Identity],
    recorded_launches: Sequence[RecordedLaunch],
) -> tuple[str, ...]:
    """Return refusals to delete the objects that are no longer declared: of other owners, or in use.

    Args:
        settings: the environment.
        state: the engine's state.
        removed_metadata: the metadata that `read_removed_objects` returns.
        declared_objects: the objects that are declared.
        active_launches: the active launches that the change does not delete.
        recorded_launches: the launches in the engine's state.

    Raises ClusterError.

    """
    deleted_objects = {
        key: metadata
        for key, metadata in removed_metadata.items()
        if "deletionTimestamp" not in metadata and not state.objects[key].is_retained
    }
    refusals = owner_refusals(removed_metadata, state, settings.stack, settings.cluster.take_over)
    # An operator is deleted, and its definitions remain.
    operator_definitions = {
        key for key in state.object_identities if key[0] == DEFINITION and key not in declared_objects
    }
    if operator_definitions or any(may_be_used(key[0], metadata) for key, metadata in deleted_objects.items()):
        used_objects = {
            key for key, metadata in deleted_objects.items() if may_be_used(key[0], metadata)
        } | operator_definitions
        live = read_users(settings, used_objects, recorded_launches)
        refusals += user_refusals(live, frozenset(deleted_objects) | operator_definitions, active_launches)
    return tuple(refusals)


def user_refusals(
    live: LiveStack, deleted_objects: frozenset[Identity], active_launches: Collection[Identity]
) -> list[str]:
    """Return a refusal for each object that uses a deleted one; the arguments are those of `foreign_users`."""
    return [
        f"{user}, which this change would delete. Undo the edit, wait until the user has ended, or ask its owner to "
        "move it"
        for user in foreign_users(live, deleted_objects, active_launches)
    ]


def check_evictions(
    settings: Settings, recorded_launches: Sequence[RecordedLaunch]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return refusals to evict runs, and the names of the runs that are evicted, as `workloads.stop` has them.

    Raises ClusterError.
    """
    queues_to_drain = draining_queues(settings)
    if not queues_to_drain and not settings.queues.multi_kueue_configs:
        return (), frozenset()
    kinds = ("AdmissionCheck", "ClusterQueue", "LocalQueue", "MultiKueueConfig", "Workload")
    live = LiveStack(
        stack=settings.stack,
        labeled_objects=(),
        launches=read_stack_launches(settings, recorded_launches),
        lists=read_kinds(settings, dict.fromkeys(kinds, (None,)), recorded_launches),
    )
    refusals = (*eviction_refusals(live, queues_to_drain, settings.workloads.stop), *worker_refusals(live, settings))
    evicted_objects = (*find_evicted_runs(live, queues_to_drain), *runs_on_removed_workers(live, settings))
    return refusals, frozenset(name for *_, name in evicted_objects)


def drained_queue_notes(live_metadata: Mapping[Identity, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a note on each declared queue that a teardown has stopped, by the metadata of live objects.

    Without a refresh, the engine does not restore the queue.
    """
    return tuple(
        f"{format_identity(queue)} admits no run: a teardown that did not end has stopped it; `pulumi up --refresh` "
        "(or `trainstack up`) applies its declared stopPolicy again"
        for queue in sorted(live_metadata, key=format_identity)
        if DRAINED in (live_metadata[queue].get("annotations") or {})
    )
