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
class VersionRange:
    """Supported versions: from a minor release up to a major one, which is excluded."""

    oldest: tuple[int, int]
    below_major: int

    def __contains__(self, version: str) -> bool:
        release = parse_release(version)
        return release is not None and self.oldest <= (release.major, release.minor) < (self.below_major, 0)

    def __str__(self) -> str:
        return f"v{self.oldest[0]}.{self.oldest[1]} or later, below v{self.below_major}"


SUPPORTED_PULUMI = VersionRange(oldest=(3, 250), below_major=4)
"""An engine before v3.250 lacks `on_error` hooks. The next major release may write a state that version 3 cannot
read."""

SUPPORTED_KUBECTL = VersionRange(oldest=(1, 29), below_major=2)
"""kubectl supports servers of its own minor release, one older and one newer, and clusters need Kubernetes 1.30
(docs/decisions/0013-least-privilege.md). The used commands (`create`, `delete`, server-side `apply`, and `exec` with
the text of an exit code) are the same in all supported releases. A cluster may be newer than the pinned release, so no
minor release is too new."""

_TIMEOUT_SECONDS = 30
"""How long a program may take to print its version."""


@dataclass(frozen=True)
class OfficialProgram:
    """A program on PATH that the toolchain did not put there."""

    path: Path
    version: str
    """As the program prints it; empty if it prints none."""

    def __str__(self) -> str:
        return f"{self.path.name} {self.version or 'of an unknown version'} ({self.path})"


@dataclass(frozen=True)
class PathSearch:
    """The result of a search on PATH."""

    program: OfficialProgram | None = None
    """The first supported program."""
    unsupported: OfficialProgram | None = None
    """The first unsupported program before it on PATH."""
    reason: str = ""
    """Why `unsupported` cannot be used, and the requirement."""


def pulumi(path: str | None = None) -> PathSearch:
    """Search the folders of `path`, by default PATH, for a Pulumi with its own language host."""
    return _find_pulumi(os.environ.get("PATH", "") if path is None else path)


def kubectl(path: str | None = None) -> PathSearch:
    """Search the folders of `path`, by default PATH, for a kubectl."""
    return _find_kubectl(os.environ.get("PATH", "") if path is None else path)


@cache
def _find_pulumi(path: str) -> PathSearch:
    unsupported, reason = None, ""
    for candidate in _candidates("pulumi", path):
        host = _read_language_host(candidate)
        if host is not None and b"toolchain.language_host" in host:
            continue
        program = OfficialProgram(candidate, _run_program([str(candidate), "version"]).strip())
        if host is not None and program.version in SUPPORTED_PULUMI:
            return PathSearch(program, unsupported, reason)
        if unsupported is None:
            problem = "its folder has no pulumi-language-python" if host is None else f"needed is {SUPPORTED_PULUMI}"
            unsupported, reason = program, problem
    return PathSearch(None, unsupported, reason)


@cache
def _find_kubectl(path: str) -> PathSearch:
    unsupported = None
    for candidate in _candidates("kubectl", path):
        program = OfficialProgram(candidate, _kubectl_version(candidate))
        if program.version in SUPPORTED_KUBECTL:
            return PathSearch(program, unsupported, f"needed is {SUPPORTED_KUBECTL}" if unsupported else "")
        unsupported = unsupported or program
    return PathSearch(None, unsupported, f"needed is {SUPPORTED_KUBECTL}" if unsupported else "")


def _candidates(name: str, path: str) -> list[Path]:
    """Return the programs of a name on PATH, except those of `trainstack env` and of the toolchain."""
    # Absolute, since the programs run in the project's folder.
    folders = [Path(folder).absolute() for folder in dict.fromkeys(path.split(os.pathsep)) if folder]
    # `which` ignores folders that cannot be read, as shells do.
    paths = (shutil.which(name, path=str(folder)) for folder in folders if not _is_toolchain_folder(folder))
    return [Path(program) for program in paths if program is not None]


def _is_toolchain_folder(folder: Path) -> bool:
    return folder.parts[-2:] == (".trainstack", "bin") or folder.is_relative_to(cache_root() / "tools")


def _read_language_host(pulumi: Path) -> bytes | None:
    """Return the first bytes of the language host in the folder of an engine, or of the file that it links to."""
    for folder in (pulumi.parent, pulumi.resolve().parent):
        host = folder / "pulumi-language-python"
        if host.is_file():
            with host.open("rb") as file:
                return file.read(4096)
    return None


def _kubectl_version(kubectl: Path) -> str:
    try:
        version = json.loads(_run_program([str(kubectl), "version", "--client", "--output=json"]))["clientVersion"]
        return str(version["gitVersion"])
    except (ValueError, KeyError, TypeError):
        return ""


def _run_program(command: list[str]) -> str:
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
