"""metrics.jsonl: one line of JSON per epoch, and a last line for the test."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from .errors import ProgramError

FILE = "metrics.jsonl"
Metrics = dict[str, float | int]
"""One line. For an epoch: epoch, step (since the start of the run), train_loss, val_loss, val_accuracy, seconds. For
the test: epoch, step, test_loss, test_accuracy."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically, even if the node crashes. Raises ProgramError."""
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
        raise ProgramError(
            f"cannot write {path}: {error}; the volume must be mounted, writable and not full"
        ) from error


def write(folder: Path, history: Sequence[Metrics]) -> None:
    """Write the whole history. It is also in the checkpoint, so a resumed run neither repeats nor omits a line."""
    write_atomically(folder / FILE, "".join(json.dumps(line) + "\n" for line in history).encode())
