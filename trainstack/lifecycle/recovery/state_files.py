"""Reading a folder of states: its locks, and what a kill may have left unfinished. Nothing is written."""

import gzip
import json
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from trainstack.lifecycle.recovery.files import Lock, StateFiles

_PROJECT = "trainstack"
"""As Pulumi.yaml names it: the engine's folder for the project's stacks."""
_ENGINE = "pulumi"
"""The name of the engine's process."""


def state_folder(url: str) -> Path | None:
    """The folder that a backend's URL names; None for a backend that is no folder."""
    if not url.startswith("file://"):
        return None
    parts = urlsplit(url)
    return Path(unquote(parts.netloc + parts.path)).expanduser()


def read_state_files(folder: Path, stack: str) -> StateFiles:
    """The files of one stack. What is not there is nothing to tell of."""
    base = folder / ".pulumi"
    stacks = base / "stacks" / _PROJECT
    # The engine takes the newest of the forms that there are (state.go, stackPath).
    forms = [file for end in ("", ".gz") if (file := stacks / f"{stack}.json{end}").is_file()]
    checkpoint = max(forms, key=lambda file: file.stat().st_mtime, default=None)
    unreadable = checkpoint is not None and _json(checkpoint) is None
    sidecars = [*base.glob("meta.yaml.attrs"), *stacks.glob(f"{stack}.json*.attrs")]
    sidecars += (base / "history" / _PROJECT / stack).glob("*.attrs")
    return StateFiles(
        locks=tuple(_locks(base / "locks" / "organization" / _PROJECT / stack)),
        sidecars=tuple(str(file) for file in sorted(sidecars) if _json(file) is None),
        checkpoint=str(checkpoint) if unreadable else "",
        backup=unreadable
        and checkpoint is not None
        and _json(checkpoint.with_name(f"{checkpoint.name}.bak")) is not None,
    )


def _json(file: Path) -> Any:
    """None where it is not there, or cannot be read."""
    try:
        data = file.read_bytes()
        return json.loads(gzip.decompress(data) if file.name.removesuffix(".bak").endswith(".gz") else data)
    except (OSError, ValueError, EOFError):
        return None


def _locks(folder: Path) -> Iterator[Lock]:
    for file in sorted(folder.glob("*")) if folder.is_dir() else ():
        told = _json(file)
        if file.suffix == ".attrs" or not file.is_file():
            continue
        try:
            pid, since = int(told["pid"]), datetime.fromisoformat(told["timestamp"])
            alive = _alive(pid) if told["hostname"] == socket.gethostname() else None
            yield Lock(str(file), pid, told["username"], told["hostname"], since, alive)
        except (KeyError, TypeError, ValueError):
            yield Lock(str(file))


def _alive(pid: int) -> bool:
    """Whether an engine of that number runs: of another program the number alone is the same."""
    try:
        # The state follows the name, which stands in parentheses and may hold any.
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return _answers(pid)
    return name == _ENGINE and rest.split()[0] != "Z"


def _answers(pid: int) -> bool:
    """The same where /proc does not tell: any process of that number counts."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True
