"""Release manifests: verified bytes, and the parts that are left out."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.special_files import make_sparse_file
from trainstack.platform.operators import release
from trainstack.platform.operators.release import ReleaseError, parse_release, read_release, without_descriptions

RELEASE = b"""\
apiVersion: v1
kind: Secret
metadata: {name: cert}
data: {}
---
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Secret, metadata: {name: kept}, data: {a: Yg==}}
"""
PARSED = [
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kept"}, "data": {"a": "Yg=="}},
]


def make_release(folder: Path, content: bytes = RELEASE) -> tuple[Path, str]:
    """Write a release to a file; return it and its sha256."""
    path = folder / "release.yaml"
    path.write_bytes(content)
    return path, hashlib.sha256(content).hexdigest()


def test_empty_data_of_a_secret_is_dropped_and_lists_are_taken_apart(tmp_path: Path) -> None:
    """The API server drops empty data, so the engine would see a change in every preview."""
    path, digest = make_release(tmp_path)
    assert read_release(path, digest) == PARSED


def test_bytes_that_are_not_the_pinned_ones_are_refused(tmp_path: Path) -> None:
    """The error has the file, both digests and the remedy."""
    path, digest = make_release(tmp_path)
    with pytest.raises(ReleaseError) as caught:
        read_release(path, "0" * 64)
    for part in (str(path), digest, "0" * 64, "pin its sha256"):
        assert part in str(caught.value)


def test_a_missing_release_is_refused(tmp_path: Path) -> None:
    """The error explains how to create the file."""
    with pytest.raises(ReleaseError, match="the release manifest does not exist; `trainstack up` and"):
        read_release(tmp_path / "none.yaml", "0" * 64)


@pytest.mark.parametrize(
    ("make", "words"), [(os.mkfifo, "is a FIFO"), (Path.mkdir, "is a directory"), (make_sparse_file, "is larger than")]
)
def test_a_release_that_is_no_small_regular_file_is_refused(
    tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    """It would block the command, or fill its memory."""
    make(tmp_path / "release.yaml")
    with pytest.raises(ReleaseError, match=words):
        read_release(tmp_path / "release.yaml", "0" * 64)


def test_the_parsed_form_is_not_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch may have links for every process."""
    monkeypatch.setattr(os, "getpid", lambda: 4711)
    path, digest = make_release(tmp_path)
    (tmp_path / "mine").write_text("mine")
    read_release(path, digest, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    kept.unlink()
    for suffix in (".json", ".4711"):
        kept.with_suffix(suffix).symlink_to(tmp_path / "missing" if suffix == ".json" else tmp_path / "mine")
    assert read_release(path, digest, tmp_path / "cache") == PARSED
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "missing").exists()


def test_a_release_without_objects_is_refused() -> None:
    """An empty download is not a release."""
    with pytest.raises(ReleaseError, match="contains no objects"):
        parse_release(b"---\n")


@pytest.mark.parametrize(
    "content", [b"a: [", b"- a", b"text", b"kind: List", b"kind: List\nitems: [1]", b"metadata: {}", b"kind: A\x00"]
)
def test_invalid_yaml_of_objects_is_refused(content: bytes) -> None:
    """Its bytes are the pinned ones, so the pin has to change."""
    with pytest.raises(ReleaseError, match="pin a file of Kubernetes objects in YAML"):
        parse_release(content)


def test_a_second_read_uses_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is parsed again, and the result is the same."""
    path, digest = make_release(tmp_path)
    cache = tmp_path / "cache"
    first = read_release(path, digest, cache)
    monkeypatch.setattr(release, "parse_release", lambda _content: pytest.fail("parsed again"))
    assert read_release(path, digest, cache) == first == PARSED
    assert [file.suffix for file in cache.iterdir()] == [".json"]


def test_a_changed_byte_of_the_cache_is_refused(tmp_path: Path) -> None:
    """The parsed form does not bypass the pinned digest; the error has the file, both digests and the remedy."""
    path, digest = make_release(tmp_path)
    cache = tmp_path / "cache"
    read_release(path, digest, cache)
    (kept,) = cache.iterdir()
    before, _, body = kept.read_bytes().partition(b"\n")
    changed = body.replace(b"Yg==", b"Yw==")
    assert changed != body
    kept.write_bytes(before + b"\n" + changed)
    with pytest.raises(ReleaseError) as caught:
        read_release(path, digest, cache)
    for part in (str(kept), before.decode(), hashlib.sha256(changed).hexdigest(), "Delete it"):
        assert part in str(caught.value)
    kept.unlink()
    assert read_release(path, digest, cache) == PARSED


def test_a_cache_does_not_excuse_changed_bytes(tmp_path: Path) -> None:
    """The file is verified before the cache is read."""
    path, digest = make_release(tmp_path)
    read_release(path, digest, tmp_path / "cache")
    path.write_bytes(RELEASE + b"# edited\n")
    with pytest.raises(ReleaseError, match="the file was not used"):
        read_release(path, digest, tmp_path / "cache")


def test_descriptions_go_and_properties_called_description_stay() -> None:
    """A description is text next to a type; a property of that name, an enum value or a default is not."""
    schema = {
        "description": "gone",
        "type": "object",
        "default": {"description": "stays"},
        "required": ["description"],
        "properties": {
            "description": {"description": "gone", "type": "string", "enum": ["description"]},
            "list": {"type": "array", "items": {"description": "gone", "type": "string"}},
            "map": {"additionalProperties": {"description": "gone", "type": "string"}},
            "any": {"additionalProperties": True, "anyOf": [{"description": "gone", "type": "integer"}]},
            "not": {"not": {"description": "gone", "type": "string"}},
        },
    }
    assert without_descriptions(schema) == {
        "type": "object",
        "default": {"description": "stays"},
        "required": ["description"],
        "properties": {
            "description": {"type": "string", "enum": ["description"]},
            "list": {"type": "array", "items": {"type": "string"}},
            "map": {"additionalProperties": {"type": "string"}},
            "any": {"additionalProperties": True, "anyOf": [{"type": "integer"}]},
            "not": {"not": {"type": "string"}},
        },
    }


def test_only_the_schemas_of_a_crd_lose_their_descriptions() -> None:
    """Printed columns keep their descriptions, which people read."""
    content = b"""\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  versions:
    - name: v1
      additionalPrinterColumns: [{name: Age, description: kept}]
      schema: {openAPIV3Schema: {description: gone, type: object}}
"""
    (crd,) = parse_release(content)
    assert crd["spec"] == {
        "group": "example.org",
        "versions": [
            {
                "name": "v1",
                "additionalPrinterColumns": [{"name": "Age", "description": "kept"}],
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    }
