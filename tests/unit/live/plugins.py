"""Credential plugins: shell scripts that count their runs."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

API = "client.authentication.k8s.io/v1beta1"


def make_output(token: str | None = "good", expires_in: float | None = None, **changes: Any) -> str:
    """Return the output of a plugin; `changes` replace fields of the ExecCredential."""
    status: dict[str, Any] = {} if token is None else {"token": token}
    if expires_in is not None:
        status["expirationTimestamp"] = datetime.fromtimestamp(time.time() + expires_in, UTC).isoformat()
    return json.dumps({"apiVersion": API, "kind": "ExecCredential", "status": status, **changes})


def write_plugin(folder: Path, script: str) -> Path:
    """Write a plugin that appends a line to `runs` and then runs a script."""
    file = folder / "plugin"
    file.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}\n")
    file.chmod(0o755)
    return file


def printing(folder: Path, output: str) -> Path:
    """Write a plugin that prints a text, which `set_output` can change."""
    set_output(folder, output)
    return write_plugin(folder, f"cat {folder}/output")


def set_output(folder: Path, output: str) -> None:
    """Change what a plugin of `printing` prints."""
    (folder / "output.new").write_text(output)
    (folder / "output.new").rename(folder / "output")


def runs(folder: Path) -> int:
    """Return how often the plugin ran."""
    file = folder / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def make_user(command: object, **changes: Any) -> dict[str, Any]:
    """Return a kubeconfig's user with a plugin."""
    return {"exec": {"apiVersion": API, "command": str(command), "args": None, "env": None, **changes}}
