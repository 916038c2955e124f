"""Names of the images that are built from this repository: pure functions of the input files.

An image's name is `registry.local/trainstack/<name>:<tag>`. The tag is a digest of the Dockerfile, the files of the
build context and the build arguments, so settings can name an image before it is built, and an edit yields a new name.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from trainstack.files.regular import FileError, open_regular, read_bytes
from trainstack.files.replacement import LEFTOVER_PATTERN
from trainstack.runs.images.dockerignore import read_ignore_rules

REGISTRY = "registry.local"
"""A placeholder host: the local cluster pulls every image from its own registry, whatever the host in its name is."""
PROJECT = "trainstack"
BASE_RECIPE = Path(__file__).resolve().parents[3] / "trainstack" / "local_cluster" / "containerfiles" / "base"
"""The build context of the base image: Debian with CPU PyTorch."""

MAX_CONTEXT_BYTES = 64 << 30
"""The maximum total size of a build context. Reading that much takes about a minute."""
_MAX_DATA_MANIFEST_BYTES = 256 << 20
_BLOCK_BYTES = 1 << 20
_TAG_DIGITS = 16
_HEAD_BYTES = 1024
_SETTINGS_FILE = PurePosixPath("workload.yaml")
"""The workload's settings, which images exclude: a run's identity contains those that affect its result."""


def base_reference() -> str:
    """Return the name of the base image, the value of `ARG BASE` in a workload's Dockerfile."""
    return image_reference("base", content_tag(BASE_RECIPE))


def workload_reference(folder: Path, registry: str = REGISTRY) -> str:
    """Return the name of the image that is built from a workload's folder.

    Raises FileNotFoundError if the folder has no Dockerfile.
    """
    dockerfile = folder / "Dockerfile"
    if not dockerfile.is_file():
        raise FileNotFoundError(f"{dockerfile}: no such file; the folder of an image must contain a Dockerfile")
    return image_reference(folder.resolve().name, content_tag(folder, {"BASE": base_reference()}), registry)


def image_reference(name: str, tag: str, registry: str = REGISTRY) -> str:
    return f"{registry}/{PROJECT}/{name}:{tag}"


def content_tag(
    context: Path,
    build_args: Mapping[str, str] | None = None,
    *,
    programs: Mapping[str, Path] | None = None,
) -> str:
    """Return the tag of an image that is built from these inputs: 16 hexadecimal digits.

    `programs` are additional files by their names in the context. Times, owners and modes are ignored, except for the
    executable bit. Raises FileError if the context exceeds MAX_CONTEXT_BYTES.
    """
    digest = hashlib.sha256()
    inputs = {path.as_posix(): context / path for path in context_files(context)}
    if sum(path.lstat().st_size for path in inputs.values()) > MAX_CONTEXT_BYTES:
        raise FileError(context, f"is a build context of more than {MAX_CONTEXT_BYTES >> 30} GiB; ignore some of it")
    for name, path in sorted((inputs | dict(programs or {})).items()):
        _add_to_digest(digest, "file", name, _mode(path))
        _add_file_content(digest, path)
    for key, value in sorted((build_args or {}).items()):
        _add_to_digest(digest, "argument", key, "", value.encode())
    return digest.hexdigest()[:_TAG_DIGITS]


def context_files(context: Path) -> list[PurePosixPath]:
    """Return the files of a build context, relative to it and sorted, without ignored files.

    Symbolic links are not followed. The Dockerfile is always included. The folder's `workload.yaml`, data manifests and
    leftovers of killed commands are always excluded, even if `.dockerignore` includes them. A run's identity already
    contains the digest of the data, and an edit of the memory or of the data must not yield a new image.
    """
    ignore_rules = read_ignore_rules(context)
    paths = (
        PurePosixPath(path.relative_to(context).as_posix())
        for path in context.rglob("*")
        if path.is_symlink() or path.is_file()
    )
    return sorted(
        path
        for path in paths
        if path.as_posix() == "Dockerfile"
        or not (
            path == _SETTINGS_FILE
            or path.match(LEFTOVER_PATTERN)
            or ignore_rules.is_ignored(path.as_posix())
            or _is_data_manifest(context / path)
        )
    )


def _is_data_manifest(path: Path) -> bool:
    """Return whether a file is a data manifest: JSON whose `files` map names to entries with `sha256` and `size`.

    A manifest is identified by content, not by name. Each environment can name its own manifest, and the same folder
    must yield the same image in all environments.
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


def _add_to_digest(digest: "hashlib._Hash", *parts: str | bytes) -> None:
    """Add parts to a digest, with their lengths so that different inputs never yield the same bytes."""
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)


def _add_file_content(digest: "hashlib._Hash", path: Path) -> None:
    if path.is_symlink():
        _add_to_digest(digest, str(path.readlink()))
        return
    with open_regular(path) as file:
        digest.update(f"{os.fstat(file.fileno()).st_size}:".encode())
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
