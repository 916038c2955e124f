"""The file with the components' status, which a cluster's supervisor writes."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class ComponentStatus:
    """The status of a component's process."""

    name: str
    pid: int
    """0 unless it runs. In the file, the pid in the cluster's pid namespace; from `cluster.status`, on this machine."""
    ready: bool
    restarts: int
    exit: str
    """The reason of the last exit; empty before the first exit."""
    once: bool
    """Whether the component ends by itself after it succeeded."""


def write_atomically(path: Path, text: str) -> None:
    """Replace a file, so that a reader gets either the old or the new content."""
    temporary_file = path.with_name(f".{path.name}.{os.getpid()}")
    temporary_file.write_text(text)
    temporary_file.replace(path)


def write_status(path: Path, components: list[ComponentStatus]) -> None:
    write_atomically(path, json.dumps([asdict(component) for component in components], indent=1) + "\n")


def read_status(path: Path) -> list[ComponentStatus]:
    """Return the last status that the supervisor wrote; empty before the first."""
    try:
        return [ComponentStatus(**entry) for entry in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
