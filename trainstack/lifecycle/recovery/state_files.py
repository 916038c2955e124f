"""The reader of a folder backend of the engine: locks, and files that a killed process has left incomplete."""

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from trainstack.lifecycle.recovery.integrity import find_state_faults
from trainstack.lifecycle.recovery.lock_problems import StateFiles, StateLock

_ENGINE = "pulumi"
"""The engine's process name."""
_CHECKPOINT_VERSIONS = (3, 4)
"""The supported versions of a state's form: the second lists features, such as hooks, and has the same resources."""


def state_folder(url: str) -> Path | None:
    """Return the folder of a backend's URL; None for another backend."""
    if not url.startswith("file://"):
        return None
    return Path(unquote(url.removeprefix("file://").partition("?")[0])).expanduser()


def state_file(folder: Path, project: str, stack: str) -> Path | None:
    """Return the file with the state of a stack; None without one. `project` is the name in Pulumi.yaml."""
    stacks_folder = folder / ".pulumi" / "stacks" / project
    # The engine uses the newest of the existing forms (state.go, stackPath).
    state_files = [file for suffix in ("", ".gz") if (file := stacks_folder / f"{stack}.json{suffix}").is_file()]
    return max(state_files, key=lambda file: file.stat().st_mtime, default=None)


def read_deployment(file: Path) -> Mapping[str, Any] | None:
    """Return the `deployment` of a stack's file, as `pulumi stack export` prints it; None if the form is unknown.

    Source: CheckpointV3 in sdk/go/common/apitype/core.go of Pulumi v3.259.0.
    """
    content = _read_json(file)
    if not isinstance(content, dict) or content.get("version") not in _CHECKPOINT_VERSIONS:
        return None
    checkpoint = content.get("checkpoint")
    return checkpoint.get("latest") or {} if isinstance(checkpoint, dict) else None


def read_state_files(folder: Path, project: str, stack: str) -> StateFiles:
    """Read the locks and the unreadable files of a stack.

    `project` is the name in Pulumi.yaml, and of the engine's folder for the project's stacks.
    """
    backend_folder = folder / ".pulumi"
    stacks_folder = backend_folder / "stacks" / project
    checkpoint = state_file(folder, project, stack)
    is_unreadable = checkpoint is not None and _read_json(checkpoint) is None
    sidecars = [*backend_folder.glob("meta.yaml.attrs"), *stacks_folder.glob(f"{stack}.json*.attrs")]
    sidecars += (backend_folder / "history" / project / stack).glob("*.attrs")
    return StateFiles(
        locks=tuple(_locks(backend_folder / "locks" / "organization" / project / stack)),
        sidecars=tuple(str(file) for file in sorted(sidecars) if _read_json(file) is None),
        checkpoint=str(checkpoint) if is_unreadable else "",
        has_usable_backup=is_unreadable and checkpoint is not None and has_usable_backup(checkpoint),
    )


def has_usable_backup(checkpoint: Path) -> bool:
    """Return whether the engine accepts the previous state, which it keeps next to the file of a state."""
    content = _read_json(checkpoint.with_name(f"{checkpoint.name}.bak"))
    backup = content.get("checkpoint", {}) if isinstance(content, dict) else None
    return isinstance(backup, dict) and not find_state_faults(backup.get("latest"))


def _read_json(file: Path) -> Any:
    """Return the file's content; None if it is missing or invalid."""
    try:
        data = file.read_bytes()
        return json.loads(gzip.decompress(data) if file.name.removesuffix(".bak").endswith(".gz") else data)
    except (OSError, ValueError, EOFError, zlib.error):
        return None


def _locks(folder: Path) -> Iterator[StateLock]:
    for file in sorted(folder.glob("*")) if folder.is_dir() else ():
        lock = _read_json(file)
        if file.suffix == ".attrs" or not file.is_file():
            continue
        try:
            pid, start_time = int(lock["pid"]), datetime.fromisoformat(lock["timestamp"])
            is_alive = _is_running_engine(pid) if lock["hostname"] == os.uname().nodename else None
            yield StateLock(str(file), pid, lock["username"], lock["hostname"], start_time, is_alive)
        except (KeyError, TypeError, ValueError):
            yield StateLock(str(file))


def _is_running_engine(pid: int) -> bool:
    """Return whether the process is a running engine: another program may have the same PID."""
    try:
        # The state follows the name, which is in parentheses and may contain any character.
        name, _, fields = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return _process_exists(pid)
    return name == _ENGINE and fields.split()[0] != "Z"


def _process_exists(pid: int) -> bool:
    """Return whether any process has the PID. Used on systems without /proc."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True
