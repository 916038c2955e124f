"""The guards' reads of the cluster: refusals and notes about live objects, before the first write."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from trainstack.guards import field_managers as managers
from trainstack.guards import volumes
from trainstack.guards.states import OwnState, Verdict, judge, of_others
from trainstack.live import paths
from trainstack.live.client import read
from trainstack.live.marked import read_held
from trainstack.live.rights import uncreatable
from trainstack.live.snapshot import exists, read_metadata
from trainstack.live.volumes import read_mounts, read_volumes
from trainstack.objects.ownership import Identity, identity
from trainstack.platform.retained import Retained
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.values.paths import nearest_place


def namespaces_to_prepare(settings: Settings, manifests: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return refusals about declared namespaces that do not exist and that the user may not create.

    A deployer has roles only in its namespaces, so it can read nothing in a missing one. Raises ClusterError.
    """
    declared = [manifest for manifest in manifests if manifest["kind"] == "Namespace"]
    if not declared:
        return ()
    context = settings.cluster.context
    missing = {*map(identity, declared)} - read_metadata(declared, context).keys()
    return uncreatable((name for *_, name in missing), settings.stack, context)


def volumes_with_data(settings: Settings, places: Mapping[str, Place]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return refusals and notes about the volumes that the change would delete or replace. Raises ClusterError."""
    found = volumes.dangers(settings, *read_volumes(settings), lambda path: nearest_place(places, path))
    discard = settings.storage.discard
    discarded = {danger.name.partition("/")[0] for danger in found if danger.name in discard and not danger.remedy}
    return volumes.judge(found, discard, read_mounts(discarded, settings.cluster.context))


def fields_of_others(
    settings: Settings,
    manifests: Sequence[Mapping[str, Any]],
    live: Mapping[Identity, Mapping[str, Any]],
    adopted: Collection[Identity],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return refusals and notes about values that other field managers have set in this stack's objects.

    `live` is the metadata of the live objects; values in `adopted` objects are overwritten. Raises ClusterError.
    """
    whole = [_with_keys(settings, manifest) for manifest in manifests]
    contested = [(manifest, managers.held(manifest, live[identity(manifest)])) for manifest in whole]
    fields_of = {paths.location(manifest): (manifest, fields) for manifest, fields in contested if fields}
    refusals, notes = [], []
    for path, response in read(list(fields_of), settings.cluster.context).items() if fields_of else ():
        if exists(path, response):
            manifest, fields = fields_of[path]
            for difference in managers.overwritten(manifest, response.body, fields):
                if identity(manifest) in adopted:
                    notes.append(f"{difference}, which wins (adopt: true)")
                elif manifest["kind"] == "Secret":
                    notes.append(f"{difference}, which wins if they differ (only the engine can decrypt it)")
                else:
                    refusals.append(
                        f"{difference}; declare that value in the settings, restore the declared value in the cluster, "
                        "or set `adopt: true` on the object, if the settings have that key, to overwrite it"
                    )
    return tuple(sorted(refusals)), tuple(sorted(notes))


def _with_keys(settings: Settings, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the declared keys to a Secret, whose values only the engine can decrypt."""
    if manifest["kind"] != "Secret":
        return manifest
    name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    declared = [secret for secret in settings.secrets.secrets if (secret.namespace, secret.name) == name]
    return {**manifest, "data": {key: "" for secret in declared for key in secret.values}} if declared else manifest


def objects_of_other_states(
    settings: Settings,
    state: OwnState,
    declared: Iterable[Mapping[str, Any]],
    live: Mapping[Identity, Mapping[str, Any]],
    adopted: Collection[Identity],
    kept: Iterable[Retained],
) -> Verdict:
    """Decide about live objects that belong to another state: declared ones, those of runs, and those to be deleted.

    `declared` are the manifests with a name; `live` is the metadata of the declared objects that exist, and of all
    objects of runs; `kept` are the objects that `destroy` leaves in the cluster. Raises ClusterError.
    """
    removed = state.held - live.keys() - {*map(identity, declared)}
    others = of_others({**read_held(removed, settings.cluster.context), **live}, state, settings.stack)
    return judge(
        others,
        state,
        settings.stack,
        take_over=settings.cluster.take_over,
        adopted=adopted,
        retained={retained.identity for retained in kept},
    )
