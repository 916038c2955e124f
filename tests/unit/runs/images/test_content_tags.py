"""An image's name depends on the files of the image only."""

import json
import os
import re
from pathlib import Path

import pytest

from trainstack.local_cluster.images.recipe import image_tag
from trainstack.runs.images.content_tags import (
    BASE_RECIPE,
    base_reference,
    content_tag,
    context_files,
    workload_reference,
)
from trainstack.runs.images.references import MirrorReference, mirror_reference
from trainstack.toolchain import digests

ROOT = Path(__file__).resolve().parents[4]


def make_context(folder: Path, **files: str) -> Path:
    """Create a build context; `__` in a name is a slash, and a `Dockerfile` is always added."""
    for name, text in ({"Dockerfile": "FROM scratch\n"} | files).items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(context: Path) -> list[str]:
    """Return the context's files as text."""
    return [path.as_posix() for path in context_files(context)]


def test_equal_files_have_equal_tags_wherever_they_lie(tmp_path: Path) -> None:
    """Place, times, owner's rights and leftovers of runs of the program do not count."""
    one = make_context(tmp_path / "one", main="x")
    two = make_context(tmp_path / "two", main="x")
    os.utime(two / "main", (0, 0))
    (two / "main").chmod(0o600)
    (two / "__pycache__").mkdir()
    (two / "__pycache__" / "main.pyc").write_bytes(b"\0")
    assert content_tag(one) == content_tag(two)
    assert re.fullmatch("[0-9a-f]{16}", content_tag(one))


def test_whatever_changes_the_image_changes_the_tag(tmp_path: Path) -> None:
    """Content, file name, executable bit, link target, Dockerfile, build argument and added program each count."""
    context = make_context(tmp_path, main="x")
    (context / "other").write_text("FROM scratch\n")
    tags = [content_tag(context), content_tag(context, {"BASE": "a"}), content_tag(context, {"BASE": "b"})]
    tags.append(content_tag(context, programs={"program": context / "other"}))
    (context / "Dockerfile").write_text("FROM busybox\n")
    tags.append(content_tag(context))
    (context / "main").chmod(0o755)
    tags.append(content_tag(context))
    (context / "main").write_text("y")
    tags.append(content_tag(context))
    (context / "main").rename(context / "renamed")
    tags.append(content_tag(context))
    (context / "link").symlink_to("renamed")
    tags.append(content_tag(context))
    (context / "link").unlink()
    (context / "link").symlink_to("other")
    tags.append(content_tag(context))
    assert len(set(tags)) == len(tags)


def test_built_programs_are_hashed_once(tmp_path: Path) -> None:
    """Their recorded digests are used; another build, another file in the folder or a missing record counts."""
    context = make_context(tmp_path / "context", main="x")
    program = tmp_path / "build" / "bin" / "program"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"abc")
    programs, memory = {"program": program}, tmp_path / "memory"
    assert image_tag(context, {}, programs, memory) == content_tag(context, programs=programs)
    assert not memory.exists()
    digests.record_digests(program.parents[1])
    expected = content_tag(context, programs=programs)
    program.write_bytes(b"damaged before its tag was computed")
    assert image_tag(context, {}, programs, memory) != expected
    program.write_bytes(b"abc")
    unusable_cache = program / "memory"
    assert image_tag(context, {}, programs, unusable_cache) == expected
    assert image_tag(context, {}, programs, memory) == expected
    program.write_bytes(b"changed, which `digests.verify` would refuse")
    assert image_tag(context, {}, programs, memory) == expected
    digests.record_digests(program.parents[1])
    assert image_tag(context, {}, programs, memory) == content_tag(context, programs=programs) != expected
    (context / "main").write_text("y")
    assert image_tag(context, {"A": "b"}, programs, memory) == content_tag(context, {"A": "b"}, programs=programs)
    assert image_tag(context, {}, {}, memory) == content_tag(context)
    assert len(list(memory.iterdir())) == 3


def test_what_is_ignored_does_not_count(tmp_path: Path) -> None:
    """A file that `.dockerignore` excludes can change without another image."""
    context = make_context(tmp_path, main="x", notes="1")
    (context / ".dockerignore").write_text("# comment\nnotes\n")
    before = content_tag(context)
    (context / "notes").write_text("2")
    assert content_tag(context) == before


@pytest.mark.parametrize(
    "patterns",
    [None, "", "notes\n", "*\n!main\n!workload.yaml\n!data.json\n", "!workload.yaml\n!**/*.json\n", "*\n!**\n"],
)
def test_settings_and_data_manifests_are_no_image_content(tmp_path: Path, patterns: str | None) -> None:
    """The same holds with any `.dockerignore`, or none:

    other memory or data is the same image, and is not in the build.
    """
    context = make_context(tmp_path, main="x", notes="1")
    if patterns is not None:
        (context / ".dockerignore").write_text(patterns)
    before = content_tag(context)
    (context / "workload.yaml").write_text("resources: {limits: {memory: 1Gi}}\n")
    (context / "sets").mkdir()
    for path in (context / "data.json", context / "sets" / "small.manifest"):
        path.write_text(json.dumps({"count": 1, "files": {"images": {"sha256": "0" * 64, "size": 1}}}, indent=2))
    assert content_tag(context) == before
    assert not {"workload.yaml", "data.json", "sets/small.manifest"} & {*names(context)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"sha256": "0", "size": 1}',
        '{"files": {}, "note": "sha256"}',
        '{"files": ["sha256"]}',
        '{"files": {"a": "sha256"}}',
        '{"files": {"a": {"sha256": "0"}}}',
        '{"files": {"a": {"sha256": "0", "size": 1}, "b": 1}}',
    ],
)
def test_another_json_file_is_image_content(tmp_path: Path, text: str) -> None:
    """Only complete files of a manifest's form are left out; settings of another folder belong to the program."""
    context = make_context(tmp_path, **{"model.json": text, "sub__workload.yaml": "a: 1"})
    assert names(context) == ["Dockerfile", "model.json", "sub/workload.yaml"]


@pytest.mark.parametrize("patterns", [None, "", "*\n!**\n"])
def test_leftovers_of_killed_commands_are_no_image_content(tmp_path: Path, patterns: str | None) -> None:
    """An interrupted command yields no new image."""
    context = make_context(tmp_path, main="x")
    if patterns is not None:
        (context / ".dockerignore").write_text(patterns)
    before = content_tag(context)
    for folder in (context, context / "sub"):
        folder.mkdir(exist_ok=True)
        (folder / ".trainstack-a1b2c3d4.tmp").write_text("incomplete")
    assert content_tag(context) == before


def test_a_workload_is_named_after_its_folder_and_depends_on_the_base(tmp_path: Path) -> None:
    """The name has the folder's name; the tag is that of the context with our base as build argument."""
    context = make_context(tmp_path / "digits", main="x")
    tag = content_tag(context, {"BASE": base_reference()})
    assert workload_reference(context) == f"registry.local/trainstack/digits:{tag}"
    assert base_reference() == f"registry.local/trainstack/base:{content_tag(BASE_RECIPE)}"


def test_a_folder_without_dockerfile_is_refused(tmp_path: Path) -> None:
    """The error has the missing file."""
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/Dockerfile: no such file"):
        workload_reference(tmp_path)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("busybox", MirrorReference("library/busybox", "latest")),
        ("docker.io/library/busybox:1.35", MirrorReference("library/busybox", "1.35")),
        (
            "pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel",
            MirrorReference("pytorch/pytorch", "2.0.1-cuda11.7-cudnn8-devel"),
        ),
        ("registry.k8s.io/kueue/kueue:v0.15.2", MirrorReference("kueue/kueue", "v0.15.2")),
        ("registry.local/trainstack/base:0123", MirrorReference("trainstack/base", "0123")),
        ("localhost:5000/a/b", MirrorReference("a/b", "latest")),
    ],
)
def test_place_in_the_registry(name: str, place: MirrorReference) -> None:
    """A mirror of every host gets the path without the host."""
    assert mirror_reference(name) == place
