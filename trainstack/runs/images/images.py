"""Names of the images that are built from this repository: pure functions of the files that go in.

An image is called `registry.local/trainstack/<name>:<tag>`; the tag is a digest of the Dockerfile, the files of its
context and the build arguments. So settings can name an image before anything is built, the same files have the same
name everywhere, and an edit makes another image, never another content under the same name.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

REGISTRY = "registry.local"
"""No such host exists: the local cluster takes every image from its own registry, whatever the host in the name."""
PROJECT = "trainstack"
BASE_RECIPE = Path(__file__).resolve().parents[3] / "trainstack" / "dev" / "cluster" / "containerfiles" / "base"
"""The folder whose content makes the base image: Debian with CPU PyTorch."""

_TAG_DIGITS = 16
_HEAD_BYTES = 1024
_ALWAYS_IGNORED = ("**/__pycache__", "**/*.pyc")
"""Made by running the program, not by writing it."""
_SETTINGS = PurePosixPath("workload.yaml")
"""The workload's settings: what they change about a run, its identity takes from the settings themselves."""


def base_reference() -> str:
    """Name of the base image: what `ARG BASE` of a workload's Dockerfile is set to here."""
    return reference("base", content_tag(BASE_RECIPE))


def workload_reference(folder: Path, registry: str = REGISTRY) -> str:
    """Name of the image that a workload's folder (with a Dockerfile) makes on our base image.

    Raises FileNotFoundError where the folder has no Dockerfile.
    """
    dockerfile = folder / "Dockerfile"
    if not dockerfile.is_file():
        raise FileNotFoundError(f"{dockerfile}: no such file; an image is built from a folder that has a Dockerfile")
    return reference(folder.resolve().name, content_tag(folder, {"BASE": base_reference()}), registry)


def reference(name: str, tag: str, registry: str = REGISTRY) -> str:
    """Full name of an image of this repository."""
    return f"{registry}/{PROJECT}/{name}:{tag}"


def content_tag(
    context: Path,
    build_args: Mapping[str, str] | None = None,
    *,
    dockerfile: Path | None = None,
    programs: Mapping[str, Path] | None = None,
) -> str:
    """Sixteen hex digits that name what is built from these inputs.

    `dockerfile` may lie outside the context; None: it is one of the context's files. `programs` are further files of
    the context by the name they have there. Times and owners do not count, and of the mode only "executable".
    """
    digest = hashlib.sha256()
    inputs = {path.as_posix(): context / path for path in context_files(context)}
    for name, path in sorted((inputs | dict(programs or {})).items()):
        _add(digest, "file", name, _mode(path), _content(path))
    if dockerfile is not None:
        _add(digest, "dockerfile", "", "", dockerfile.read_bytes())
    for key, value in sorted((build_args or {}).items()):
        _add(digest, "argument", key, "", value.encode())
    return digest.hexdigest()[:_TAG_DIGITS]


def context_files(context: Path) -> list[PurePosixPath]:
    """The files of a build context, sorted, relative: all but what `.dockerignore` or common sense leaves out.

    Links are named, not followed. The Dockerfile always belongs to it. The folder's `workload.yaml` and data manifests
    never do, whatever `.dockerignore` includes: the digest of the data is part of a run's identity already, and
    neither more memory nor other data may make another image.
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
    """Whether a file is a data manifest: JSON whose `files` give a `sha256` and a `size` for every name.

    The content decides, not the name: environments, too, name manifests, and the same folder must give the same image
    in all of them.
    """
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        if not file.read(_HEAD_BYTES).lstrip().startswith(b"{"):
            return False
    content = path.read_bytes()
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


def _content(path: Path) -> bytes:
    return str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()


def _add(digest: "hashlib._Hash", *parts: str | bytes) -> None:
    """Add parts with their lengths, so that no two inputs run together into the same bytes."""
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)


def _rules(context: Path) -> list[tuple[bool, re.Pattern[str]]]:
    """Patterns in order: whether one ignores, and what it matches."""
    file = context / ".dockerignore"
    lines: Sequence[str] = file.read_text().splitlines() if file.is_file() else ()
    stripped = [line.strip() for line in lines]
    patterns = [*_ALWAYS_IGNORED, *(line for line in stripped if line and not line.startswith("#"))]
    return [(not pattern.startswith("!"), _regex(pattern.removeprefix("!"))) for pattern in patterns]


def _is_ignored(path: PurePosixPath, rules: Sequence[tuple[bool, re.Pattern[str]]]) -> bool:
    """The last rule that matches the path, or a folder above it, decides."""
    verdict = False
    names = [path.as_posix(), *(parent.as_posix() for parent in path.parents if parent != PurePosixPath())]
    for ignores, pattern in rules:
        if any(pattern.fullmatch(name) for name in names):
            verdict = ignores
    return verdict


def _regex(pattern: str) -> re.Pattern[str]:
    """A pattern of `.dockerignore`: as a shell's, with `**` for any number of folders.

    Source: https://docs.docker.com/build/concepts/context/#dockerignore-files
    """
    rest = pattern.strip().strip("/").removeprefix("./")
    out = ""
    while rest:
        for token, translation in (("**/", "(?:.*/)?"), ("**", ".*"), ("*", "[^/]*"), ("?", "[^/]")):
            if rest.startswith(token):
                out, rest = out + translation, rest[len(token) :]
                break
        else:
            group = re.match(r"\[[^\]]+\]", rest)
            token = group.group() if group else rest[0]
            out, rest = out + (token if group else re.escape(token)), rest[len(token) :]
    return re.compile(out)
