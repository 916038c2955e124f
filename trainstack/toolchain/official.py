"""The official programs on PATH: `pulumi` and `kubectl` of supported versions."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainstack.toolchain.places import cache_root
from trainstack.versions import parse_release


@dataclass(frozen=True)
class Range:
    """Supported versions: from a minor release up to a major one, which is excluded."""

    oldest: tuple[int, int]
    below_major: int

    def __contains__(self, version: str) -> bool:
        release = parse_release(version)
        return release is not None and self.oldest <= (release.major, release.minor) < (self.below_major, 0)

    def __str__(self) -> str:
        return f"v{self.oldest[0]}.{self.oldest[1]} or later, below v{self.below_major}"


PULUMI = Range(oldest=(3, 250), below_major=4)
"""The Python SDK is 3.250.0; an older engine lacks `on_error` hooks. The next major release may write a state that
version 3 cannot read."""

KUBECTL = Range(oldest=(1, 29), below_major=2)
"""kubectl supports servers of its own minor release, one older and one newer, and clusters need Kubernetes 1.30
(docs/decisions/0013-least-privilege.md). The used commands (`create`, `delete`, server-side `apply`, and `exec` with
the text of an exit code) are the same in all supported releases. A cluster may be newer than the pinned release, so no
minor release is too new."""

_TIMEOUT_SECONDS = 30
"""How long a program may take to print its version."""


@dataclass(frozen=True)
class Program:
    """A program on PATH that the toolchain did not put there."""

    path: Path
    version: str
    """As the program prints it; empty if it prints none."""

    def __str__(self) -> str:
        return f"{self.path.name} {self.version or 'of an unknown version'} ({self.path})"


@dataclass(frozen=True)
class Search:
    """The result of a search on PATH."""

    program: Program | None = None
    """The first supported program."""
    unsupported: Program | None = None
    """The first unsupported program before it on PATH."""
    reason: str = ""
    """Why `unsupported` cannot be used, and the requirement."""


def pulumi(path: str | None = None) -> Search:
    """Search the folders of `path`, by default PATH, for a Pulumi with its own language host."""
    return _find_pulumi(os.environ.get("PATH", "") if path is None else path)


def kubectl(path: str | None = None) -> Search:
    """Search the folders of `path`, by default PATH, for a kubectl."""
    return _find_kubectl(os.environ.get("PATH", "") if path is None else path)


@cache
def _find_pulumi(path: str) -> Search:
    unsupported, reason = None, ""
    for candidate in _candidates("pulumi", path):
        host = _language_host(candidate)
        if host is not None and b"toolchain.language_host" in host:
            continue
        program = Program(candidate, _output([str(candidate), "version"]).strip())
        if host is not None and program.version in PULUMI:
            return Search(program, unsupported, reason)
        if unsupported is None:
            lacking = "its folder has no pulumi-language-python" if host is None else f"needed is {PULUMI}"
            unsupported, reason = program, lacking
    return Search(None, unsupported, reason)


@cache
def _find_kubectl(path: str) -> Search:
    unsupported = None
    for candidate in _candidates("kubectl", path):
        program = Program(candidate, _kubectl_version(candidate))
        if program.version in KUBECTL:
            return Search(program, unsupported, f"needed is {KUBECTL}" if unsupported else "")
        unsupported = unsupported or program
    return Search(None, unsupported, f"needed is {KUBECTL}" if unsupported else "")


def _candidates(name: str, path: str) -> list[Path]:
    """Return the programs of a name on PATH, except those of `trainstack env` and of the toolchain."""
    # Absolute, since the programs run in the project's folder.
    folders = [Path(folder).absolute() for folder in dict.fromkeys(path.split(os.pathsep)) if folder]
    # `which` ignores folders that cannot be read, as shells do.
    found = (shutil.which(name, path=str(folder)) for folder in folders if not _is_ours(folder))
    return [Path(program) for program in found if program is not None]


def _is_ours(folder: Path) -> bool:
    return folder.parts[-2:] == (".trainstack", "bin") or folder.is_relative_to(cache_root() / "tools")


def _language_host(pulumi: Path) -> bytes | None:
    """Return the first bytes of the language host in the folder of an engine, or of the file that it links to."""
    for folder in (pulumi.parent, pulumi.resolve().parent):
        host = folder / "pulumi-language-python"
        if host.is_file():
            with host.open("rb") as opened:
                return opened.read(4096)
    return None


def _kubectl_version(kubectl: Path) -> str:
    try:
        version = json.loads(_output([str(kubectl), "version", "--client", "--output=json"]))["clientVersion"]
        return str(version["gitVersion"])
    except (ValueError, KeyError, TypeError):
        return ""


def _output(command: list[str]) -> str:
    """Return the output of a program; "" if it fails."""
    environment = os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        result = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False, timeout=_TIMEOUT_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout if result.returncode == 0 else ""
