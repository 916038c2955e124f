"""What a cluster's supervisor tells, and the files it tells it in."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class ComponentStatus:
    """One component."""

    name: str
    pid: int
    """0 while it does not run. In the file: inside the cluster's namespace; from `cluster.status`: of this machine."""
    ready: bool
    restarts: int
    exit: str
    """How it last ended; empty if it never did."""
    once: bool
    """A step that ends when it is done."""


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that no reader ever sees half of it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(text)
    scratch.replace(path)


def write_status(path: Path, components: list[ComponentStatus]) -> None:
    """Supervisor's side."""
    write_atomically(path, json.dumps([asdict(component) for component in components], indent=1) + "\n")


def read_status(path: Path) -> list[ComponentStatus]:
    """Everybody else's side; empty before the first report."""
    try:
        return [ComponentStatus(**entry) for entry in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
