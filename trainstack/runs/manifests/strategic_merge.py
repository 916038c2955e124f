"""The application of a strategic merge patch to a pod template, as in the API server and `kubectl patch`.

Source: mergeMap and mergeSlice in k8s.io/apimachinery/pkg/util/strategicpatch/patch.go. Of its directives, those that
`settings.values.pod_patch` accepts are implemented: `$patch: delete` and `$patch: replace`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trainstack.objects.labels import Manifest
from trainstack.settings.values.pod_fields import TEMPLATE, Form
from trainstack.settings.values.pod_patch import DIRECTIVE


def merged(template: Manifest, patch: Mapping[str, Any]) -> Manifest:
    """Return the patched template."""
    return _map(Form(TEMPLATE), template, patch)


def _map(form: Form, original: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    if DIRECTIVE in patch:
        replacement = {} if patch[DIRECTIVE] == "delete" else {key: patch[key] for key in patch if key != DIRECTIVE}
        return dict(_without_directives(replacement))
    result = dict(original)
    for key, value in patch.items():
        if key not in original:
            if not _is_directive(value):
                result[key] = _without_directives(value)
            continue
        inner = form.inner if form.fields is None else form.fields[key]
        if isinstance(value, Mapping):
            result[key] = _map(inner, original[key], value)
        elif inner.merge_key:
            result[key] = _list(inner, original[key], value)
        else:
            result[key] = value
    return result


def _list(form: Form, original: Sequence[Manifest], patch: Sequence[Manifest]) -> list[Manifest]:
    key = form.merge_key
    elements = [element for element in patch if DIRECTIVE not in element]
    if any(element.get(DIRECTIVE) == "replace" for element in patch):
        original = []
    else:
        deleted = [element[key] for element in patch if DIRECTIVE in element]
        original = [element for element in original if element[key] not in deleted]
    result = list(original)
    for element in elements:
        index = next((index for index, other in enumerate(result) if other[key] == element[key]), None)
        if index is None:
            result.append(_without_directives(element))
        else:
            result[index] = _map(form.inner, result[index], element)
    return _ordered(result, [element[key] for element in elements], [element[key] for element in original], key)


def _ordered(elements: Sequence[Manifest], patched: Sequence[Any], original: Sequence[Any], key: str) -> list[Manifest]:
    """Order elements as in the patch, and insert the others before the first patched one that they preceded.

    Source: normalizeElementOrder and mergeSortedSlice.
    """
    result = sorted((one for one in elements if one[key] in patched), key=lambda one: patched.index(one[key]))
    place = 0
    for element in (one for one in elements if one[key] not in patched):
        position = original.index(element[key])
        while place < len(result) and not (
            result[place][key] in original and position < original.index(result[place][key])
        ):
            place += 1
        result.insert(place, element)
        place += 1
    return result


def _is_directive(value: Any) -> bool:
    return isinstance(value, Mapping) and DIRECTIVE in value


def _without_directives(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_directives(item) for key, item in value.items() if not _is_directive(item)}
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directive(item)]
    return value
