"""Find an official Pulumi on PATH."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

OLDEST = (3, 250)
"""The Python SDK is 3.250.0; an older engine lacks `on_error` hooks."""

BELOW_MAJOR = 4
"""The next major release may write a state that version 3 cannot read."""

_VERSION = re.compile(r"v?(?P<major>\d+)\.(?P<minor>\d+)\.\d+")


@cache
def find(path: str | None = None) -> Path | None:
    """Return the first official `pulumi` of a supported version in the folders of `path`, by default PATH.

    Our own engine, which `trainstack env` puts on PATH, is skipped.
    """
    for folder in (path if path is not None else os.environ.get("PATH", "")).split(os.pathsep):
        candidate = Path(folder) / "pulumi"
        executable = os.access(candidate, os.X_OK) and candidate.is_file()
        if executable and _is_official(candidate) and _is_supported(candidate):
            return candidate
    return None


def supports(version: str) -> bool:
    """Whether the project works with a version, as printed by `pulumi version`."""
    match = _VERSION.match(version)
    return match is not None and OLDEST <= (int(match["major"]), int(match["minor"])) < (BELOW_MAJOR, 0)


def _is_official(pulumi: Path) -> bool:
    """Whether the folder has a language host that is not our script."""
    for folder in (pulumi.parent, pulumi.resolve().parent):
        host = folder / "pulumi-language-python"
        if host.is_file():
            with host.open("rb") as opened:
                return b"toolchain.language_host" not in opened.read(4096)
    return False


def _is_supported(pulumi: Path) -> bool:
    try:
        result = subprocess.run(
            [pulumi, "version"], env=os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"}, capture_output=True, text=True,
            check=False, timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0 and supports(result.stdout.strip())
