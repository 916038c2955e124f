"""The versions that registries offer beyond the pinned ones. The registries are those of the settings of go and uv."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trainstack.toolchain import go_toolchain
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.go_toolchain import Go
from trainstack.toolchain.pinned_versions import Version
from trainstack.toolchain.places import CHECKOUT
from trainstack.versions import parse_version

_CONCURRENCY = 8
_TIMEOUT_SECONDS = 120
_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""The name in a requirement, such as `pulumi>=3.250.0,<4`."""


@dataclass(frozen=True)
class NewerVersion:
    """A pinned version, and what its registry offers."""

    kind: str
    name: str
    pinned: str
    pinned_in: str
    """The file that pins it."""
    newest: str = ""
    """The highest release above the pinned one; empty if there is none."""
    pre_release: str = ""
    """The highest pre-release above the pinned version and `newest`; empty if there is none."""
    problem: str = ""
    """Why the registry's versions are unknown; empty otherwise."""


def find_newer_versions(pins: Sequence[Version]) -> list[NewerVersion]:
    """Return the pinned Go modules and Python packages with a newer version, or whose versions are unknown.

    Of the Python packages only those that pyproject.toml names are listed: `make lock` moves the others.

    Raises:
        ToolchainError: uv fails.
    """
    modules = [pin for pin in pins if pin.kind == "go"]
    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        go_versions = list(pool.map(partial(_newer_module, go_toolchain.choose_go()), modules))
    # uv reads the environment of the complete lock, which is the first that has a package.
    python_versions = list(_newer_packages({pin.name: pin for pin in reversed(pins) if pin.kind == "python"}))
    return [
        version
        for version in (*go_versions, *python_versions)
        if version.newest or version.pre_release or version.problem
    ]


def _newer_module(go: Go, pin: Version) -> NewerVersion:
    command = [str(go.executable), "list", "-m", "-e", "-versions", "-json", pin.name]
    try:
        result = subprocess.run(
            command, cwd=(CHECKOUT / pin.pinned_in).parent, env=go.environment(), capture_output=True, text=True,
            timeout=_TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        module: Mapping[str, Any] = json.loads(result.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return NewerVersion(pin.kind, pin.name, pin.version, pin.pinned_in, problem=" ".join(str(error).split()))
    if problem := (module.get("Error") or {}).get("Err"):
        return NewerVersion(pin.kind, pin.name, pin.version, pin.pinned_in, problem=" ".join(problem.split()))
    newest, pre_release = highest_versions(pin.version, module.get("Versions") or ())
    return NewerVersion(pin.kind, pin.name, pin.version, pin.pinned_in, newest, pre_release)


def highest_versions(pinned: str, offered: Iterable[str]) -> tuple[str, str]:
    """Return the highest release above a pinned version, and the highest pre-release above both; "" for none."""
    pinned_version = parse_version(pinned)
    if pinned_version is None:
        return "", ""
    versions = ((parse_version(text), text) for text in offered)
    newer = sorted((version, text) for version, text in versions if version is not None and version > pinned_version)
    newest = next((text for version, text in reversed(newer) if not version.prerelease), "")
    pre_release = newer[-1][1] if newer and newer[-1][0].prerelease else ""
    return newest, pre_release


def _newer_packages(pins: Mapping[str, Version]) -> Iterator[NewerVersion]:
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "pip", "list", "--outdated", "--format", "json", "--python", sys.executable]
    result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    if result.returncode:
        raise ToolchainError(f"`uv pip list --outdated` failed: {result.stderr.strip()[-600:]}")
    latest_versions = {package["name"]: package["latest_version"] for package in json.loads(result.stdout)}
    for name in sorted(_direct_dependencies() & latest_versions.keys() & pins.keys()):
        yield NewerVersion("python", name, pins[name].version, pins[name].pinned_in, latest_versions[name])


def _direct_dependencies() -> set[str]:
    body = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    project, groups = body["project"], body["dependency-groups"]
    requirements = [
        *project["dependencies"],
        *(requirement for extra in project["optional-dependencies"].values() for requirement in extra),
        *(requirement for group in groups.values() for requirement in group),
    ]
    return {match[0] for requirement in requirements if (match := _NAME.match(requirement))}
