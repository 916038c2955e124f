"""Where this installation of Trainstack came from, and what installs the same one elsewhere. Pure.

Source: https://packaging.python.org/en/latest/specifications/direct-url/
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

WHEELS = "wheels"
"""The folder of a project with the wheels that its requirements name."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_ADDRESS = re.compile(r"[A-Za-z0-9:/@._~%+-]+")
"""Addresses that are one word of a requirements file. Queries may be credentials, so they are not permitted."""
_WHEEL = re.compile(r"[A-Za-z0-9._+-]+\.whl")
_SUBDIRECTORY = re.compile(r"[A-Za-z0-9._/-]+")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What installs this Trainstack on another machine."""

    requirement: str = ""
    """A line of a requirements file: a file with its hash, or a commit."""
    wheel: Path | None = None
    """The file on this machine that the requirement expects in the project's folder of wheels."""
    problem: str = ""
    """Why there is no requirement; empty otherwise."""


class _OriginError(Exception):
    """The installation has no origin that another machine can install; the message is the reason."""


def read_origin(direct_url: str | None, hash_file: Callable[[Path], str | None]) -> Origin:
    """Return the origin from the text of `direct_url.json`; None: the file does not exist.

    `hash_file` returns the sha256 of a file, None if it cannot be read.
    """
    if direct_url is None:
        return Origin(problem="it was installed from a package index, and pip does not record the hash of the file")
    try:
        return _origin(dict(json.loads(direct_url)), hash_file)
    except _OriginError as error:
        return Origin(problem=str(error))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Origin(problem="its direct_url.json cannot be read")


def _origin(body: Mapping[str, Any], hash_file: Callable[[Path], str | None]) -> Origin:
    url = str(body["url"])
    if "dir_info" in body or not {"vcs_info", "archive_info"} & body.keys():
        raise _OriginError(f"it was installed from a folder, {url!r}")
    if not _ADDRESS.fullmatch(url):
        raise _OriginError(f"its address {url!r} has a query, or characters that a requirements file should not have")
    scheme = urlsplit(url).scheme
    if "vcs_info" in body:
        if body["vcs_info"].get("vcs") != "git" or not _COMMIT.fullmatch(str(body["vcs_info"].get("commit_id"))):
            raise _OriginError(f"it was installed from {url}, without a commit of git")
        if scheme == "file":
            raise _OriginError(f"it was installed from a repository on this machine, {url}")
        commit, fragment = body["vcs_info"]["commit_id"], _subdirectory(body)
        return Origin(requirement=f"trainstack @ git+{url}@{commit}{'#' if fragment else ''}{fragment}")
    return _local_wheel(url, body, hash_file) if scheme == "file" else _archive(url, body)


def _local_wheel(url: str, body: Mapping[str, Any], hash_file: Callable[[Path], str | None]) -> Origin:
    path = Path(unquote(urlsplit(url).path))
    if not _WHEEL.fullmatch(path.name):
        raise _OriginError(f"it was installed from {url}, which is no wheel")
    recorded_hash, file_hash = _recorded_hash(body), hash_file(path)
    if file_hash is None:
        raise _OriginError(f"the wheel from which it was installed, {url}, cannot be read any more")
    # uv records no hash.
    if recorded_hash not in ("", file_hash):
        raise _OriginError(f"the wheel {url} has changed since it was installed")
    return Origin(requirement=f"./{WHEELS}/{path.name} --hash=sha256:{file_hash}", wheel=path)


def _archive(url: str, body: Mapping[str, Any]) -> Origin:
    sha256 = _recorded_hash(body)
    if not sha256:
        raise _OriginError(f"the hash of {url}, from which it was installed, was not recorded")
    fragment = _subdirectory(body)
    return Origin(requirement=f"trainstack @ {url}{'#' if fragment else ''}{fragment} --hash=sha256:{sha256}")


def _subdirectory(body: Mapping[str, Any]) -> str:
    """Return the part of an address that names the folder of the project; empty for the top."""
    subdirectory = body.get("subdirectory")
    if subdirectory is None:
        return ""
    if not _SUBDIRECTORY.fullmatch(subdirectory):
        raise _OriginError(f"its folder {subdirectory!r} has characters that a requirements file should not have")
    return f"subdirectory={subdirectory}"


def _recorded_hash(body: Mapping[str, Any]) -> str:
    """Return the recorded sha256, of the present or the former form; empty if there is none."""
    archive = body["archive_info"] or {}
    recorded = (archive.get("hashes") or {}).get("sha256") or str(archive.get("hash", "")).removeprefix("sha256=")
    return recorded if _SHA256.fullmatch(recorded) else ""
