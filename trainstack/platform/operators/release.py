"""Release manifests: bytes that are checked before anything is read from them, and what is left out of them.

The only part of this package that touches files, and only those it is told.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from trainstack.objects.labels import Manifest

_MAPS_OF_SCHEMAS = ("properties", "patternProperties", "definitions")
_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf")
_SCHEMAS = ("items", "additionalProperties", "not")
_REMEDY = "pin a file of Kubernetes objects in YAML"


class ReleaseError(ValueError):
    """A release manifest that is missing, is not what was pinned, or holds no objects."""


def read_release(path: Path, sha256: str, cache: Path | None = None) -> list[Manifest]:
    """The objects of a release, without what only readers need.

    Left out are the descriptions in the schemas of CRDs (most of the bytes, and each write of the engine's state holds
    them all) and empty `data` of Secrets (the API server drops it, so the engine would propose a change for ever).

    Args:
        path: the file.
        sha256: what its bytes must hash to.
        cache: a folder for the parsed form, since parsing tens of thousands of lines takes seconds. The bytes are
            checked all the same, and those of the parsed form too; None parses each time.

    Raises ReleaseError, which names path, expected and found digest, and the remedy.

    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ReleaseError(
            f"{path}: there is no release manifest here; `make tools` writes the ones that this repository pins, "
            "others are for you to put there (section trainstack:operators, manifest)"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ReleaseError(
            f"{path}: the sha256 of this release manifest is {found}, but {sha256} is pinned; nothing was taken from "
            "it. Fetch the pinned release again, or, if you trust these bytes, pin their sha256 (section "
            "trainstack:operators, manifest)"
        )
    if cache is None:
        return parse_release(content)
    kept = cache / f"{sha256}-{_own_digest()}.json"
    if kept.is_file():
        return _kept(kept)
    parsed = parse_release(content)
    cache.mkdir(parents=True, exist_ok=True)
    # Published by rename, so that a reader beside us, or one after a crash, finds all of it or nothing.
    draft = kept.with_suffix(f".{os.getpid()}")
    body = json.dumps(parsed).encode()
    draft.write_bytes(f"{hashlib.sha256(body).hexdigest()}\n".encode() + body)
    draft.replace(kept)
    return parsed


def _kept(file: Path) -> list[Manifest]:
    """The parsed form of a release, which begins with the sha256 of the rest."""
    expected, _, body = file.read_bytes().partition(b"\n")
    found = hashlib.sha256(body).hexdigest()
    if expected != found.encode():
        raise ReleaseError(
            f"{file}: the sha256 of this parsed release is {found}, but {expected[:64].decode(errors='replace')} was "
            "written; nothing was taken from it. Remove the file: it is made again from the release"
        )
    result: list[Manifest] = json.loads(body)
    return result


def parse_release(content: bytes) -> list[Manifest]:
    """The objects in a release's bytes, lists taken apart, without what only readers need."""
    objects: list[Manifest] = []
    try:
        for document in yaml.load_all(content, Loader=yaml.CSafeLoader):
            objects.extend(_objects(document))
    except yaml.YAMLError as error:
        raise ReleaseError(f"the release manifest is not YAML ({error}); {_REMEDY}") from None
    if not objects:
        raise ReleaseError(f"the release manifest holds no objects; {_REMEDY}")
    return [_slim(manifest) for manifest in objects]


def _objects(document: Any) -> list[Manifest]:
    """The objects of a document: none of an empty one, all of a list."""
    if document is None:
        return []
    is_list = isinstance(document, dict) and document.get("kind") == "List"
    found = document.get("items") if is_list else [document]
    if not isinstance(found, list) or not all(isinstance(each, dict) and "kind" in each for each in found):
        raise ReleaseError(f"the release manifest holds what is not a Kubernetes object; {_REMEDY}")
    return found


def without_descriptions(schema: Any) -> Any:
    """An OpenAPI schema without its descriptions; properties that are themselves called so stay."""
    if not isinstance(schema, dict):
        return schema
    result: Manifest = {}
    for key, value in schema.items():
        if key == "description":
            continue
        if key in _MAPS_OF_SCHEMAS:
            result[key] = {name: without_descriptions(part) for name, part in value.items()}
        elif key in _LISTS_OF_SCHEMAS:
            result[key] = _each(value)
        elif key in _SCHEMAS:
            result[key] = _each(value) if isinstance(value, list) else without_descriptions(value)
        else:
            result[key] = value
    return result


def _each(schemas: Iterable[Any]) -> list[Any]:
    return [without_descriptions(schema) for schema in schemas]


def _slim(manifest: Manifest) -> Manifest:
    if manifest["kind"] == "CustomResourceDefinition":
        return {
            **manifest,
            "spec": {**manifest["spec"], "versions": [_slim_version(v) for v in manifest["spec"]["versions"]]},
        }
    if manifest["kind"] == "Secret":
        return {key: value for key, value in manifest.items() if key not in ("data", "stringData") or value}
    return manifest


def _slim_version(version: Manifest) -> Manifest:
    if "schema" not in version:
        return version
    return {**version, "schema": {"openAPIV3Schema": without_descriptions(version["schema"]["openAPIV3Schema"])}}


def _own_digest() -> str:
    # What this file leaves out, and how it writes, decides what the parsed form holds.
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
