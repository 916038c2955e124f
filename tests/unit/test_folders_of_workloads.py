"""A workload's folder that has the name of a library module: the program and the command say so, and run nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFUSED = """\
folder 'workloads' has 2 faults:
  workloads/errors: the library has a module of this name, workloads/errors.py; rename the folder, and change the \
settings that name it (`from`, `image.build`, `data`)
  workloads/images: the library has a module of this name, workloads/images.py; rename the folder, and change the \
settings that name it (`from`, `image.build`, `data`)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """This checkout with two folders of a user's whose names are those of modules."""
    for path in ROOT.iterdir():
        if path.name not in ("workloads", "__main__.py") and not path.name.startswith("."):
            (tmp_path / path.name).symlink_to(path)
    # A link would put the folder that it leads to on the path.
    shutil.copy(ROOT / "__main__.py", tmp_path)
    shutil.copytree(ROOT / "workloads", tmp_path / "workloads", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("images", "errors"):
        (tmp_path / "workloads" / name).mkdir()
        (tmp_path / "workloads" / name / "__init__.py").touch()
    return tmp_path


@pytest.mark.parametrize("words", ["check -s dev", "render", "--help"])
def test_the_command_names_the_folders(checkout: Path, words: str) -> None:
    """All of them, without a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", *words.split()], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.stdout, done.returncode) == (f"error: {REFUSED}", "", 1)


def test_the_program_names_the_folders(checkout: Path) -> None:
    """As a RunError, whose text the engine prints without a traceback."""
    done = subprocess.run([sys.executable, "__main__.py"], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.stderr.endswith(f"\npulumi.errors.RunError: {REFUSED}")
    assert done.returncode == 1
