"""An official Pulumi on PATH, which is used as it is."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

OLDEST = (3, 250)
"""The Python SDK is 3.250.0. An older engine lacks calls that it makes: `on_error` hooks came with 3.250."""

BELOW_MAJOR = 4
"""A next major release may change the state's format, and a state that it wrote is lost to version 3."""

_VERSION = re.compile(r"v?(?P<major>\d+)\.(?P<minor>\d+)\.\d+")


@cache
def find(path: str | None = None) -> Path | None:
    """The first official `pulumi` of a supported version on PATH with its Python language host beside it.

    Our own engine may be on PATH too (`trainstack env` puts it there) and is passed over.

    Args:
        path: the folders to look in, by default the environment's PATH.
    """
    for folder in (path if path is not None else os.environ.get("PATH", "")).split(os.pathsep):
        candidate = Path(folder) / "pulumi"
        if (
            os.access(candidate, os.X_OK)
            and candidate.is_file()
            and _is_official(candidate)
            and _is_supported(candidate)
        ):
            return candidate
    return None


def supports(version: str) -> bool:
    """Whether a version, as `pulumi version` prints it, is one that this project works with."""
    match = _VERSION.match(version)
    return match is not None and OLDEST <= (int(match["major"]), int(match["minor"])) < (BELOW_MAJOR, 0)


def _is_official(pulumi: Path) -> bool:
    """Whether a language host lies beside it that is not our script."""
    for folder in (pulumi.parent, pulumi.resolve().parent):
        host = folder / "pulumi-language-python"
        if host.is_file():
            with host.open("rb") as opened:
                return b"toolchain.language_host" not in opened.read(4096)
    return False


def _is_supported(pulumi: Path) -> bool:
    try:
        asked = subprocess.run(
            [pulumi, "version"], env=os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"}, capture_output=True, text=True,
            check=False, timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0 and supports(asked.stdout.strip())
