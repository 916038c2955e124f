"""The fields of a pod template and of a persistent volume, and how a strategic merge patch merges them.

The table is generated from the OpenAPI document of the Kubernetes release that the local cluster runs. A field's form
is `string`, `integer`, `boolean`, `quantity`, `integer or string` or the name of a type; with `{}`, a map of such
values; with `[]`, a list that a patch replaces; with `[key]`, a list of maps that a patch merges by that key.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TEMPLATE, PERSISTENT_VOLUME = "PodTemplateSpec", "PersistentVolumeSpec"


@dataclass(frozen=True, slots=True)
class FieldForm:
    """The form of a field, of an element of a list, or of a value of a map."""

    name: str
    """A scalar, or a type of the table."""
    is_list: bool = False
    is_map: bool = False
    merge_key: str = ""
    """The key by which a list's elements are merged; empty: a patch replaces the list."""

    @property
    def fields(self) -> "Mapping[str, FieldForm] | None":
        """The fields of an object; None for scalars, lists and maps with arbitrary keys."""
        return None if self.is_list or self.is_map else pod_fields().get(self.name)

    @property
    def element_form(self) -> "FieldForm":
        """The form of a list's elements, or of a map's values."""
        return FieldForm(self.name)


@cache
def pod_fields() -> Mapping[str, Mapping[str, FieldForm]]:
    """Return the forms of the fields of each type, by the type's name."""
    table = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return {name: {field: _parse_form(text) for field, text in fields.items()} for name, fields in table.items()}


def _parse_form(text: str) -> FieldForm:
    name, bracket, key = text.removesuffix("]").partition("[")
    return FieldForm(name.removesuffix("{}"), is_list=bool(bracket), is_map=name.endswith("{}"), merge_key=key)
