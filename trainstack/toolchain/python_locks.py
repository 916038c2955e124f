"""The Python lock files: exact versions with the hash of every accepted file. uv makes them from pyproject.toml."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.places import CHECKOUT, GO_LOCK, REQUIREMENTS_LOCK

SITE_LOCK = REQUIREMENTS_LOCK.with_name("site.lock")
"""The lock of the packages that build the documentation site."""
RUNTIME_LOCK = REQUIREMENTS_LOCK.with_name("runtime.lock")
"""What the wheel depends on without extras, in the versions of the complete lock: for the requirements of projects."""
_GROUPS = {GO_LOCK: "go", SITE_LOCK: "site"}
"""The dependency group in pyproject.toml of each lock that has only one."""
_OPTIONS = (
    # Valid for every system and every Python that the project supports.
    "--universal",
    "--generate-hashes",
    # Each machine may use another index; the hashes identify the packages.
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-annotate",
    "--no-header",
    "--quiet",
)
_BUILD_BACKEND = "setuptools"
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+).*--hash=sha256:[0-9a-f]{64}\b")


def parse(text: str) -> dict[str, str]:
    """Return the version of each package."""
    versions = {}
    joined_text = re.sub(r"\\\n\s*", "", text)
    for line in (line for line in joined_text.splitlines() if line.strip() and not line.startswith("#")):
        match = _REQUIREMENT.match(line)
        if match is None:
            raise ToolchainError(
                f"lock line {line[:60]!r} has no exact version or no hash: regenerate the lock with `make lock`"
            )
        versions[match["name"]] = match["version"]
    return versions


@cache
def load(path: Path = REQUIREMENTS_LOCK) -> dict[str, str]:
    return parse(path.read_text())


def version(package: str, path: Path = REQUIREMENTS_LOCK) -> str:
    try:
        return load(path)[package]
    except KeyError:
        raise ToolchainError(
            f"{path.name} does not contain {package}: add it to pyproject.toml and run `make lock`"
        ) from None


def runtime_requirements() -> str:
    """Return the lines of a requirements file for what the wheel depends on and what builds it, with their hashes."""
    # One entry of the complete lock: the first line, and indented ones with the hashes.
    complete = REQUIREMENTS_LOCK.read_text(encoding="utf-8")
    build_backend = re.findall(rf"^{_BUILD_BACKEND}==.*\n(?: .*\n)+", complete, re.MULTILINE)
    return RUNTIME_LOCK.read_text(encoding="utf-8") + "".join(build_backend)


def compile_command(lock: Path) -> list[str]:
    """Return the uv command that makes a lock."""
    uv = str(Path(sys.executable).with_name("uv"))
    return [uv, "pip", "compile", *_sources(lock), *_OPTIONS, "--output-file", str(lock.relative_to(CHECKOUT))]


def _sources(lock: Path) -> list[str]:
    if group := _GROUPS.get(lock):
        return ["--group", f"pyproject.toml:{group}"]
    if lock == RUNTIME_LOCK:
        return ["pyproject.toml", "--constraint", str(REQUIREMENTS_LOCK.relative_to(CHECKOUT))]
    return ["pyproject.toml", "--all-extras", "--group", "dev"]


def write() -> int:
    """Write all locks; return uv's exit code."""
    for lock in (REQUIREMENTS_LOCK, RUNTIME_LOCK, *_GROUPS):
        # uv prints the lock too; the file is what is wanted.
        result = subprocess.run(compile_command(lock), cwd=CHECKOUT, check=False, stdout=subprocess.DEVNULL)
        if result.returncode != 0:
            return result.returncode
    return 0
