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
_URL = re.compile(r"[A-Za-z0-9:/@._~%+&?,=-]+")
"""Addresses that are one word of a shell, a requirements file and a workflow."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What installs this Trainstack on another machine."""

    requirement: str = ""
    """A line of a requirements file, with a hash."""
    source: str = ""
    """What pip builds, for lack of a wheel: a commit, or an archive with its hash."""
    wheel: Path | None = None
    """The file on this machine that the requirement expects in the project's folder of wheels."""
    problem: str = ""
    """Why there is neither a requirement nor a source; empty otherwise."""


def read_origin(direct_url: str | None, hash_file: Callable[[Path], str | None]) -> Origin:
    """Return the origin from the text of `direct_url.json`; None: the file does not exist.

    `hash_file` returns the sha256 of a file, None if it cannot be read.
    """
    if direct_url is None:
        return Origin(problem="it was installed from a package index, and pip does not record the hash of the file")
    try:
        return _origin(dict(json.loads(direct_url)), hash_file)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Origin(problem="its direct_url.json cannot be read")


def _origin(body: Mapping[str, Any], hash_file: Callable[[Path], str | None]) -> Origin:
    url = str(body["url"])
    if not _URL.fullmatch(url):
        return Origin(problem=f"its address {url!r} has characters that a requirements file does not permit")
    if "vcs_info" in body:
        return _from_commit(url, body)
    if "archive_info" in body:
        return _from_archive(url, _recorded_hash(body), hash_file)
    return Origin(problem=f"it was installed from a folder, {url}")


def _from_commit(url: str, body: Mapping[str, Any]) -> Origin:
    vcs, commit = body["vcs_info"].get("vcs"), str(body["vcs_info"].get("commit_id"))
    if vcs != "git" or not _COMMIT.fullmatch(commit):
        return Origin(problem=f"it was installed from {url}, without a commit of git")
    return Origin(source=f"trainstack @ git+{url}@{commit}")


def _from_archive(url: str, sha256: str, hash_file: Callable[[Path], str | None]) -> Origin:
    address = urlsplit(url)
    path, is_wheel = Path(unquote(address.path)), address.path.endswith(".whl")
    if address.scheme == "file":
        sha256 = sha256 or hash_file(path) or ""
        if not is_wheel:
            return Origin(problem=f"it was installed from {path}, which is no wheel")
    if not sha256:
        return Origin(problem=f"the hash of {url}, from which it was installed, is not known")
    if address.scheme == "file":
        return Origin(requirement=f"./{WHEELS}/{path.name} --hash=sha256:{sha256}", wheel=path)
    if is_wheel:
        return Origin(requirement=f"trainstack @ {url} --hash=sha256:{sha256}")
    return Origin(source=f"trainstack @ {url}#sha256={sha256}")


def _recorded_hash(body: Mapping[str, Any]) -> str:
    """Return the recorded sha256, of the present or the former form; empty if there is none."""
    archive = body["archive_info"] or {}
    recorded = (archive.get("hashes") or {}).get("sha256") or str(archive.get("hash", "")).removeprefix("sha256=")
    return recorded if _SHA256.fullmatch(recorded) else ""
