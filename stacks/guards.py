"""What a change may not do to what is there already: read, judged, and told before the first write."""

from collections.abc import Mapping

from checks import volumes
from checks.cluster.volumes import read_mounts, read_volumes
from settings.errors import Place
from settings.model import Settings
from settings.paths import nearest_place


def volumes_with_data(settings: Settings, places: Mapping[str, Place]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Refusals and notes about the volumes that this change would delete or replace.

    Raises ClusterError where the cluster cannot be read.
    """
    found = volumes.dangers(settings, *read_volumes(settings), lambda path: nearest_place(places, path))
    discard = settings.storage.discard
    # Who mounts them is of interest only where they would go.
    going = {danger.name.partition("/")[0] for danger in found if danger.name in discard and not danger.never}
    return volumes.judge(found, discard, read_mounts(going, settings.cluster.context))
