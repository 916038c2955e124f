"""kubectl on the local cluster, for objects of any kind."""

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.toolchain import tools

Manifest = dict[str, Any]
FIELD_MANAGER = "trainstack-site"
PAUSE_SECONDS = 0.5
TIMEOUT_SECONDS = 120.0
PASSING = ("failed calling webhook", "no matches for kind", "no endpoints available", "ensure CRDs are installed first")
"""What is said while an operator is coming up: its kinds or webhooks do not answer yet."""


@dataclass(frozen=True)
class Kubectl:
    """The administrator's kubectl."""

    kubeconfig: Path

    def __call__(self, *words: str) -> str:
        """What it prints. Raises ClusterError with what it said."""
        done = self._run(words, None)
        if done.returncode:
            raise ClusterError(f"`kubectl {' '.join(words)}` failed: {done.stderr.strip()}")
        return done.stdout

    def apply(self, objects: Path | Sequence[Manifest]) -> None:
        """Server-side apply of a file or of objects, as their only owner; tried again while an operator comes up."""
        file, stdin = str(objects), None
        if not isinstance(objects, Path):
            file, stdin = "-", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        words = ["apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}", "-f", file]
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (done := self._run(words, stdin)).returncode:
            if not any(each in done.stderr for each in PASSING) or time.monotonic() > deadline:
                raise ClusterError(f"`kubectl {' '.join(words)}` failed: {done.stderr.strip()}")
            time.sleep(PAUSE_SECONDS)

    def exists(self, kind: str, name: str, namespace: str) -> bool:
        """Whether there is such an object."""
        return bool(self("get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "name"))

    def _run(self, words: Sequence[str], stdin: str | None) -> "subprocess.CompletedProcess[str]":
        program = [str(tools.program("kubectl")), f"--kubeconfig={self.kubeconfig}"]
        return subprocess.run([*program, *words], input=stdin, capture_output=True, text=True, check=False)
