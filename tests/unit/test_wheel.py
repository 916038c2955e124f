"""The wheel holds the whole library and works without a checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import sys
from setuptools.build_meta import build_wheel
print(build_wheel(sys.argv[1]))
"""
COMMANDS = """
import runpy, sys, trainstack
print(trainstack.__file__)
for command in ("check", "render"):
    print("---", flush=True)
    sys.argv = ["trainstack", command, "-s", "lab"]
    try:
        runpy.run_module("trainstack.cli", run_name="__main__")
    except SystemExit as ended:
        assert not ended.code, ended.code
"""
"""As `python -m trainstack.cli` does, both in one process: to start it takes longer than what it does."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contents of the wheel that the checkout's tracked files build."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    command = [sys.executable, "-c", BUILD, str(folder)]
    built = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(folder / built.stdout.splitlines()[-1]) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


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


def test_the_command_works_from_the_wheel(site: Path, tmp_path: Path) -> None:
    """In a project that has an environment alone, `trainstack check` and `render` read it by the installed code."""
    config = "config: {trainstack:environment: {namespaces: [{name: research}]}}\n"
    (tmp_path / "Pulumi.yaml").write_text("{name: lab, runtime: python}\n")
    (tmp_path / "Pulumi.lab.yaml").write_text(config)
    environment = {**os.environ, "PYTHONPATH": str(site)}

    program = [sys.executable, "-P", "-c", COMMANDS]
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    file, checked, rendered = done.stdout.split("---\n", 2)
    assert file == f"{site}/trainstack/__init__.py\n"
    assert "no findings" in checked + done.stderr
    assert "name: research" in rendered
