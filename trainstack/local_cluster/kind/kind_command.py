"""The program `kind`: its version, and its commands to create and delete clusters."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainstack.local_cluster.command import execute
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.kind.engine import TIMEOUT_SECONDS, ContainerEngine
from trainstack.versions import parse_release

OLDEST_VERSION = (0, 24)
"""The oldest supported version: its nodes have Kubernetes 1.31, and a provisioner that supports a shared folder."""
_INSTALL = (
    f"install kind v{OLDEST_VERSION[0]}.{OLDEST_VERSION[1]} or later: `go install sigs.k8s.io/kind@v0.30.0`, or a "
    "release from https://kind.sigs.k8s.io"
)
_VERSION = re.compile(r"kind (?P<version>v\S+)")
_STEP = re.compile(r"^ ✓ (?P<text>[ -~]+)")
"""kind's line about a completed step, without the emoji at its end."""
DELETE_SECONDS = 300.0
"""Timeout of a deletion, in which the engine stops the node with all its pods."""
_TAIL_LINES = 15
_REMEDIES = (
    (
        "failed to pull image",
        "the node image cannot be downloaded: check the network and its proxy, or name another one with --node-image",
    ),
    (
        r"port is already allocated|address already in use",
        "another program uses the port; run the command again, which chooses other ports",
    ),
    (
        "too many open files",
        "raise the limit of inotify instances: `sudo sysctl fs.inotify.max_user_instances=512`",
    ),
    (
        "failed to init node with kubeadm",
        "the log has the output of kubeadm, which waits 4 minutes; on a busy machine, run the command again",
    ),
    (r"/lib/modules", "the engine mounts /lib/modules into nodes; create the folder: `sudo mkdir -p /lib/modules`"),
)
"""Patterns in kind's output, with a remedy each."""


@dataclass(frozen=True)
class KindProgram:
    """kind with one container engine. Its methods raise LocalClusterError."""

    engine: ContainerEngine

    def clusters(self) -> list[str]:
        return self._run("get", "clusters").split()

    def create(self, config: Path, kubeconfig: Path, image: str, log: Path, report: Callable[[str], None]) -> None:
        """Create a cluster, and report the steps. If it fails, kind removes the nodes.

        An empty `image` means kind's default node image. There is no timeout, because kind may download the image.
        """
        arguments = ["create", "cluster", f"--config={config}", f"--kubeconfig={kubeconfig}"]
        command = ["kind", *arguments, *([f"--image={image}"] if image else [])]
        started_at, lines = time.monotonic(), []
        with (
            log.open("w", encoding="utf-8") as file,
            subprocess.Popen(
                command, env=self.engine.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace",
            ) as process,
        ):  # fmt: skip
            for line in process.stdout or ():
                file.write(line)
                lines.append(line.rstrip())
                if step := _STEP.match(line):
                    report(f"{time.monotonic() - started_at:5.1f} s  {step['text'].strip()}")
        if process.returncode != 0:
            output = "\n".join(lines)
            remedy = next((text for pattern, text in _REMEDIES if re.search(pattern, output)), "")
            tail = "\n".join(lines[-_TAIL_LINES:])
            raise LocalClusterError(f"kind could not create the cluster. End of {log}:\n{tail}", remedy)

    def delete(self, name: str, kubeconfig: Path) -> None:
        arguments = ("delete", "cluster", f"--name={name}", f"--kubeconfig={kubeconfig}")
        self._run(*arguments, timeout_seconds=DELETE_SECONDS)

    def _run(self, *arguments: str, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
        result = execute(["kind", *arguments], timeout_seconds, self.engine.environment())
        if result.returncode != 0:
            raise LocalClusterError(f"`kind {' '.join(arguments)}` failed: {result.stderr.strip()}")
        return result.stdout


def check_version() -> None:
    """Raise LocalClusterError unless a supported version of kind is on PATH."""
    if shutil.which("kind") is None:
        raise LocalClusterError("kind is not on PATH", _INSTALL)
    result = execute(["kind", "version"], TIMEOUT_SECONDS)
    output = result.stdout.strip()
    match = _VERSION.match(output)
    release = parse_release(match["version"]) if match else None
    if release is None or (release.major, release.minor) < OLDEST_VERSION:
        raise LocalClusterError(f"{shutil.which('kind')} is not supported (`kind version` prints {output!r})", _INSTALL)
