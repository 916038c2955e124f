"""How far a run is: all that is needed to go on from there to the same end.

Random numbers need no place in it: the order of an epoch comes from seed and epoch, and the net draws none.
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
    """State of a run. `identity` is what a resumed run must share with the one that saved it."""

    identity: dict[str, Any]
    epoch: int = 0
    """Finished epochs."""
    step: int = 0
    """Finished steps of the epoch that is under way."""
    loss_sums: list[float] = field(default_factory=list)
    """Of the epoch under way, by rank: the sum of its images' losses."""
    seconds: float = 0.0
    """Time spent on the epoch under way."""
    history: list[Metrics] = field(default_factory=list)
    model: dict[str, Any] = field(default_factory=dict)
    momentum: dict[int, Any] = field(default_factory=dict)
    """The optimizer's state by parameter."""


def save(folder: Path, progress: Progress) -> None:
    """Writes the checkpoint whole or not at all, over the previous one. Raises ProgramError."""
    plain = dict(vars(progress))
    tensors = {"model": plain.pop("model"), "momentum": plain.pop("momentum")}
    # As JSON, since torch 1.13 reads no float back without running code from the file; JSON keeps floats exactly.
    write_atomically(folder / FILE, to_bytes({**tensors, "plain": json.dumps(plain)}))


def read(folder: Path) -> bytes:
    """The checkpoint's bytes; empty where there is none. Raises ProgramError."""
    try:
        return (folder / FILE).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ProgramError(f"cannot read the checkpoint {folder / FILE}: {error}") from error


def restore(content: bytes, folder: Path, identity: dict[str, Any]) -> Progress:
    """The progress that `content` holds, or a fresh one where it is empty.

    Raises ProgramError when it is damaged or is another run's: going on with other data or settings gives a result
    that no single run would give.
    """
    if not content:
        return Progress(identity=identity)
    where = f"the checkpoint {folder / FILE}"
    try:
        saved_file = from_bytes(content, where)
        progress = Progress(**json.loads(saved_file.pop("plain")), **saved_file)
    except (KeyError, TypeError, ValueError) as error:
        raise ProgramError(f"{where} is not one of this program: {error}; delete it to begin again") from error
    saved = progress.identity
    other = [f"{key} is {identity[key]}, was {saved.get(key)}" for key in identity if saved.get(key) != identity[key]]
    if other:
        raise ProgramError(
            f"{where} is another run's: {'; '.join(other)}; use another --checkpoint or delete it to begin again"
        )
    return progress
