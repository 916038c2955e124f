"""What a change may not do to what is there already: read, judged, and told before the first write."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from trainstack.guards import field_managers as managers
from trainstack.guards import volumes
from trainstack.guards.states import OwnState, Verdict, judge, of_others
from trainstack.live import paths
from trainstack.live.client import read
from trainstack.live.marked import read_held
from trainstack.live.rights import uncreatable
from trainstack.live.snapshot import read_metadata, there
from trainstack.live.volumes import read_mounts, read_volumes
from trainstack.objects.ownership import Identity, identity
from trainstack.platform.retained import Retained
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.values.paths import nearest_place


def namespaces_to_prepare(settings: Settings, manifests: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Refusals about declared namespaces that do not exist and that the user may not create.

    The roles of a deployer are in its namespaces: without one of them nothing else of it can be read.
    Raises ClusterError where the cluster cannot be read.
    """
    declared = [each for each in manifests if each["kind"] == "Namespace"]
    if not declared:
        return ()
    context = settings.cluster.context
    missing = {identity(each) for each in declared} - read_metadata(declared, context).keys()
    return uncreatable((name for *_, name in missing), settings.stack, context)


def volumes_with_data(settings: Settings, places: Mapping[str, Place]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Refusals and notes about the volumes that this change would delete or replace.

    Raises ClusterError where the cluster cannot be read.
    """
    found = volumes.dangers(settings, *read_volumes(settings), lambda path: nearest_place(places, path))
    discard = settings.storage.discard
    # Who mounts them is of interest only where they would go.
    going = {danger.name.partition("/")[0] for danger in found if danger.name in discard and not danger.remedy}
    return volumes.judge(found, discard, read_mounts(going, settings.cluster.context))


def fields_of_others(
    settings: Settings,
    manifests: Sequence[Mapping[str, Any]],
    live: Mapping[Identity, Mapping[str, Any]],
    adopted: Collection[Identity],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Refusals and notes about values that somebody else has set in this stack's objects.

    Args:
        settings: the environment.
        manifests: those objects as they would be declared.
        live: the metadata of what is there.
        adopted: the objects in which what is declared wins.

    Raises ClusterError where the cluster cannot be read.
    """
    whole = [_with_keys(settings, each) for each in manifests]
    contested = [(each, managers.held(each, live[identity(each)])) for each in whole]
    asked = {paths.location(each): (each, fields) for each, fields in contested if fields}
    refusals, notes = [], []
    # Only of these few is more wanted than the metadata.
    for path, answer in read(list(asked), settings.cluster.context).items() if asked else ():
        if there(path, answer):
            manifest, fields = asked[path]
            for said in managers.overwritten(manifest, answer.body, fields):
                if identity(manifest) in adopted:
                    notes.append(f"{said}, which wins (adopt: true)")
                elif manifest["kind"] == "Secret":
                    notes.append(f"{said}, which wins if they differ: the engine alone knows that one")
                else:
                    refusals.append(
                        f"{said}; take that value into the settings, or set it back there, or, where the settings have "
                        "that word, `adopt: true` on the object lets what is declared win"
                    )
    return tuple(sorted(refusals)), tuple(sorted(notes))


def _with_keys(settings: Settings, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """A Secret with the keys that the environment declares, whose values only the engine knows; others as they are."""
    if manifest["kind"] != "Secret":
        return manifest
    place = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    declared = [each for each in settings.secrets.secrets if (each.namespace, each.name) == place]
    return {**manifest, "data": {key: "" for each in declared for key in each.values}} if declared else manifest


def objects_of_other_states(
    settings: Settings,
    state: OwnState,
    declared: Iterable[Mapping[str, Any]],
    live: Mapping[Identity, Mapping[str, Any]],
    adopted: Collection[Identity],
    kept: Iterable[Retained],
) -> Verdict:
    """Which live objects belong to another state of this stack: of what is declared, of runs, and of what would go.

    Args:
        settings: the environment.
        state: this state.
        declared: the manifests with a name.
        live: the metadata of those of them that exist, and of everything of runs.
        adopted: what is taken over by `adopt: true`.
        kept: what `destroy` leaves.

    Raises ClusterError where the cluster cannot be read.
    """
    going = state.held - live.keys() - {*map(identity, declared)}
    others = of_others({**read_held(going, settings.cluster.context), **live}, state, settings.stack)
    return judge(
        others,
        state,
        settings.stack,
        take_over=settings.cluster.take_over,
        adopted=adopted,
        retained={(each.kind, each.namespace, each.name) for each in kept},
    )
