"""kubectl with a local cluster, for objects of any kind."""

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainstack.local_cluster.api import Manifest
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.toolchain import tools

FIELD_MANAGER = "trainstack-site"
PAUSE_SECONDS = 0.5
TIMEOUT_SECONDS = 120.0
TRANSIENT_ERRORS = (
    "failed calling webhook", "no matches for kind", "no endpoints available", "ensure CRDs are installed first",
)  # fmt: skip
"""Parts of messages while an operator starts: the API server does not serve its kinds or webhooks yet."""


@dataclass(frozen=True)
class Kubectl:
    """kubectl with one kubeconfig. Its methods raise LocalClusterError."""

    kubeconfig: Path

    def __call__(self, *arguments: str) -> str:
        """Run a command; return its output."""
        result = self._run(arguments, None)
        if result.returncode:
            raise LocalClusterError(f"`kubectl {' '.join(arguments)}` failed: {result.stderr.strip()}")
        return result.stdout

    def apply(self, objects: Path | Sequence[Manifest]) -> None:
        """Apply a file or objects server-side, as the only owner of their fields. Retry while an operator starts."""
        file, stdin = str(objects), None
        if not isinstance(objects, Path):
            file, stdin = "-", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        arguments = ["apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}", "-f", file]
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (result := self._run(arguments, stdin)).returncode:
            if not any(text in result.stderr for text in TRANSIENT_ERRORS) or time.monotonic() > deadline:
                raise LocalClusterError(f"`kubectl {' '.join(arguments)}` failed: {result.stderr.strip()}")
            time.sleep(PAUSE_SECONDS)

    def exists(self, kind: str, name: str, namespace: str) -> bool:
        return bool(self("get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "name"))

    def _run(self, arguments: Sequence[str], stdin: str | None) -> "subprocess.CompletedProcess[str]":
        command = [str(tools.program("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
