"""Build the wheel and the source archive from the checkout's files."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = """
import sys
from setuptools.build_meta import build_sdist, build_wheel
folder = sys.argv[1]  # setuptools replaces the arguments
for name in (build_wheel(folder), build_sdist(folder)):
    print(name)
"""


@dataclass(frozen=True)
class Built:
    """The folders with the contents of the wheel and of the source archive."""

    site: Path
    source: Path


def build(folder: Path) -> Built:
    """Build and unpack both in an empty folder."""
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
    wheel, archive = (folder / name for name in built.stdout.splitlines()[-2:])
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder / "site")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "archive", filter="data")
    (unpacked,) = (folder / "archive").iterdir()
    return Built(folder / "site", unpacked)


def add_bytecode(site: Path) -> None:
    """Add the checkout's bytecode to an unpacked wheel: compiling the library takes two seconds."""
    for file in (site / "trainstack").rglob("*.py"):
        original = ROOT / file.relative_to(site)
        compiled = Path(cache_from_source(str(original)))
        if compiled.is_file():
            # Python compares the time and the size of the source with those in the bytecode.
            shutil.copystat(original, file)
            (file.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copyfile(compiled, file.parent / "__pycache__" / compiled.name)
