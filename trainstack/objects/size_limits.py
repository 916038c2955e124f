"""Sizes that the API server and etcd accept."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

MAX_REQUEST_BYTES = 1_572_864
"""etcd's default `--max-request-bytes`, 1.5 MiB."""
MAX_DATA_BYTES = 1 << 20
"""The values of a ConfigMap or Secret together, 1 MiB (MaxSecretSize in Kubernetes' core validation)."""
MAX_ANNOTATION_BYTES = 256 << 10
"""The keys and values of an object's annotations together, 256 KiB (TotalAnnotationSizeLimitB in apimachinery)."""


def annotation_bytes(metadata: Mapping[str, Any]) -> int:
    return sum(_bytes(key) + _bytes(value) for key, value in (metadata.get("annotations") or {}).items())


def stored_bytes(manifest: Mapping[str, Any]) -> int:
    """Estimate the bytes of an applied object in etcd, including the paths of its fields (`managedFields`)."""
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"))
    return _bytes(text) + _path_bytes(manifest)


def describe_excess(subject: str, size: int, limit: int) -> str:
    """Return `annotations of 300,000 bytes; the limit is 262,144`; empty if the size is within the limit."""
    return f"{subject} of {size:,} bytes; the limit is {limit:,}" if size > limit else ""


def _path_bytes(value: object) -> int:
    """Return the bytes of the paths below a value: `"f:env":{"k:{\\"name\\":\\"A\\"}":{".":{},"f:value":{}}}`."""
    if isinstance(value, Mapping):
        return sum(len('"f:":{},') + _bytes(key) + _path_bytes(nested) for key, nested in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        # In a list of strings, only the list itself has a path.
        elements = [element for element in value if isinstance(element, Mapping)]
        names = [element.get("name", "") for element in elements]
        return sum(len('"k:{\\"name\\":\\"\\"}":{".":{}},') + _bytes(name) for name in names) + sum(
            map(_path_bytes, elements)
        )
    return 0


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
