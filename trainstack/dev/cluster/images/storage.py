"""Run buildah in a storage of this project's own, in the shared cache, and leave no mount behind."""

import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.toolchain.places import cache_root

Report = Callable[[str], None]
"""Takes one line of progress."""

OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")
"""A mount namespace per command: what buildah mounts ends with it, also after SIGKILL."""
STAGE_MARK = "## "
"""How a script of ours announces a stage; the rest of what it says goes to the log."""
LOG_TAIL_LINES = 15


@dataclass(frozen=True)
class Storage:
    """The folder of all that is built: buildah's storage, OCI layout, logs."""

    folder: Path

    @classmethod
    def shared(cls) -> "Storage":
        """The one in the user's cache, shared between checkouts."""
        return cls(cache_root() / "images")

    @property
    def layout(self) -> Path:
        """OCI image layout: every image compressed once, ready for any registry."""
        return self.folder / "layout"

    def buildah(self, *arguments: str) -> list[str]:
        """Command line of buildah; with `OWN_MOUNTS` before it, it leaves no mount."""
        return [
            "buildah",
            f"--root={self.folder / 'storage'}",
            f"--runroot={self.folder / 'run'}",
            "--storage-driver=overlay",
            *arguments,
        ]

    def run(self, *arguments: str) -> str:
        """Output of one buildah command."""
        return execute([*OWN_MOUNTS, *self.buildah(*arguments)])

    def has(self, image: str) -> bool:
        """Whether buildah holds an image of this name."""
        listed = self.run("images", "--format", "{{.Name}}:{{.Tag}}")
        return image in listed.splitlines()

    def remove_leftovers(self) -> None:
        """Remove the working containers of commands that were killed; those of living processes stay."""
        names = self.run("containers", "--format", "{{.ContainerName}}").splitlines()
        for name in names:
            if not _is_alive(name):
                self.run("rm", name)

    @contextmanager
    def locked(self, report: Report) -> Iterator[None]:
        """Hold the storage against other builders of this machine; says so when it has to wait.

        What is run meanwhile inherits the lock: if this process is killed, the next waits for its children.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report("another process is building images; waiting for it")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            fcntl.fcntl(descriptor, fcntl.F_SETFD, 0)  # no FD_CLOEXEC: children inherit it
            yield
        finally:
            os.close(descriptor)


def container_name(purpose: str) -> str:
    """Name of a working container, from which its owner can be told."""
    return f"trainstack-{os.getpid()}-{purpose}-{time.monotonic_ns():x}"


def _is_alive(container: str) -> bool:
    """Whether the process that `container_name` names still runs; others' names count as left over."""
    parts = container.split("-")
    return len(parts) > 2 and parts[0] == "trainstack" and Path(f"/proc/{parts[1]}").is_dir()


def execute(argv: Sequence[str]) -> str:
    """Output of a command; an error names the command and what it said."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, close_fds=False)
    except FileNotFoundError as error:
        raise _missing(argv, error) from error
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-LOG_TAIL_LINES:])
        raise ClusterError(f"`{' '.join(argv)}` failed with exit code {done.returncode}:\n{said}")
    return done.stdout


def execute_logged(argv: Sequence[str], log: Path, report: Report) -> None:
    """Run a long command: its stages are reported with their durations, all it says goes to a log."""
    stage, since = "", time.monotonic()
    with log.open("w") as out:
        try:
            process = subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, close_fds=False
            )
        except FileNotFoundError as error:
            raise _missing(argv, error) from error
        with process:
            for line in process.stdout or ():
                out.write(line)
                if line.startswith(STAGE_MARK):
                    if stage:
                        report(f"  {stage}: {time.monotonic() - since:.0f} s")
                    stage, since = line.removeprefix(STAGE_MARK).strip(), time.monotonic()
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
        raise ClusterError(f"{stage or argv[0]} failed with exit code {process.returncode}; log: {log}\n{tail}")
    if stage:
        report(f"  {stage}: {time.monotonic() - since:.0f} s")


def _missing(argv: Sequence[str], error: FileNotFoundError) -> ClusterError:
    return ClusterError(
        f"Container images cannot be built: a program of `{' '.join(argv[:8])} …` is missing ({error}); "
        "install the packages: apt-get install buildah debootstrap debian-archive-keyring busybox-static"
    )
