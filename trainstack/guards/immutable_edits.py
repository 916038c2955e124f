"""Refusals of edits of immutable fields, with their places in the settings and remedies. Pure.

Without them, the API server would report such an edit in the middle of an `up`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from trainstack.objects.immutable_fields import IMMUTABLE_FIELDS, differences
from trainstack.objects.ownership import format_identity, identity
from trainstack.settings.errors import Place
from trainstack.settings.values.paths import nearest_place

_VOLUME_KINDS = ("PersistentVolume", "PersistentVolumeClaim")
"""Kinds whose edits guards/volumes.py refuses, since their data matters too."""


def may_be_refused(kind: str, *, in_state: bool) -> bool:
    """Return whether `refusals` may refuse an edit of an object of this kind.

    `in_state`: whether the object is in the engine's state, so that the engine may replace it.
    """
    _, fields = IMMUTABLE_FIELDS.get(kind, ("", ()))
    return kind not in _VOLUME_KINDS and any(not (in_state and field.is_replaced) for field in fields)


def refusals(
    path: str, manifest: Mapping[str, Any], live: Mapping[str, Any], places: Mapping[str, Place], *, in_state: bool
) -> Iterator[str]:
    """Yield a refusal for each immutable field of a live object that differs from the manifest.

    `path`: the path of the object in the settings. `in_state`: as in `may_be_refused`.
    """
    for difference in differences(manifest, live, is_own=in_state):
        if in_state and difference.field.is_replaced:
            continue
        setting_path = difference.field.settings_path(path)
        place = nearest_place(places, setting_path)
        location = f"{place}: {setting_path}" if place else setting_path
        yield (
            f"{location}: {format_identity(identity(manifest))} has {difference.field.name} {difference.live}, and "
            f"{difference.declared} is declared: the field is immutable; undo the edit, or declare the object under "
            "another name"
        )
