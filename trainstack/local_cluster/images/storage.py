"""buildah with a storage of its own in the shared cache, in commands that leave no mount."""

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images.apt_sources import acquire_settings
from trainstack.toolchain.places import cache_root

Report = Callable[[str], None]

UNSHARE_COMMAND = (
    ("unshare", "--mount", "--propagation", "private") if os.geteuid() == 0 else ("buildah", "unshare", "--")
)
"""The prefix of a command that runs in a mount namespace of its own: buildah's mounts end with it, also after SIGKILL.

Users who are not root have a user namespace too, in which buildah can do everything but create device files.
"""
STAGE_MARK = "## "
"""The prefix of lines with a stage in a script's output. Other lines are only logged."""
LOG_TAIL_LINES = 15
CONTEXT_PREFIX = "context-"
"""The prefix of the names of staged build contexts in the storage's folder."""


@dataclass(frozen=True)
class ImageStorage:
    """The folder of all builds: buildah's storage, OCI layout, logs."""

    folder: Path

    @classmethod
    def shared(cls) -> "ImageStorage":
        return cls(cache_root() / "images")

    @property
    def layout(self) -> Path:
        """The OCI image layout with every image, compressed once for all registries."""
        return self.folder / "layout"

    def buildah(self, *arguments: str) -> list[str]:
        """Return a buildah command. With the prefix `UNSHARE_COMMAND`, it leaves no mount."""
        return [
            "buildah",
            f"--root={self.folder / 'storage'}",
            f"--runroot={self.folder / 'run'}",
            "--storage-driver=overlay",
            *arguments,
        ]

    def run(self, *arguments: str) -> str:
        return execute([*UNSHARE_COMMAND, *self.buildah(*arguments)])

    def has_image(self, image: str) -> bool:
        names = self.run("images", "--format", "{{.Name}}:{{.Tag}}")
        return image in names.splitlines()

    def remove_leftovers(self) -> None:
        """Remove the files and working containers of killed commands, but not those of live processes.

        The caller has locked the storage.
        """
        self._apt_conf.unlink(missing_ok=True)
        for context in self.folder.glob(f"{CONTEXT_PREFIX}*"):
            shutil.rmtree(context, ignore_errors=True)
        names = self.run("containers", "--format", "{{.ContainerName}}").splitlines()
        for name in names:
            if not _is_owner_alive(name):
                self.run("rm", name)

    @contextmanager
    def apt_settings(self) -> Iterator[Path]:
        """Yield a file with the settings that apt requires in an image, such as a proxy with its password."""
        settings = acquire_settings(execute(["apt-config", "dump"]))
        self._apt_conf.unlink(missing_ok=True)
        with open(self._apt_conf, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(settings)
        try:
            yield self._apt_conf
        finally:
            self._apt_conf.unlink(missing_ok=True)

    @property
    def _apt_conf(self) -> Path:
        return self.folder / "apt.conf"

    @contextmanager
    def lock(self, report: Report) -> Iterator[None]:
        """Lock the storage against other builders of this machine.

        Child processes inherit the lock: if this process is killed, the next builder waits for the children.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report("waiting for another process that is building images")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            fcntl.fcntl(descriptor, fcntl.F_SETFD, 0)  # no FD_CLOEXEC: children inherit it
            yield
        finally:
            os.close(descriptor)


def container_name(purpose: str) -> str:
    """Return a name for a working container, which contains this process's pid."""
    return f"trainstack-{os.getpid()}-{purpose}-{time.monotonic_ns():x}"


def _is_owner_alive(container: str) -> bool:
    """Return whether the process in a container's name still runs. Containers with other names are leftovers."""
    parts = container.split("-")
    return len(parts) > 2 and parts[0] == "trainstack" and Path(f"/proc/{parts[1]}").is_dir()


def execute(argv: Sequence[str]) -> str:
    """Run a command; return its output. Raises LocalClusterError. The command inherits the storage's lock."""
    try:
        result = subprocess.run(argv, capture_output=True, text=True, check=False, close_fds=False)
    except FileNotFoundError as error:
        raise _missing_program_error(argv, error) from error
    if result.returncode != 0:
        output = "\n".join((result.stderr or result.stdout).strip().splitlines()[-LOG_TAIL_LINES:])
        raise LocalClusterError(f"`{' '.join(argv)}` failed with exit code {result.returncode}:\n{output}")
    return result.stdout


def execute_logged(argv: Sequence[str], log: Path, report: Report) -> None:
    """Run a long command, report its stages with their durations, and log its output. Raises LocalClusterError."""
    stage, since = "", time.monotonic()
    with log.open("w") as log_file:
        try:
            process = subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, close_fds=False
            )
        except FileNotFoundError as error:
            raise _missing_program_error(argv, error) from error
        with process:
            for line in process.stdout or ():
                log_file.write(line)
                if line.startswith(STAGE_MARK):
                    if stage:
                        report(f"  {stage}: {time.monotonic() - since:.0f} s")
                    stage, since = line.removeprefix(STAGE_MARK).strip(), time.monotonic()
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
        raise LocalClusterError(f"{stage or argv[0]} failed with exit code {process.returncode}; log: {log}\n{tail}")
    if stage:
        report(f"  {stage}: {time.monotonic() - since:.0f} s")


def _missing_program_error(argv: Sequence[str], error: FileNotFoundError) -> LocalClusterError:
    return LocalClusterError(
        f"Container images cannot be built: a program of `{' '.join(argv[:8])} …` is missing ({error}); install the "
        "packages with `apt-get install buildah debootstrap debian-archive-keyring busybox-static`"
    )
