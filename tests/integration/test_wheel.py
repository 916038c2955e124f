"""The wheel contains the whole library and works without a checkout."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wheel import Built, add_bytecode, build

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = """
import runpy, sys, trainstack
from importlib.metadata import version
print(trainstack.__file__, version("trainstack"))
for command in (
    ["init", "--profile", "owner", "--cluster", "kind"],
    ["init", "tenant", "--profile", "tenant", "--cluster", "gke", "--namespace", "lab", "--queue", "lab", "-s", "lab"],
    ["check", "-s", "dev"],
    ["render", "-s", "dev", "--without-releases"],
    ["init", "--upgrade"],
):
    print("=====", flush=True)
    sys.argv = ["trainstack", *command]
    try:
        runpy.run_module("trainstack.cli", run_name="__main__")
    except SystemExit as ended:
        assert not ended.code, ended.code
"""
"""The steps of `python -m trainstack.cli` in one process: its start takes longer than the commands."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the files of the checkout."""
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(built: Built) -> Path:
    """Unpack the wheel."""
    return built.site


def test_the_wheel_has_one_package_with_all_its_files(site: Path) -> None:
    """Every file of trainstack/ is in it, byte for byte, and nothing else is importable."""
    (package,) = (entry for entry in site.iterdir() if not entry.name.endswith(".dist-info"))
    assert package.name == "trainstack"
    files = {
        file.relative_to(ROOT): file.read_bytes()
        for file in (ROOT / "trainstack").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {file.relative_to(site): file.read_bytes() for file in package.rglob("*") if file.is_file()} == files


def test_the_source_archive_makes_the_same_wheel(built: Built) -> None:
    """It has the same files of the package, without links to missing files."""
    source, site = built.source, built.site
    packed = {file.relative_to(source): file for file in (source / "trainstack").rglob("*") if file.is_file()}
    assert {name: file.read_bytes() for name, file in packed.items()} == {
        file.relative_to(site): file.read_bytes() for file in (site / "trainstack").rglob("*") if file.is_file()
    }
    assert not [file for file in source.rglob("*") if file.is_symlink()]
    assert {"pyproject.toml", "README.md", "LICENSE"} <= {file.name for file in source.iterdir()}


def test_a_project_of_its_own_works_from_the_wheel(site: Path, tmp_path: Path) -> None:
    """In an empty repository, the installed code runs `trainstack init`, `check`, `render`, and an upgrade."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    add_bytecode(site)
    # No release is downloaded: the test uses no network.
    environment = {**os.environ, "PYTHONPATH": str(site), "HTTPS_PROXY": "http://127.0.0.1:1"}
    program = [sys.executable, "-P", "-c", COMMANDS]
    process = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    package, _, _, checked, rendered, upgraded = process.stdout.split("=====\n")
    assert re.fullmatch(rf"{re.escape(str(site))}/trainstack/__init__\.py [0-9.]+\n", package)
    assert "hello: fits: on default" in checked
    assert "dev: 0 errors, 1 other finding" in process.stderr
    assert {"name: training", "kind: ClusterQueue", "kind: Job"} <= {line.strip() for line in rendered.splitlines()}
    # The wrapper is the installed one.
    assert "trainstack-wrapper-" in rendered
    assert upgraded == ""
    assert (tmp_path / "tenant" / "Pulumi.lab.yaml").is_file()
    # The project has only the files, and what git ignores.
    status = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--short", "--untracked-files=all"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(status.stdout.splitlines()) == 16
