"""Files to a volume and back, through one data loader."""

import filecmp
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench import tools
from bench.case import Arm, Case, Command, Scene
from bench.meter import BenchError
from trainstack.cli.transfers import data_loader
from trainstack.settings.loading.load import load
from trainstack.transfer.loader import MOUNT, Loader

NAMESPACE, VOLUME = "research", "training"
_FOLDER = ".trainstack-bench"
_SLICE = 64 << 20
SMALL_BYTES = 4 << 10


def write_files(folder: Path, count: int, size: int) -> None:
    """Write files of random content, at most 1,000 in each folder."""
    for number in range(count):
        place = folder / f"part-{number // 1000}"
        place.mkdir(parents=True, exist_ok=True)
        with (place / f"file-{number}").open("wb") as file:
            for start in range(0, size, _SLICE):
                file.write(os.urandom(min(_SLICE, size - start)))


@contextmanager
def uploads(scene: Scene, loader: Loader, *, count: int, size: int) -> Iterator[Sequence[Arm]]:
    """Yield the arms of an upload of new files."""
    source = scene.scratch / "source"
    write_files(source, count, size)
    try:
        yield [
            Arm(
                name=tools.TRAINSTACK,
                command=_ours(scene, loader, "upload", source, f"{_FOLDER}/ours"),
                prepare=partial(_clear, scene, loader, "ours"),
            ),
            Arm(
                name="kubectl cp",
                command=_cp(scene, loader, str(source), f"{loader.pod}:{MOUNT}/{_FOLDER}/cp"),
                prepare=partial(_clear, scene, loader, "cp"),
            ),
        ]
    finally:
        _inside(scene, loader, f"rm -rf {MOUNT}/{_FOLDER}")
        shutil.rmtree(source)


@contextmanager
def fetches(scene: Scene, loader: Loader, *, count: int, size: int) -> Iterator[Sequence[Arm]]:
    """Yield the arms of a fetch of files that this machine lacks. Raises BenchError if a file differs."""
    source, ours, cp = (scene.scratch / name for name in ("source", "fetched", "copied"))
    write_files(source, count, size)
    try:
        tools.run(_ours(scene, loader, "upload", source, f"{_FOLDER}/data"))
        yield [
            Arm(
                name=tools.TRAINSTACK,
                command=_ours(scene, loader, "fetch", ours, f"{_FOLDER}/data"),
                prepare=partial(shutil.rmtree, ours, ignore_errors=True),
            ),
            Arm(
                name="kubectl cp",
                command=_cp(scene, loader, f"{loader.pod}:{MOUNT}/{_FOLDER}/data", str(cp)),
                prepare=partial(shutil.rmtree, cp, ignore_errors=True),
            ),
        ]
        _ensure_same(source, ours, cp)
    finally:
        _inside(scene, loader, f"rm -rf {MOUNT}/{_FOLDER}")
        for folder in (source, ours, cp):
            shutil.rmtree(folder, ignore_errors=True)


def _ensure_same(source: Path, *copies: Path) -> None:
    names = [file.relative_to(source) for file in source.rglob("*") if file.is_file()]
    for copy in copies:
        _, *wrong = filecmp.cmpfiles(source, copy, [str(name) for name in names], shallow=False)
        if any(wrong):
            raise BenchError(f"{copy}: {sum(map(len, wrong))} of {len(names)} files differ or are missing")


def _ours(scene: Scene, loader: Loader, verb: str, local: Path, remote: str) -> Command:
    program = (sys.executable, "-m", "bench.programs.transfer_files")
    return scene.command(*program, verb, loader.namespace, loader.pod, str(local), remote)


def _cp(scene: Scene, loader: Loader, source: str, target: str) -> Command:
    return scene.command("kubectl", "cp", "-n", loader.namespace, "-c", loader.container, source, target)


def _inside(scene: Scene, loader: Loader, script: str) -> None:
    words = ("-n", loader.namespace, loader.pod, "-c", loader.container, "--", "sh", "-c", script)
    tools.run(scene.command("kubectl", "exec", *words))


def _clear(scene: Scene, loader: Loader, name: str) -> None:
    _inside(scene, loader, f"mkdir -p {MOUNT}/{_FOLDER} && rm -rf {MOUNT}/{_FOLDER}/{name}")


@contextmanager
def _with_loader(scene: Scene, *, upload: bool, count: int, size: int) -> Iterator[Sequence[Arm]]:
    """Run a loader in this process, which then uses the scene's cluster."""
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(scene.kubeconfig)
    try:
        with data_loader(load(scene.folder, "dev"), NAMESPACE, VOLUME) as loader:
            arms = uploads if upload else fetches
            with arms(scene, loader, count=count, size=size) as found:
                yield found
    finally:
        os.environ.pop("KUBECONFIG")
        if before is not None:
            os.environ["KUBECONFIG"] = before


def _cases() -> Iterator[Case]:
    for name, subject, count, size in (
        ("large", "a file of 2 GiB", 1, 2 << 30),
        ("many", "20,000 files of 4 KiB", 20_000, SMALL_BYTES),
    ):
        for verb, action in (("upload", "Upload"), ("fetch", "Fetch")):
            yield Case(
                id=f"{verb}-{name}",
                title=f"{action} of {subject}",
                subject="transfers",
                place="cluster",
                arms=partial(_with_loader, upload=verb == "upload", count=count, size=size),
                measure="wall",
                rounds=3,
                warm_up=False,
            )


CASES = tuple(_cases())
