"""A volume without a cluster: a folder, and a kubectl that runs the commands of `exec` on this machine."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from trainstack.cli.transfers import TerminalProgress
from trainstack.transfer import attempts, pod_script
from trainstack.transfer import loader as loader_module
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
"""The programs that a loader's image must have."""


@dataclass(frozen=True)
class FakeVolume:
    """A folder in place of the volume, and the programs of the loader's image."""

    root: Path
    programs: Path
    kubectl: Path
    patch: pytest.MonkeyPatch

    def set_stderr_timeout(self, seconds: float) -> None:
        """Kill a kubectl that runs this long after its connection broke; use less where its message is not needed."""
        self.patch.setattr(pod_script, "_STDERR_SECONDS", seconds)

    def kubectl_does(self, script: str) -> None:
        """Replace kubectl by a shell script in which `pod "$@"` runs the command of the pod."""
        self.kubectl.write_text(
            "#!/bin/sh\n"
            'while [ "$1" != -- ]; do shift; done; shift\n'
            f'pod() {{ PATH={self.programs} "$@"; }}\n'
            f"{script}\n"
        )
        self.kubectl.chmod(0o755)

    def program_does(self, name: str, script: str) -> None:
        """Replace a program of the image by a shell script in which `real "$@"` runs it."""
        program = self.programs / name
        real = program.readlink()
        program.unlink()
        program.write_text(f'#!/bin/sh\nreal() {{ {real} "$@"; }}\n{script}\n')
        program.chmod(0o755)

    def set_fetch(self, script: str) -> None:
        """Replace kubectl for fetches; other commands run unchanged."""
        self.kubectl_does(f'case "$*" in *"-cf -"*) ;; *) pod "$@"; exit;; esac\n{script}')


def make_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str = "busybox") -> FakeVolume:
    """Create a volume behind a loader of this image: `busybox`, as ours is, or `gnu`."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in _PROGRAMS:
        program = shutil.which("busybox" if image == "busybox" else name)
        if program is None:
            pytest.skip(f"this machine has no {image} {name}")
        (programs / name).symlink_to(program)
    volume = FakeVolume(tmp_path / "volume", programs, tmp_path / "kubectl", monkeypatch)
    volume.root.mkdir()
    volume.kubectl_does('pod "$@"')
    volume.set_stderr_timeout(0.5)
    monkeypatch.setattr(attempts, "PAUSES_SECONDS", (0, 0))
    monkeypatch.setattr(loader_module, "MOUNT", str(volume.root))
    monkeypatch.setattr(loader_module, "kubectl_command", lambda *words, context: [str(volume.kubectl), *words])
    return volume


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files by their relative paths."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
