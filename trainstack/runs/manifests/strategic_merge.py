"""The application of a strategic merge patch to a pod template, as in the API server and `kubectl patch`.

Source: mergeMap and mergeSlice in k8s.io/apimachinery/pkg/util/strategicpatch/patch.go. Of its directives, those that
`settings.values.pod_patch` accepts are implemented: `$patch: delete` and `$patch: replace`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trainstack.objects.labels import Manifest
from trainstack.settings.values.pod_fields import TEMPLATE, FieldForm
from trainstack.settings.values.pod_patch import DIRECTIVE


def merge_patch(template: Manifest, patch: Mapping[str, Any]) -> Manifest:
    """Return the patched template."""
    return _merge_map(FieldForm(TEMPLATE), template, patch)


def _merge_map(form: FieldForm, original: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    if DIRECTIVE in patch:
        replacement = {} if patch[DIRECTIVE] == "delete" else {key: patch[key] for key in patch if key != DIRECTIVE}
        return dict(_without_directives(replacement))
    result = dict(original)
    for key, value in patch.items():
        if key not in original:
            if not _is_directive(value):
                result[key] = _without_directives(value)
            continue
        inner = form.element_form if form.fields is None else form.fields[key]
        if isinstance(value, Mapping):
            result[key] = _merge_map(inner, original[key], value)
        elif inner.merge_key:
            result[key] = _merge_list(inner, original[key], value)
        else:
            result[key] = value
    return result


def _merge_list(form: FieldForm, original: Sequence[Manifest], patch: Sequence[Manifest]) -> list[Manifest]:
    key = form.merge_key
    elements = [element for element in patch if DIRECTIVE not in element]
    if any(element.get(DIRECTIVE) == "replace" for element in patch):
        original = []
    else:
        deleted = [element[key] for element in patch if DIRECTIVE in element]
        original = [element for element in original if element[key] not in deleted]
    result = list(original)
    for element in elements:
        index = next(
            (index for index, merged_element in enumerate(result) if merged_element[key] == element[key]), None
        )
        if index is None:
            result.append(_without_directives(element))
        else:
            result[index] = _merge_map(form.element_form, result[index], element)
    return _order_elements(result, [element[key] for element in elements], [element[key] for element in original], key)


def _order_elements(
    elements: Sequence[Manifest], patched_keys: Sequence[Any], original_keys: Sequence[Any], key: str
) -> list[Manifest]:
    """Order elements as in the patch, and insert the others before the first patched one that they preceded.

    Source: normalizeElementOrder and mergeSortedSlice.
    """
    result = sorted(
        (item for item in elements if item[key] in patched_keys), key=lambda item: patched_keys.index(item[key])
    )
    insert_index = 0
    for element in (item for item in elements if item[key] not in patched_keys):
        position = original_keys.index(element[key])
        while insert_index < len(result) and not (
            result[insert_index][key] in original_keys and position < original_keys.index(result[insert_index][key])
        ):
            insert_index += 1
        result.insert(insert_index, element)
        insert_index += 1
    return result


def _is_directive(value: Any) -> bool:
    return isinstance(value, Mapping) and DIRECTIVE in value


def _without_directives(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_directives(item) for key, item in value.items() if not _is_directive(item)}
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directive(item)]
    return value
