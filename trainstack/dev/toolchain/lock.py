"""The Python locks: exact versions with the hash of every accepted file."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainstack.dev.toolchain.errors import ToolchainError
from trainstack.dev.toolchain.places import REQUIREMENTS_LOCK

_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:(?P<digest>[0-9a-f]{64})\b")


@dataclass(frozen=True)
class Locked:
    name: str
    version: str
    hashes: frozenset[str]
    """sha256 digests in hex, one for each wheel or source archive."""


def parse(text: str) -> dict[str, Locked]:
    locked = {}
    joined = re.sub(r"\\\n\s*", "", text)
    for line in (line for line in joined.splitlines() if line.strip() and not line.startswith("#")):
        match = _REQUIREMENT.match(line)
        hashes = frozenset(found["digest"] for found in _HASH.finditer(line))
        if match is None or not hashes:
            raise ToolchainError(
                f"lock line {line[:60]!r} has no exact version or no hash: regenerate the lock with `make lock`"
            )
        locked[match["name"]] = Locked(match["name"], match["version"], hashes)
    return locked


@cache
def load(path: Path = REQUIREMENTS_LOCK) -> dict[str, Locked]:
    return parse(path.read_text())


def version(package: str, path: Path = REQUIREMENTS_LOCK) -> str:
    try:
        return load(path)[package].version
    except KeyError:
        raise ToolchainError(
            f"{path.name} does not contain {package}: add it to pyproject.toml and run `make lock`"
        ) from None
