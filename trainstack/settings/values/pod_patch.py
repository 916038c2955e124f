"""A strategic merge patch of a pod template.

Source: https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, LiteralString

from pydantic import AfterValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from trainstack.settings.errors import suggest_name
from trainstack.settings.values.kubernetes import unknown_word_message
from trainstack.settings.values.pod_fields import TEMPLATE, FieldForm
from trainstack.settings.values.quantities import canonical_quantity

DIRECTIVE = "$patch"
DIRECTIVES = ("delete", "replace")
DETAILED_ERROR, UNKNOWN_FIELD_ERROR = "detailed", "unknown_field"
"""The types of pydantic errors with a problem and a remedy, which may be at any depth of a value."""
_MESSAGE = "{problem}; {remedy}"
_SCALARS: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "integer or string": (int, str),
    "string": (str,),
}
_SCALAR_NAMES = {"boolean": "true or false", "integer": "an integer", "integer or string": "an integer or a string"}
_DEFAULTS = {"ObjectFieldSelector": ("apiVersion", "v1"), "ResourceFieldSelector": ("divisor", "0")}
"""The API server's defaults. A reference that differs from the live one is a conflict; see `pod_template`."""
_FURTHER_KEYS = {"ContainerPort": ("protocol", "TCP"), "TopologySpreadConstraint": ("whenUnsatisfiable", None)}
"""Fields, with their defaults, that together with the merge key identify an element for the API server."""
Steps = tuple[str | int, ...]


class Faults(list[InitErrorDetails]):
    """The faults of a value, with their steps, all of which pydantic then reports."""

    def add(self, steps: Steps, problem: str, remedy: str, *, error_type: LiteralString = DETAILED_ERROR) -> None:
        error = PydanticCustomError(error_type, _MESSAGE, {"problem": problem, "remedy": remedy})
        self.append(InitErrorDetails(type=error, loc=steps, input=None))

    def raise_all(self, title: str) -> None:
        """Raise ValidationError with the faults, if there are any."""
        if self:
            raise ValidationError.from_exception_data(title, self)


def check_fields(type_name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a type of `pod_fields` as the API server stores them. Raises ValidationError."""
    faults = Faults()
    checked = _check_value(FieldForm(type_name), fields, (), faults)
    faults.raise_all(type_name)
    return dict(checked)


def canonical_fields(type_name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a type of `pod_fields` with amounts and defaults as the API server stores them.

    Unknown fields and values of another type are unchanged: the API server decides on them.
    """
    return dict(_canonical_value(FieldForm(type_name), fields))


def canonical_amount(value: Any) -> Any:
    """Return an amount, which may be a number, as the API server stores it; the value if it is none."""
    with suppress(ValueError):
        return canonical_quantity(str(value) if isinstance(value, float) else value)
    return value


def _canonical_value(form: FieldForm, value: Any) -> Any:
    if form.is_list:
        return [_canonical_value(form.element_form, item) for item in value] if isinstance(value, list) else value
    if form.name == "quantity" and not form.is_map:
        return canonical_amount(value)
    if not isinstance(value, Mapping):
        return value
    fields = form.fields
    forms = dict.fromkeys(value, form.element_form) if fields is None else fields
    result = {key: _canonical_value(forms[key], item) if key in forms else item for key, item in value.items()}
    if fields is not None and form.name in _DEFAULTS:
        result.setdefault(*_DEFAULTS[form.name])
    return result


def _check_patch(patch: dict[str, Any]) -> dict[str, Any]:
    return check_fields(TEMPLATE, patch)


def _check_value(form: FieldForm, value: Any, steps: Steps, faults: Faults) -> Any:
    """Return the value as the API server stores it, and add to `faults` what the API server would refuse."""
    if form.is_list:
        return _check_list(form, value, steps, faults)
    if form.is_map or form.fields is not None:
        return _check_map(form, value, steps, faults)
    if form.name == "quantity":
        try:
            return canonical_quantity(value)
        except ValueError as error:
            problem, _, remedy = str(error).partition("; ")
            faults.add(steps, problem, remedy)
            return None
    types = _SCALARS[form.name]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        name = _SCALAR_NAMES.get(form.name, "a string")
        faults.add(steps, f"must be {name}", f"write {name}")
    return value


def _check_list(form: FieldForm, elements: Any, steps: Steps, faults: Faults) -> list[Any]:
    if not isinstance(elements, list | tuple):
        faults.add(steps, "must be a list", "write a list")
        return []
    key, seen = form.merge_key, list[Any]()
    for index, item in enumerate(elements):
        if not isinstance(item, Mapping):
            continue
        if DIRECTIVE in item and not key:
            faults.add((*steps, index), "is an element of a list that is replaced, not merged", f"remove {DIRECTIVE}")
        elif key and key not in item and item.get(DIRECTIVE) != "replace":
            faults.add((*steps, index), f"has no {key}, by which it is merged", f"add {key}")
        elif key and key in item:
            field, default = _FURTHER_KEYS.get(form.name, ("", None))
            identity = (item[key], item.get(field, default))
            if identity in seen:
                faults.add((*steps, index), "is listed twice", "merge both")
            seen.append(identity)
    return [_check_value(form.element_form, item, (*steps, index), faults) for index, item in enumerate(elements)]


def _check_map(form: FieldForm, entries: Any, steps: Steps, faults: Faults) -> dict[str, Any]:
    if not isinstance(entries, Mapping):
        faults.add(steps, "must be a map", "write a map")
        return {}
    fields, checked = form.fields, dict[str, Any]()
    for key, item in entries.items():
        path, item_form = (*steps, key), form.element_form if fields is None else fields.get(key)
        if key == DIRECTIVE and item in DIRECTIVES:
            checked[key] = item
        elif key == DIRECTIVE:
            problem, _, remedy = unknown_word_message(str(item), DIRECTIVES).partition("; ")
            faults.add(path, problem, remedy)
        elif key.startswith("$"):
            faults.add(path, "is not a supported directive", f"use {DIRECTIVE}, or leave it out")
        elif item_form is None:
            remedy = suggest_name(key, fields or ())
            faults.add(path, f"is not a field of {form.name}", remedy, error_type=UNKNOWN_FIELD_ERROR)
        else:
            checked[key] = _check_value(item_form, item, path, faults)
    if form.name in _DEFAULTS and DIRECTIVE not in entries:
        field, value = _DEFAULTS[form.name]
        checked.setdefault(field, value)
    return checked


PodPatch = Annotated[dict[str, Any], AfterValidator(_check_patch)]
