"""The wheel contains the whole library and works without a checkout."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wheel import Built, add_bytecode, build

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {
    **{cluster: ("--profile", "owner", "--cluster", cluster) for cluster in ("kind", "eks", "gke", "aks")},
    "tenant": ("--profile", "tenant", "--cluster", "gke", "--namespace", "lab", "--queue", "lab", "-s", "dev"),
}
"""The options of `init` by the project's folder."""
COMMANDS = f"""
import os, runpy, sys, trainstack
from importlib.metadata import version

def run(*words):
    print("=====", flush=True)
    sys.argv = ["trainstack", *words]
    try:
        runpy.run_module("trainstack.cli", run_name="__main__")
    except SystemExit as ended:
        assert not ended.code, (words, ended.code)

print(trainstack.__file__, version("trainstack"))
for folder, options in {PROJECTS}.items():
    run("init", folder, *options)
    os.chdir(folder)
    run("check", "-s", "dev")
    run("render", "-s", "dev", "--without-releases")
    run("forecast", "-s", "dev")
    run("init", "--upgrade")
    os.chdir("..")
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


def test_projects_of_their_own_work_from_the_wheel(site: Path, tmp_path: Path) -> None:
    """In an empty repository, the installed code creates a project of each kind, checks, renders, forecasts, upgrades.

    Without a network and Go, each command succeeds.
    """
    repository, programs = tmp_path / "repository", tmp_path / "bin"
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    programs.mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    add_bytecode(site)
    environment = {**os.environ, "PATH": str(programs), "PYTHONPATH": str(site), "HTTPS_PROXY": "http://127.0.0.1:1"}
    program = [sys.executable, "-P", "-c", COMMANDS]
    process = subprocess.run(program, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    package, *outputs = process.stdout.split("=====\n")
    assert re.fullmatch(rf"{re.escape(str(site))}/trainstack/__init__\.py [0-9.]+\n", package)
    assert len(outputs) == 5 * len(PROJECTS)
    for number, project in enumerate(PROJECTS):
        _, checked, rendered, forecast, upgraded = outputs[5 * number : 5 * number + 5]
        verdict = "hello +unknown" if project == "tenant" else "hello +fits +on default"
        assert re.search(verdict, checked)
        kinds = {"kind: Job"} if project == "tenant" else {"kind: ClusterQueue", "kind: TrainJob"}
        assert {"name: training", *kinds} <= {line.strip() for line in rendered.splitlines()}
        # The wrapper is the installed one.
        assert "trainstack-wrapper-" in rendered
        assert re.search(r"^hello +\w+ +(now|-) ", forecast, re.MULTILINE)
        assert upgraded == ""
    # The releases of an owner's three operators are not built; a tenant's queue is unknown.
    findings = re.findall(r"dev: 0 errors, (\d) other finding", process.stderr)
    assert findings == ["1" if project == "tenant" else "3" for project in PROJECTS]
    # A project has only the files, and what git ignores.
    status = subprocess.run(
        ["git", "-C", str(repository), "status", "--short", "--untracked-files=all"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(status.stdout.splitlines()) == 8 * len(PROJECTS)
