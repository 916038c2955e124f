"""Validation of an API server's responses: JSON of the shape that belongs to the path. Anything else is an error.

The checks cover the metadata of all objects, and the parts of a spec that commands require. The API server validates
the other fields.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

import httpx

from trainstack.live import paths
from trainstack.live.errors import unexpected_answer_error
from trainstack.live.selectors import selects

NOT_FOUND = 404
_OBJECT_ERROR_STATUSES = (403, NOT_FOUND, 405, 406, 410)
"""Errors that concern the object or the list: forbidden, not found, not served in this form, next page expired."""

_TEXTS = object()
"""The shape of a mapping whose values are strings."""
_TIME = object()
"""The shape of a string with an RFC 3339 time."""
Shape = Any
"""A type, _TEXTS, _TIME, a dict with the shapes of required fields, or a list with the shape of all items."""
_LIST = (list, type(None))
"""The shape of a list that may be null."""
_OPTIONAL_METADATA: Mapping[str, Shape] = {
    "namespace": str,
    "resourceVersion": str,
    "creationTimestamp": _TIME,
    "deletionTimestamp": _TIME,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "finalizers": [str],
    "ownerReferences": [{"kind": str, "name": str, "uid": str}],
    "managedFields": [{}],
    "continue": str,
}
_DISCOVERY = (
    {"groups": [{"preferredVersion": {"groupVersion": str}, "versions": [{"groupVersion": str}]}]},
    {"versions": [{"version": str}]},
    {"resources": [{"name": str, "kind": str, "namespaced": bool, "verbs": [str]}]},
)
"""The shapes of `/apis`, of a group, `/apis/apps`, and of a version, `/apis/apps/v1`."""
_VERSION = {"gitVersion": str}
_KUBELET_SUMMARY = {"node": {"nodeName": str}, "pods": [{"podRef": {"uid": str}}]}
"""The shape of a kubelet's `stats/summary`."""
_POD = {"containers": [{"name": str}]}
_TEMPLATE = {"template": {"spec": _POD}}
_SPECS: Mapping[str, Shape] = {
    "clusterqueues": {},
    "clustertrainingruntimes": {},
    "deployments": _TEMPLATE,
    "jobs": _TEMPLATE,
    "jobsets": {},
    "localqueues": {},
    "persistentvolumeclaims": {},
    "persistentvolumes": {},
    "pods": _POD,
    "pytorchjobs": {},
    "trainjobs": {},
    "workloads": {},
}
"""The required fields of `spec`, by plural."""


@dataclass(frozen=True)
class Answer:
    """A validated response. `body` is {} for any status other than 200 and 201."""

    status: int
    body: dict[str, Any]

    @property
    def is_success(self) -> bool:
        return self.status in (httpx.codes.OK, httpx.codes.CREATED)

    @property
    def readable_body(self) -> dict[str, Any] | None:
        """The object or list; {} if it does not exist, and None if the user may not read it."""
        return self.body if self.is_success or self.status == NOT_FOUND else None

    def items(self, api_version: str, kind: str) -> list[dict[str, Any]]:
        """Return the items of a list with this type, since items have no type, or PartialObjectMetadata."""
        return [{**item, "apiVersion": api_version, "kind": kind} for item in self.body.get("items") or ()]


class _ShapeError(Exception):
    """A fault of a response. The message is a relative clause, such as `which is not JSON`."""


def read_body(cluster: str, path: str, status: int, text: str, *, metadata_only: bool = False) -> dict[str, Any]:
    """Return the body of a response to a GET, without null fields of objects, since null means unset.

    `cluster`: its description, for errors; `metadata_only`: objects have no spec. Raises UnexpectedAnswerError.
    """
    try:
        body = _decode(text)
        _check_body(body, path, metadata_only=metadata_only)
        # A proxy may have dropped the query, and a teardown must not delete the objects of others.
        if "labelSelector" in path and "items" in body:
            body["items"] = [item for item in body["items"] if selects(path, item)]
    except _ShapeError as fault:
        raise unexpected_answer_error(cluster, path, status, str(fault), text) from None
    return body


def ensure_status(cluster: str, path: str, status: int, text: str) -> None:
    """Raise UnexpectedAnswerError unless an API server sends this status and text in response to a read or a review.

    Without the check, a proxy's 404 would mean that no object exists.
    """
    # The API server's response for a group or a version that is not served is plain text.
    if text.strip() == "404 page not found":
        return
    if status not in _OBJECT_ERROR_STATUSES:
        raise unexpected_answer_error(cluster, path, status, "which no API server answers to a read", text)
    try:
        _decode(text)
    except _ShapeError as fault:
        raise unexpected_answer_error(cluster, path, status, str(fault), text) from None


def read_write_body(cluster: str, verb: str, path: str, status: int, text: str) -> dict[str, Any]:
    """Return the body of a response to a write or a review: the object, or the Status of a DELETE.

    Raises UnexpectedAnswerError.
    """
    try:
        body = _decode(text)
        _expect(body, {"kind": str})
        if verb != "DELETE":
            _check_kind(body, paths.kind_of(_resource_names(path)[0]))
        _check_fields(body)
    except _ShapeError as fault:
        raise unexpected_answer_error(cluster, path, status, str(fault), text) from None
    return body


def _decode(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text, parse_constant=_refuse_constant)
        if "\\ud" in text or "\\uD" in text:
            # Half of a surrogate pair cannot be encoded, so it could not be printed.
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise _ShapeError("which is not JSON") from None
    if not isinstance(body, dict):
        raise _ShapeError("which is not an object")
    return body


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _check_body(body: dict[str, Any], path: str, *, metadata_only: bool) -> None:
    parts = _path_parts(path)
    if path.startswith("/version"):
        _expect(body, _VERSION)
    elif len(parts) < len(_DISCOVERY):
        _expect(body, _DISCOVERY[len(parts)])
    else:
        plural, *names = _resource_names(path)
        required: dict[str, Shape] = {"metadata": {"name": str, "uid": str}}
        if plural in _SPECS and not metadata_only:
            required["spec"] = _SPECS[plural]
        _check_objects(body, paths.kind_of(plural), names, required)


def _path_parts(path: str) -> list[str]:
    """Return the parts of a path after its root. The core API has the group "": `/api/v1` is like `/apis/apps/v1`."""
    root, *parts = (part for part in path.partition("?")[0].split("/") if part)
    return ["", *parts] if root == "api" else parts


def _resource_names(path: str) -> list[str]:
    """Return the plural in the path of a list or an object, and the names after it."""
    parts = _path_parts(path)[2:]
    # In `/api/v1/namespaces/research`, the namespace is the object itself.
    return parts[2:] if parts[0] == "namespaces" and len(parts) > 2 else parts


def _check_objects(body: dict[str, Any], kind: str | None, names: list[str], required: Shape) -> None:
    """Check a list (no names), an object (one name), or a subresource (more names), which may be a list."""
    if not names:
        _check_kind(body, f"{kind}List" if kind else None)
        _expect(body, {"items": _LIST})
    elif len(names) == 1:
        _check_kind(body, kind)
        _expect(body, required)
    elif names[-2:] == ["stats", "summary"]:
        _expect(body, _KUBELET_SUMMARY)
    if "items" in body:
        # An empty list of PartialObjectMetadata has null as `items`.
        body["items"] = body["items"] or []
        _expect(body["items"], [{"metadata": {"name": str}} if names else required], "items")
        for number, item in enumerate(body["items"]):
            _check_fields(item, f"items[{number}]")
    _check_fields(body)


def _check_kind(body: Mapping[str, Any], expected: str | None) -> None:
    """Raise _ShapeError unless an object has the expected kind, or no kind. None: any kind but Status is expected."""
    kind = body.get("kind")
    if kind is None or kind in (expected, "PartialObjectMetadata", "PartialObjectMetadataList"):
        return
    if expected is not None or kind == "Status" or not isinstance(kind, str):
        raise _ShapeError(f"whose kind is not {expected or 'that of an object'}")


def _check_fields(item: dict[str, Any], field_path: str = "") -> None:
    """Check the fields that all objects may have, and remove those that are null."""
    is_status = item.get("kind") == "Status"
    for name in ("metadata", "spec", "data", *(() if is_status else ("status",))):
        if item.get(name, ...) is None:
            del item[name]
        if name in item:
            _expect(item[name], {}, f"{field_path}.{name}")
    metadata = item.get("metadata", {})
    for name, shape in _OPTIONAL_METADATA.items():
        if metadata.get(name, ...) is None:
            del metadata[name]
        if name in metadata:
            _expect(metadata[name], shape, f"{field_path}.metadata.{name}")


def _expect(value: Any, shape: Shape, field_path: str = "") -> None:
    """Raise _ShapeError unless a value has this shape."""
    if isinstance(shape, dict):
        _expect_type(value, dict, field_path)
        for name, field_shape in shape.items():
            if name not in value:
                raise _ShapeError(f"whose {f'{field_path}.{name}'.lstrip('.')} is missing")
            _expect(value[name], field_shape, f"{field_path}.{name}")
    elif isinstance(shape, list):
        _expect_type(value, list, field_path)
        for number, item in enumerate(value):
            _expect(item, shape[0], f"{field_path}[{number}]")
    elif shape is _TEXTS:
        _expect_type(value, dict, field_path)
        for name, text in value.items():
            _expect_type(text, str, f"{field_path}.{name}")
    elif shape is _TIME:
        _expect_time(value, field_path)
    else:
        _expect_type(value, shape, field_path)


def _expect_type(value: Any, type_: type | tuple[type, ...], field_path: str) -> None:
    if not isinstance(value, type_):
        name = "a text" if type_ is str else "true or false" if type_ is bool else "an object"
        raise _ShapeError(f"whose {field_path.lstrip('.')} is not {'a list' if type_ in (list, _LIST) else name}")


def _expect_time(value: Any, field_path: str) -> None:
    _expect_type(value, str, field_path)
    try:
        is_time = datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        is_time = False
    if not is_time:
        raise _ShapeError(f"whose {field_path.lstrip('.')} is not a time")
