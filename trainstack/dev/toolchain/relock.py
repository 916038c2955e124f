"""`make lock`: regenerate the Python locks from pyproject.toml, keeping versions that still fit."""

import subprocess
import sys
from pathlib import Path

from trainstack.dev.toolchain.places import CHECKOUT, GO_LOCK, REQUIREMENTS_LOCK

_OPTIONS = (
    # Valid for every system and every Python that the project supports.
    "--universal",
    "--generate-hashes",
    # The index depends on the machine; the hashes identify the packages.
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-annotate",
    "--no-header",
    "--quiet",
)


def command(lock: Path) -> list[str]:
    sources = ["--group", "pyproject.toml:go"] if lock == GO_LOCK else ["pyproject.toml", "--group", "dev"]
    uv = str(Path(sys.executable).with_name("uv"))
    return [uv, "pip", "compile", *sources, *_OPTIONS, "--output-file", str(lock.relative_to(CHECKOUT))]


def main() -> int:
    for lock in (REQUIREMENTS_LOCK, GO_LOCK):
        # uv also prints the lock.
        result = subprocess.run(command(lock), cwd=CHECKOUT, check=False, stdout=subprocess.DEVNULL)
        if result.returncode != 0:
            return result.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
