"""Write the Python locks from pyproject.toml, keeping versions that still satisfy it."""

import subprocess
import sys
from pathlib import Path

from trainstack.dev.toolchain.places import CHECKOUT, GO_LOCK, REQUIREMENTS_LOCK

SITE_LOCK = REQUIREMENTS_LOCK.with_name("site.lock")
_GROUPS = {GO_LOCK: "go", SITE_LOCK: "site"}
"""The locks of one group of packages each."""
_OPTIONS = (
    # Valid for every system and every Python that the project supports.
    "--universal",
    "--generate-hashes",
    # Which index served the packages is this machine's business; the hashes say what they must be.
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-annotate",
    "--no-header",
    "--quiet",
)


def command(lock: Path) -> list[str]:
    """The uv command that makes one of the locks."""
    group = _GROUPS.get(lock)
    wanted = ["--group", f"pyproject.toml:{group}"] if group else ["pyproject.toml", "--group", "dev"]
    uv = str(Path(sys.executable).with_name("uv"))
    return [uv, "pip", "compile", *wanted, *_OPTIONS, "--output-file", str(lock.relative_to(CHECKOUT))]


def relock() -> int:
    """Write all locks; return uv's exit code."""
    for lock in (REQUIREMENTS_LOCK, *_GROUPS):
        # uv prints the lock too; the file is what is wanted.
        result = subprocess.run(command(lock), cwd=CHECKOUT, check=False, stdout=subprocess.DEVNULL)
        if result.returncode != 0:
            return result.returncode
    return 0
