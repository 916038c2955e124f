"""Names of the images that are built from this repository: pure functions of the input files.

An image is called `registry.local/trainstack/<name>:<tag>`; the tag is a digest of the Dockerfile, the files of its
context and the build arguments. So settings can name an image before it is built, and an edit yields a new name.
"""

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from trainstack.files.regular import FileError, open_regular, read_bytes, read_text

REGISTRY = "registry.local"
"""No such host exists: the local cluster pulls every image from its own registry, whatever the host in the name."""
PROJECT = "trainstack"
BASE_RECIPE = Path(__file__).resolve().parents[3] / "trainstack" / "local_cluster" / "containerfiles" / "base"
"""The build context of the base image: Debian with CPU PyTorch."""

MAX_CONTEXT_BYTES = 64 << 30
"""The limit of the files of a build context together, which takes a minute to read."""
_MAX_DATA_MANIFEST_BYTES = 256 << 20
_BLOCK_BYTES = 1 << 20
_TAG_DIGITS = 16
_HEAD_BYTES = 1024
_ALWAYS_IGNORED = ("**/__pycache__", "**/*.pyc")
"""Files that running the program creates."""
_SETTINGS = PurePosixPath("workload.yaml")
"""The workload's settings; those that affect the result are part of a run's identity already."""


def base_reference() -> str:
    """The name of the base image, the value of `ARG BASE` in a workload's Dockerfile."""
    return reference("base", content_tag(BASE_RECIPE))


def workload_reference(folder: Path, registry: str = REGISTRY) -> str:
    """The name of the image that is built from a workload's folder. Raises FileNotFoundError without a Dockerfile."""
    dockerfile = folder / "Dockerfile"
    if not dockerfile.is_file():
        raise FileNotFoundError(f"{dockerfile}: no such file; the folder of an image must contain a Dockerfile")
    return reference(folder.resolve().name, content_tag(folder, {"BASE": base_reference()}), registry)


def reference(name: str, tag: str, registry: str = REGISTRY) -> str:
    return f"{registry}/{PROJECT}/{name}:{tag}"


def content_tag(
    context: Path,
    build_args: Mapping[str, str] | None = None,
    *,
    programs: Mapping[str, Path] | None = None,
) -> str:
    """The tag of an image that is built from these inputs: 16 hexadecimal digits.

    `programs` are additional files of the context by their name in it. Times, owners and modes are ignored, except for
    the executable bit.
    """
    digest = hashlib.sha256()
    inputs = {path.as_posix(): context / path for path in context_files(context)}
    if sum(path.lstat().st_size for path in inputs.values()) > MAX_CONTEXT_BYTES:
        raise FileError(context, f"is a build context of more than {MAX_CONTEXT_BYTES >> 30} GiB; ignore some of it")
    for name, path in sorted((inputs | dict(programs or {})).items()):
        _add(digest, "file", name, _mode(path))
        _add_content(digest, path)
    for key, value in sorted((build_args or {}).items()):
        _add(digest, "argument", key, "", value.encode())
    return digest.hexdigest()[:_TAG_DIGITS]


def context_files(context: Path) -> list[PurePosixPath]:
    """The files of a build context, relative to it and sorted, without ignored files.

    Symbolic links are not followed. The Dockerfile is always included. The folder's `workload.yaml` and data manifests
    are never included, whatever `.dockerignore` includes: the digest of the data is already part of a run's identity,
    and a change of memory or of the data must not yield a new image.
    """
    ignored = _rules(context)
    found = (
        PurePosixPath(path.relative_to(context).as_posix())
        for path in context.rglob("*")
        if path.is_symlink() or path.is_file()
    )
    return sorted(
        path
        for path in found
        if path.as_posix() == "Dockerfile"
        or not (path == _SETTINGS or _is_ignored(path, ignored) or _is_data_manifest(context / path))
    )


def _is_data_manifest(path: Path) -> bool:
    """Whether a file is a data manifest: JSON whose `files` map each name to a `sha256` and a `size`.

    The content decides instead of the name: environments name manifests too, and the same folder must yield the same
    image in all of them.
    """
    if path.is_symlink():
        return False
    with open_regular(path) as file:
        if not file.read(_HEAD_BYTES).lstrip().startswith(b"{"):
            return False
    try:
        content = read_bytes(path, _MAX_DATA_MANIFEST_BYTES)
    except FileError:
        return False
    if b'"sha256"' not in content:
        return False
    try:
        files = json.loads(content).get("files")
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(files, dict)
        and bool(files)
        and all(isinstance(entry, dict) and {"sha256", "size"} <= entry.keys() for entry in files.values())
    )


def _mode(path: Path) -> str:
    if path.is_symlink():
        return "link"
    return "executable" if path.stat().st_mode & 0o100 else "plain"


def _add(digest: "hashlib._Hash", *parts: str | bytes) -> None:
    """Add parts with their lengths, so that different inputs never yield the same bytes."""
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)


def _add_content(digest: "hashlib._Hash", path: Path) -> None:
    if path.is_symlink():
        _add(digest, str(path.readlink()))
        return
    with open_regular(path) as file:
        digest.update(f"{os.fstat(file.fileno()).st_size}:".encode())
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)


def _rules(context: Path) -> list[tuple[bool, re.Pattern[str]]]:
    file = context / ".dockerignore"
    lines = [line.strip() for line in read_text(file).splitlines()] if file.is_file() else []
    rules = [(True, _regex(pattern)) for pattern in _ALWAYS_IGNORED]
    for number, line in enumerate(lines, start=1):
        if line and not line.startswith("#"):
            try:
                rules.append((not line.startswith("!"), _regex(line.removeprefix("!").strip())))
            except re.error as error:
                raise FileError(file, f"has an invalid pattern in line {number}, {line!r}: {error}") from None
    return rules


def _is_ignored(path: PurePosixPath, rules: Sequence[tuple[bool, re.Pattern[str]]]) -> bool:
    """Whether a path is ignored, by the last rule that matches it or one of its parent folders."""
    names = [path.as_posix(), *(parent.as_posix() for parent in path.parents if parent != PurePosixPath())]
    matching = (ignores for ignores, pattern in reversed(rules) if any(map(pattern.fullmatch, names)))
    return next(matching, False)


_TOKEN = re.compile(r"(?P<folders>\*\*/?)|(?P<text>\*)|(?P<character>\?)|(?P<group>\[[^\]]+\])|\\?(?P<literal>.)")


def _regex(pattern: str) -> re.Pattern[str]:
    """Translate a pattern of `.dockerignore`: a shell pattern in which `**` matches any number of folders.

    Source: https://docs.docker.com/build/concepts/context/#dockerignore-files and, for `**` within a name,
    https://github.com/moby/patternmatcher
    """
    pattern = posixpath.normpath(pattern).strip("/")

    def translate(token: re.Match[str]) -> str:
        if token["folders"]:
            return ".*" if token.end() == len(pattern) else "(?:.*/)?"
        if token["group"]:
            return token["group"]
        return "[^/]*" if token["text"] else "[^/]" if token["character"] else re.escape(token["literal"])

    return re.compile(_TOKEN.sub(translate, pattern))
