"""A volume without a cluster: a folder, and a kubectl that runs what `exec` is told on this machine."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from trainstack.cli.transfers import TerminalProgress
from trainstack.transfer import loader as loader_module
from trainstack.transfer import pod_script, retry
from trainstack.transfer.errors import TransferError
from trainstack.transfer.loader import Loader

LOADER = Loader("research", "loader-1", None, TerminalProgress())


@contextmanager
def transfer_fails() -> Iterator[None]:
    """Expect a TransferError, and print its message as a command does."""
    with pytest.raises(TransferError) as caught:
        yield
    print(f"error: {caught.value}", file=sys.stderr)


_PROGRAMS = (
    *("sh", "base64", "dd", "find", "mkdir", "mv", "rm", "rmdir"),
    *("sha256sum", "sha512sum", "stat", "tail", "tar", "touch", "tr", "truncate", "wc", "xargs"),
)
"""All that a loader's image has to have."""


@dataclass(frozen=True)
class FakeVolume:
    """The folder that stands for the volume, and the programs of the image that stands for the loader's."""

    root: Path
    programs: Path
    kubectl: Path
    patch: pytest.MonkeyPatch

    def ended_after(self, seconds: float) -> None:
        """Kill a kubectl that goes on this long after its connection broke: less where its message is not awaited."""
        self.patch.setattr(pod_script, "_STDERR_SECONDS", seconds)

    def kubectl_does(self, script: str) -> None:
        """Change what kubectl does: a shell script, in which `pod "$@"` is what runs in the pod."""
        self.kubectl.write_text(
            "#!/bin/sh\n"
            'while [ "$1" != -- ]; do shift; done; shift\n'
            f'pod() {{ PATH={self.programs} "$@"; }}\n'
            f"{script}\n"
        )
        self.kubectl.chmod(0o755)

    def giving(self, script: str) -> None:
        """Change what kubectl does when files are fetched; else it runs what it is told."""
        self.kubectl_does(f'case "$*" in *"-cf -"*) ;; *) pod "$@"; exit;; esac\n{script}')


def make_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str = "busybox") -> FakeVolume:
    """A volume behind a loader of such an image: busybox, as ours is, or `gnu`."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in _PROGRAMS:
        found = shutil.which("busybox" if image == "busybox" else name)
        if found is None:
            pytest.skip(f"this machine has no {image} {name}")
        (programs / name).symlink_to(found)
    volume = FakeVolume(tmp_path / "volume", programs, tmp_path / "kubectl", monkeypatch)
    volume.root.mkdir()
    volume.kubectl_does('pod "$@"')
    volume.ended_after(0.5)
    monkeypatch.setattr(retry, "PAUSES_SECONDS", (0, 0))
    monkeypatch.setattr(loader_module, "MOUNT", str(volume.root))
    monkeypatch.setattr(loader_module, "kubectl_command", lambda *words, context: [str(volume.kubectl), *words])
    return volume


def write(folder: Path, files: dict[str, str]) -> Path:
    """Files by their relative paths."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
