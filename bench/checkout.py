"""A copy of this checkout's files, with its own state."""

import shutil
import subprocess
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCAL = (".venv", ".trainstack", "results", ".git")
"""Files that a copy omits: they belong to this machine, or to the other checkout."""


def copy(to: Path) -> None:
    """Copy what git would have here: tracked files, and new ones not ignored, and the library's bytecode."""
    words = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\n")
    # Compiling the library takes two seconds.
    bytecode = [cache_from_source(name) for name in names if name.startswith("trainstack/") and name.endswith(".py")]
    for name in filter(None, [*names, *bytecode]):
        if (ROOT / name).is_file() and not name.startswith(LOCAL):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    (to / ".venv").symlink_to(ROOT / ".venv")
    state = to / ".trainstack"
    state.mkdir()
    for shared in ("manifests", "cache"):
        if (ROOT / ".trainstack" / shared).exists():
            (state / shared).symlink_to(ROOT / ".trainstack" / shared)
    subprocess.run(["git", "init", "--quiet", str(to)], check=True)
