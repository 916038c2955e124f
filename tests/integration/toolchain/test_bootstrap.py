"""The Python with which `make venv` creates the environment."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainstack.toolchain.places import CHECKOUT

PROGRAMS = ("sh", "cat", "cut", "dirname", "flock", "id", "mkdir", "rm", "sha256sum")
FAKE = """#!/bin/sh
case "$2" in
import*) exec {python} -c "import sys; sys.version_info = {version}; exec(sys.argv[1])" "$2";;
esac
echo "used $0"
exit 9
"""
"""A Python of another version, which terminates the script when it is used."""


def bootstrap(folder: Path, pythons: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the script in an empty checkout, with these Pythons and few other programs on PATH; no apt-get."""
    programs, scripts = folder / "bin", folder / "checkout/trainstack/toolchain"
    for path in (programs, scripts):
        path.mkdir(parents=True)
    for name in PROGRAMS:
        (programs / name).symlink_to(shutil.which(name) or name)
    for name, version in pythons.items():
        (programs / name).write_text(FAKE.format(python=sys.executable, version=version))
        (programs / name).chmod(0o755)
    shutil.copy2(CHECKOUT / "trainstack/toolchain/bootstrap.sh", scripts)
    (scripts / "requirements.lock").touch()
    (folder / "checkout/pyproject.toml").touch()
    command = ["sh", str(scripts / "bootstrap.sh")]
    return subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("pythons", "used"),
    [
        ({"python3": "(3, 11, 2, 'final', 0)"}, "python3"),
        ({"python3": "(3, 12, 3, 'final', 0)"}, "python3"),
        ({"python3": "(3, 13, 5, 'final', 0)"}, "python3"),
        ({"python3": "(3, 10, 6, 'final', 0)", "python3.12": "(3, 12, 0, 'final', 0)"}, "python3.12"),
    ],
    ids=["Debian 12", "Ubuntu 24.04", "Debian 13", "Ubuntu 22.04 with another Python"],
)
def test_python_of_the_host(tmp_path: Path, pythons: dict[str, str], used: str) -> None:
    """`python3` if it is 3.11 or later, otherwise a later one by its name."""
    process = bootstrap(tmp_path, pythons)
    assert (process.returncode, process.stdout) == (9, f"used {tmp_path}/bin/{used}\n")


@pytest.mark.parametrize(
    "pythons", [{}, {"python3": "(3, 10, 6, 'final', 0)", "python3.11": "(3, 11, 0, 'candidate', 1)"}]
)
def test_too_old(tmp_path: Path, pythons: dict[str, str]) -> None:
    """Ubuntu 22.04 has 3.10, and a release candidate of 3.11.0, for which pip selects the packages of 3.10."""
    process = bootstrap(tmp_path, pythons)
    assert process.returncode == 1
    assert process.stderr == (
        "error: no Python 3.11 or later with the venv module on PATH; install it (Debian 12 and later, Ubuntu 24.04 "
        "and later: apt-get install python3 python3-venv)\n"
    )
