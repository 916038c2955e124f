"""How fast `trainstack upload` and `fetch` move a big file, beside `kubectl cp` of the same file to the same volume.

    .venv/bin/python -m bench.transfer training -s dev          # a table
    .venv/bin/python -m bench.transfer training -s dev --json   # for programs

The environment must be up, and its volume have room for twice the file. Nothing else should run on the machine. Both
go in pairs, one right after the other through one data loader, so that what slows the machine down slows both; the
ratio of each pair tells machines apart from changes of ours. What `kubectl cp` does not do is in ours: every byte is
hashed on both sides.
"""

import hashlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.results import run, show
from trainstack.cli.session import Session, StackOption
from trainstack.cli.transfers import data_loader
from trainstack.transfer.fetch import fetch
from trainstack.transfer.kubectl import kubectl_command
from trainstack.transfer.loader import MOUNT, Loader
from trainstack.transfer.upload import upload

_FOLDER = ".trainstack-bench"
_SLICE = 64 << 20


def kubectl(loader: Loader, *words: str) -> None:
    """Run kubectl; ends the program, with what it said, when it fails."""
    done = subprocess.run(kubectl_command(*words, context=loader.context), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"`kubectl {' '.join(words)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def seconds(work: Callable[[], Any]) -> float:
    """How long it takes."""
    began = time.monotonic()
    work()
    return round(time.monotonic() - began, 3)


def sha256(file: Path) -> str:
    """The file's digest."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def measure(loader: Loader, size: int, times: int, folder: Path) -> dict[str, Any]:
    """Every time in seconds, and the median of the ratios kubectl cp / ours of each pair, both ways.

    Ends the program when a file comes back as another.
    """
    source, back = folder / "source", folder / "back"
    source.mkdir()
    file = source / "file"
    with file.open("wb") as out:
        for _ in range(size // _SLICE):
            out.write(os.urandom(_SLICE))
    there = f"{MOUNT}/{_FOLDER}"
    pod = ("-n", loader.namespace, "-c", loader.container)

    def inside(script: str) -> None:
        kubectl(loader, "exec", "-n", loader.namespace, loader.pod, "-c", loader.container, "--", "sh", "-c", script)

    took: dict[str, list[float]] = {"upload": [], "cp_to": [], "fetch": [], "cp_from": []}
    try:
        for _ in range(times):
            inside(f"rm -rf {there} && mkdir {there}")
            took["cp_to"].append(
                seconds(lambda: kubectl(loader, "cp", *pod, str(file), f"{loader.pod}:{there}/copied"))
            )
            took["upload"].append(seconds(lambda: upload(loader, source, _FOLDER)))
            took["cp_from"].append(
                seconds(lambda: kubectl(loader, "cp", *pod, f"{loader.pod}:{there}/copied", str(folder / "copied")))
            )
            took["fetch"].append(seconds(lambda: fetch(loader, f"{_FOLDER}/file", back)))
            if not sha256(file) == sha256(back / "file") == sha256(folder / "copied"):
                raise SystemExit("a file came back as another")
            (back / "file").unlink()
            (folder / "copied").unlink()
    finally:
        inside(f"rm -rf {there}")
    ratios = {
        ours: statistics.median(theirs / our for our, theirs in zip(took[ours], took[cp], strict=True))
        for ours, cp in (("upload", "cp_to"), ("fetch", "cp_from"))
    }
    return {"bytes": size, "seconds": took, "ratio": {name: round(ratio, 2) for name, ratio in ratios.items()}}


def main(
    volume: Annotated[str, typer.Argument(help="A claim of the environment.")],
    *,
    stack: StackOption,
    size: Annotated[int, typer.Option(help="Size of the file in MiB, a multiple of 64.")] = 2048,
    times: Annotated[int, typer.Option(help="Pairs; the median of their ratios counts.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure transfers of a big file."""
    settings = Session.open(stack).settings
    claim = next((each for each in settings.storage.volumes if each.name == volume), None)
    if claim is None:
        raise SystemExit(f"{stack} has no volume {volume}")
    with data_loader(settings, claim.namespace, volume) as loader, tempfile.TemporaryDirectory() as folder:
        result = measure(loader, size << 20, times, Path(folder))
    words = (("upload", "upload"), ("kubectl cp to it", "cp_to"), ("fetch", "fetch"), ("kubectl cp from it", "cp_from"))
    took = [(name, result["seconds"][key]) for name, key in words]
    rows = [(name, f"{statistics.median(each):.2f} s", each) for name, each in took]
    rows += [(f"{name}, to kubectl cp", f"{ratio:.2f}", ()) for name, ratio in result["ratio"].items()]
    show(result, rows, as_json=as_json)


if __name__ == "__main__":
    run(main)
