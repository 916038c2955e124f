"""Release manifests of operators: verified by their sha256, parsed, and without fields that nothing needs."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from trainstack.errors import TrainstackError
from trainstack.files.regular import FileError, read_bytes
from trainstack.files.replacement import replace_file
from trainstack.objects.labels import Manifest

_SCHEMA_MAP_KEYS = ("properties", "patternProperties", "definitions")
_SCHEMA_KEYS = ("allOf", "anyOf", "oneOf", "items", "additionalProperties", "not")
"""Keys of a schema whose values are a schema or a list of schemas; those of _SCHEMA_MAP_KEYS are maps of schemas."""
MAX_BYTES = 128 << 20
"""The maximum size of a release manifest and of its parsed form, 128 MiB. The largest manifest has 3 MiB."""
_REMEDY = "pin a file of Kubernetes objects in YAML"


class ReleaseError(TrainstackError):
    """A release manifest that is missing, has another sha256 than the pinned one, or contains no objects."""


class DownloadError(ReleaseError):
    """A download of a release manifest that failed, and that may succeed later or on another network."""


class RefusedDownloadError(DownloadError):
    """A download that cannot succeed until the settings, or the file at their URL, change."""


class ChecksumMismatchError(RefusedDownloadError):
    """A downloaded file whose sha256 is not the pinned one."""


def read_release(path: Path, sha256: str, cache: Path | None = None) -> list[Manifest]:
    """Read the objects of a release.

    The result lacks the descriptions in the schemas of CRDs (most of the bytes) and empty `data` of Secrets (the API
    server removes it, so the engine would always report a diff). Raises ReleaseError.

    `cache`: a folder for the parsed form, since parsing takes seconds. Both files are verified by their sha256.
    """
    try:
        content = read_bytes(path, MAX_BYTES)
    except FileError as error:
        raise ReleaseError(f"{path}: {error.strerror}", _REMEDY) from None
    except FileNotFoundError:
        raise ReleaseError(
            f"{path}: the release manifest does not exist",
            "`trainstack up` and `trainstack dev tools manifests` build Trainstack's own (about 3 minutes); add others "
            "yourself, or set `path: null` and a `url` to download one (section trainstack:operators, manifest)",
        ) from None
    actual_sha256 = hashlib.sha256(content).hexdigest()
    if actual_sha256 != sha256:
        raise ReleaseError(
            f"{path}: the sha256 of this release manifest is {actual_sha256}, but {sha256} is pinned; the file was "
            "not used. Download the pinned release again, or, if you trust the file, pin its sha256 (section "
            "trainstack:operators, manifest)"
        )
    if cache is None:
        return parse_release(content)
    # The parsed form depends on the code of this module too.
    parser_digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    cached_file = cache / f"{sha256}-{parser_digest}.json"
    if cached_file.is_file():
        return _read_cached(cached_file)
    parsed = parse_release(content)
    # On a full or read-only disk, the next command parses the release again.
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        body = json.dumps(parsed).encode()
        replace_file(cached_file, f"{hashlib.sha256(body).hexdigest()}\n".encode() + body)
    return parsed


def _read_cached(file: Path) -> list[Manifest]:
    """Read the parsed form of a release, whose first line is the sha256 of the following ones. Raises ReleaseError."""
    expected, _, body = read_bytes(file, MAX_BYTES).partition(b"\n")
    actual_sha256 = hashlib.sha256(body).hexdigest()
    if expected != actual_sha256.encode():
        raise ReleaseError(
            f"{file}: the sha256 of this parsed release is {actual_sha256}, but "
            f"{expected[:64].decode(errors='replace')} was written; the file was not used. Delete it: it is generated "
            "from the release again"
        )
    result: list[Manifest] = json.loads(body)
    return result


def parse_release(content: bytes) -> list[Manifest]:
    """Parse the objects of a release, including those in objects of kind List. Raises ReleaseError."""
    objects: list[Manifest] = []
    try:
        for document in yaml.load_all(content, Loader=yaml.CSafeLoader):
            objects.extend(_document_objects(document))
    except yaml.YAMLError as error:
        raise ReleaseError(f"the release manifest is not YAML ({error}); {_REMEDY}") from None
    if not objects:
        raise ReleaseError(f"the release manifest contains no objects; {_REMEDY}")
    return [_remove_unneeded_fields(manifest) for manifest in objects]


def _document_objects(document: Any) -> list[Manifest]:
    if document is None:
        return []
    is_list = isinstance(document, dict) and document.get("kind") == "List"
    objects = document.get("items") if is_list else [document]
    if not isinstance(objects, list) or not all(isinstance(item, dict) and "kind" in item for item in objects):
        raise ReleaseError(f"the release manifest contains a document that is not a Kubernetes object; {_REMEDY}")
    return objects


def without_descriptions(schema: Any) -> Any:
    """Remove the descriptions from an OpenAPI schema or a list of them, but not properties named `description`."""
    if isinstance(schema, list):
        return list(map(without_descriptions, schema))
    if not isinstance(schema, dict):
        return schema
    result: Manifest = {}
    for key, value in schema.items():
        if key in _SCHEMA_MAP_KEYS:
            result[key] = {name: without_descriptions(subschema) for name, subschema in value.items()}
        elif key != "description":
            result[key] = without_descriptions(value) if key in _SCHEMA_KEYS else value
    return result


def _remove_unneeded_fields(manifest: Manifest) -> Manifest:
    if manifest["kind"] == "CustomResourceDefinition":
        versions = [
            {**version, "schema": {"openAPIV3Schema": without_descriptions(version["schema"]["openAPIV3Schema"])}}
            if "schema" in version
            else version
            for version in manifest["spec"]["versions"]
        ]
        return {**manifest, "spec": {**manifest["spec"], "versions": versions}}
    if manifest["kind"] == "Secret":
        return {key: value for key, value in manifest.items() if key not in ("data", "stringData") or value}
    return manifest
