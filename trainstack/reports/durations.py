"""How long earlier runs took, from their records in `results/`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Took:
    """A run that succeeded at its first attempt, so that no time in a queue is in it."""

    workload: str
    seconds: float
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    world_size: int | None
    """How many replicas trained together; None: its record does not say."""


def took(results: Path) -> list[Took]:
    """What the records in a folder tell; those that are not whole, or no records, tell nothing."""
    return [found for folder in sorted(results.glob("*/")) if (found := _of_run(folder)) is not None]


def _of_run(folder: Path) -> Took | None:
    """Of a run; of a Job with several completions from the first one's start to the last one's end."""
    files = [folder / "run.json"] if (folder / "run.json").is_file() else sorted(folder.glob("*/run.json"))
    records = [_read(file) for file in files]
    whole = [each for each in records if each is not None]
    if not whole or len(whole) < len(records):
        return None
    definition = whole[0]["definition"]
    began = min(datetime.fromisoformat(each["started"]) for each in whole)
    ended = max(datetime.fromisoformat(each["finished"]) for each in whole)
    return Took(
        workload=definition["workload"],
        seconds=(ended - began).total_seconds(),
        command=tuple(definition["command"]),
        args=tuple(definition["args"]),
        env=definition["env"],
        world_size=whole[0].get("world_size"),
    )


def _read(file: Path) -> dict[str, Any] | None:
    try:
        facts: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        whole = facts.keys() >= _KEYS and facts["definition"].keys() >= _PARTS
    except (OSError, ValueError, AttributeError):
        return None
    return facts if whole and facts["state"] == "succeeded" and facts["attempts"] == 1 else None


_KEYS = {"state", "attempts", "started", "finished", "definition"}
_PARTS = {"workload", "command", "args", "env"}
