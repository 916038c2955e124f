"""Copies of this repository's files in other projects, whose settings may not be links out of the project."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_into(folder: Path, *names: str) -> Path:
    """Copy files and folders of this repository, by their names in it, into a project; return its folder."""
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, place)
    return folder
