"""A strategic merge patch of a pod template.

Source: https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from trainstack.settings.errors import nearest
from trainstack.settings.values.kubernetes import unknown_word
from trainstack.settings.values.pod_fields import TEMPLATE, Form
from trainstack.settings.values.quantities import canonical

DIRECTIVE = "$patch"
DIRECTIVES = ("delete", "replace")
DETAILED = "detailed"
"""The type of pydantic errors with a problem and a remedy, which may be at any depth of a value."""
_MESSAGE = "{problem}; {remedy}"
_SCALARS: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "integer or string": (int, str),
    "string": (str,),
}
_NAMES = {"boolean": "true or false", "integer": "an integer", "integer or string": "an integer or a string"}
_DEFAULTS = {"ObjectFieldSelector": ("apiVersion", "v1"), "ResourceFieldSelector": ("divisor", "0")}
"""The API server's defaults. A reference that differs from the live one is a conflict; see `pod_template`."""
_FURTHER_KEYS = {"ContainerPort": ("protocol", "TCP"), "TopologySpreadConstraint": ("whenUnsatisfiable", None)}
"""Fields, with their defaults, that together with the merge key identify an element for the API server."""
Steps = tuple[str | int, ...]


class _Faults(list[InitErrorDetails]):
    """The faults of a patch, with their steps, all of which pydantic then reports."""

    def add(self, steps: Steps, problem: str, remedy: str) -> None:
        error = PydanticCustomError(DETAILED, _MESSAGE, {"problem": problem, "remedy": remedy})
        self.append(InitErrorDetails(type=error, loc=steps, input=None))


def _patch(given: dict[str, Any]) -> dict[str, Any]:
    faults = _Faults()
    checked = _value(Form(TEMPLATE), given, (), faults)
    if faults:
        raise ValidationError.from_exception_data("PodPatch", faults)
    return dict(checked)


def _value(form: Form, given: Any, steps: Steps, faults: _Faults) -> Any:
    """Return the value as the API server stores it, and add to `faults` what the API server would refuse."""
    if form.is_list:
        return _list(form, given, steps, faults)
    if form.is_map or form.fields is not None:
        return _map(form, given, steps, faults)
    if form.name == "quantity":
        try:
            return canonical(given)
        except ValueError as error:
            problem, _, remedy = str(error).partition("; ")
            faults.add(steps, problem, remedy)
            return None
    types = _SCALARS[form.name]
    if not isinstance(given, types) or (isinstance(given, bool) and bool not in types):
        name = _NAMES.get(form.name, "a string")
        faults.add(steps, f"must be {name}", f"write {name}")
    return given


def _list(form: Form, given: Any, steps: Steps, faults: _Faults) -> list[Any]:
    if not isinstance(given, list | tuple):
        faults.add(steps, "must be a list", "write a list")
        return []
    key, seen = form.merge_key, list[Any]()
    for index, item in enumerate(given):
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
    return [_value(form.inner, item, (*steps, index), faults) for index, item in enumerate(given)]


def _map(form: Form, given: Any, steps: Steps, faults: _Faults) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        faults.add(steps, "must be a map", "write a map")
        return {}
    fields, checked = form.fields, dict[str, Any]()
    for key, item in given.items():
        path, inner = (*steps, key), form.inner if fields is None else fields.get(key)
        if key == DIRECTIVE and item in DIRECTIVES:
            checked[key] = item
        elif key == DIRECTIVE:
            problem, _, remedy = unknown_word(str(item), DIRECTIVES).partition("; ")
            faults.add(path, problem, remedy)
        elif key.startswith("$"):
            faults.add(path, "is not a supported directive", f"use {DIRECTIVE}, or leave it out")
        elif inner is None:
            faults.add(path, f"is not a field of {form.name}", nearest(key, fields or ()))
        else:
            checked[key] = _value(inner, item, path, faults)
    if form.name in _DEFAULTS and DIRECTIVE not in given:
        field, value = _DEFAULTS[form.name]
        checked.setdefault(field, value)
    return checked


PodPatch = Annotated[dict[str, Any], AfterValidator(_patch)]
