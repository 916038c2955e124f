"""Release manifests: verify the sha256, parse the objects, and remove what is not needed."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import yaml

from trainstack.errors import TrainstackError
from trainstack.objects.labels import Manifest

_MAPS_OF_SCHEMAS = ("properties", "patternProperties", "definitions")
_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf")
_SCHEMAS = ("items", "additionalProperties", "not")
_REMEDY = "pin a file of Kubernetes objects in YAML"


class ReleaseError(TrainstackError):
    """A release manifest that is missing, has another sha256, or contains no objects."""


def read_release(path: Path, sha256: str, cache: Path | None = None) -> list[Manifest]:
    """Read the objects of a release.

    The result lacks the descriptions in the schemas of CRDs (most of the bytes, which the engine's state would contain)
    and empty `data` of Secrets (the API server removes it, so the engine would always report a diff).

    `cache`: a folder for the parsed form, since parsing takes seconds. The sha256 of the file and of the parsed form
    are verified all the same.

    Raises ReleaseError.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ReleaseError(
            f"{path}: the release manifest does not exist; run `trainstack dev tools` for the releases that "
            "this version builds, and add others yourself (section trainstack:operators, manifest)"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ReleaseError(
            f"{path}: the sha256 of this release manifest is {found}, but {sha256} is pinned; the file was "
            "not used. Download the pinned release again, or, if you trust the file, pin its sha256 (section "
            "trainstack:operators, manifest)"
        )
    if cache is None:
        return parse_release(content)
    kept = cache / f"{sha256}-{_own_digest()}.json"
    if kept.is_file():
        return _kept(kept)
    parsed = parse_release(content)
    cache.mkdir(parents=True, exist_ok=True)
    # Written atomically, for concurrent readers and in case of a crash.
    draft = kept.with_suffix(f".{os.getpid()}")
    body = json.dumps(parsed).encode()
    draft.write_bytes(f"{hashlib.sha256(body).hexdigest()}\n".encode() + body)
    draft.replace(kept)
    return parsed


def _kept(file: Path) -> list[Manifest]:
    """Read the parsed form of a release, which begins with the sha256 of the rest."""
    expected, _, body = file.read_bytes().partition(b"\n")
    found = hashlib.sha256(body).hexdigest()
    if expected != found.encode():
        raise ReleaseError(
            f"{file}: the sha256 of this parsed release is {found}, but {expected[:64].decode(errors='replace')} was "
            "written; the file was not used. Delete it: it is generated from the release again"
        )
    result: list[Manifest] = json.loads(body)
    return result


def parse_release(content: bytes) -> list[Manifest]:
    """Parse the objects of a release, including those in lists."""
    objects: list[Manifest] = []
    try:
        for document in yaml.load_all(content, Loader=yaml.CSafeLoader):
            objects.extend(_objects(document))
    except yaml.YAMLError as error:
        raise ReleaseError(f"the release manifest is not YAML ({error}); {_REMEDY}") from None
    if not objects:
        raise ReleaseError(f"the release manifest contains no objects; {_REMEDY}")
    return [_slim(manifest) for manifest in objects]


def _objects(document: Any) -> list[Manifest]:
    if document is None:
        return []
    is_list = isinstance(document, dict) and document.get("kind") == "List"
    found = document.get("items") if is_list else [document]
    if not isinstance(found, list) or not all(isinstance(item, dict) and "kind" in item for item in found):
        raise ReleaseError(f"the release manifest contains a document that is not a Kubernetes object; {_REMEDY}")
    return found


def without_descriptions(schema: Any) -> Any:
    """Remove the descriptions from an OpenAPI schema, but not properties named `description`."""
    if not isinstance(schema, dict):
        return schema
    result: Manifest = {}
    for key, value in schema.items():
        if key == "description":
            continue
        if key in _MAPS_OF_SCHEMAS:
            result[key] = {name: without_descriptions(part) for name, part in value.items()}
        elif key in _LISTS_OF_SCHEMAS:
            result[key] = list(map(without_descriptions, value))
        elif key in _SCHEMAS:
            several = isinstance(value, list)
            result[key] = list(map(without_descriptions, value)) if several else without_descriptions(value)
        else:
            result[key] = value
    return result


def _slim(manifest: Manifest) -> Manifest:
    if manifest["kind"] == "CustomResourceDefinition":
        versions = list(map(_slim_version, manifest["spec"]["versions"]))
        return {**manifest, "spec": {**manifest["spec"], "versions": versions}}
    if manifest["kind"] == "Secret":
        return {key: value for key, value in manifest.items() if key not in ("data", "stringData") or value}
    return manifest


def _slim_version(version: Manifest) -> Manifest:
    if "schema" not in version:
        return version
    return {**version, "schema": {"openAPIV3Schema": without_descriptions(version["schema"]["openAPIV3Schema"])}}


def _own_digest() -> str:
    # The parsed form depends on this module.
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
