"""metrics.jsonl: one JSON line per epoch, and a last one for the test."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from .errors import ProgramError

FILE = "metrics.jsonl"
Metrics = dict[str, float | int]
"""One line. Per epoch: epoch, step (since the run began), train_loss, val_loss, val_accuracy, seconds. At the end:
epoch, step, test_loss, test_accuracy."""


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file that appears whole or not at all, also when the machine stops. Raises ProgramError."""
    temporary = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True) if path.parent.is_dir() and os.access(path.parent, os.W_OK) else None
        raise ProgramError(f"cannot write {path}: {error}; is the volume mounted, writable and not full?") from error


def write(folder: Path, history: Sequence[Metrics]) -> None:
    """Writes the whole history. The checkpoint carries it, so a resumed run has no line twice and misses none."""
    write_atomically(folder / FILE, "".join(json.dumps(line) + "\n" for line in history).encode())
