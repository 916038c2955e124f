"""Checkpoints: the state from which a run resumes and reaches the same result as without an interruption.

They contain no state of random generators: the order of an epoch depends on seed and epoch alone, and the network uses
no random numbers.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ProgramError
from .metrics import Metrics, write_atomically
from .model import from_bytes, to_bytes

FILE = "checkpoint.pt"


@dataclass(kw_only=True)
class Progress:
    """The state of a run. `identity` must be equal in the run that saved it and the run that resumes."""

    identity: dict[str, Any]
    epoch: int = 0
    """Finished epochs."""
    step: int = 0
    """Finished steps of the current epoch."""
    loss_sums: list[float] = field(default_factory=list)
    """Sums of the losses of the images in the current epoch, by rank."""
    seconds: float = 0.0
    """Time spent on the current epoch."""
    history: list[Metrics] = field(default_factory=list)
    model: dict[str, Any] = field(default_factory=dict)
    momentum: dict[int, Any] = field(default_factory=dict)
    """The optimizer's state by parameter."""


def save(folder: Path, progress: Progress) -> None:
    """Replace the checkpoint atomically. Raises ProgramError."""
    plain = dict(vars(progress))
    tensors = {"model": plain.pop("model"), "momentum": plain.pop("momentum")}
    # JSON, because torch 1.13 cannot load floats with weights_only=True; JSON preserves their exact values.
    write_atomically(folder / FILE, to_bytes({**tensors, "plain": json.dumps(plain)}))


def read(folder: Path) -> bytes:
    """Return the checkpoint's bytes, or b"" if it does not exist. Raises ProgramError."""
    try:
        return (folder / FILE).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ProgramError(f"cannot read the checkpoint {folder / FILE}: {error}") from error


def restore(content: bytes, folder: Path, identity: dict[str, Any]) -> Progress:
    """Return the state in `content`, or an initial state if `content` is empty.

    Raises ProgramError if the checkpoint is damaged or of a different run: with other data or settings, the result
    would be one that no uninterrupted run has.
    """
    if not content:
        return Progress(identity=identity)
    where = f"the checkpoint {folder / FILE}"
    try:
        saved_file = from_bytes(content, where)
        progress = Progress(**json.loads(saved_file.pop("plain")), **saved_file)
    except (KeyError, TypeError, ValueError) as error:
        raise ProgramError(f"{where} is not of this program: {error}; delete it to restart the run") from error
    saved = progress.identity
    differences = [
        f"{key} is {identity[key]}, was {saved.get(key)}" for key in identity if saved.get(key) != identity[key]
    ]
    if differences:
        raise ProgramError(
            f"{where} is of a different run: {'; '.join(differences)}; set another --checkpoint, or delete this one to "
            "restart the run"
        )
    return progress
