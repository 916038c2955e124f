"""Refusals of edits of immutable fields, with their places in the settings and remedies. Pure.

Without them, the API server would report such an edit in the middle of an `up`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from trainstack.objects.immutable_fields import IMMUTABLE, differences
from trainstack.objects.ownership import identity, shown
from trainstack.settings.errors import Place
from trainstack.settings.values.paths import nearest_place

_OF_VOLUMES = ("PersistentVolume", "PersistentVolumeClaim")
"""Kinds whose edits guards/volumes.py refuses, since their data matters too."""


def may_be_refused(kind: str, *, in_state: bool) -> bool:
    """Return whether `refusals` may refuse an edit of an object of this kind.

    `in_state`: whether the object is in the engine's state, so that the engine may replace it.
    """
    _, fields = IMMUTABLE.get(kind, ("", ()))
    return kind not in _OF_VOLUMES and any(not (in_state and field.is_replaced) for field in fields)


def refusals(
    path: str, manifest: Mapping[str, Any], live: Mapping[str, Any], places: Mapping[str, Place], *, in_state: bool
) -> Iterator[str]:
    """Yield a refusal for each immutable field of a live object that differs from the manifest.

    `path`: the path of the object in the settings. `in_state`: as in `may_be_refused`.
    """
    for edit in differences(manifest, live, is_own=in_state):
        if in_state and edit.field.is_replaced:
            continue
        own_path = edit.field.in_settings(path)
        place = nearest_place(places, own_path)
        at = f"{place}: {own_path}" if place else own_path
        yield (
            f"{at}: {shown(identity(manifest))} has {edit.field.name} {edit.live}, and {edit.declared} is declared: "
            "the field is immutable; undo the edit, or declare the object under another name"
        )
