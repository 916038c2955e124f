"""Durations of earlier runs, from their records in `results/`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from trainstack.files.regular import read_bytes
from trainstack.reports.runs import MAX_BYTES

_KEYS = {"state", "attempts", "started", "finished", "definition"}
_DEFINITION_KEYS = {"workload", "command", "args", "env"}


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A run that succeeded at its first attempt, so that its duration has no time in a queue."""

    workload: str
    seconds: float
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    world_size: int | None
    """The number of replicas that trained together; None if the record lacks it."""


def measured_runs(results: Path) -> list[MeasuredRun]:
    """Return the runs with complete records in a folder; other folders are skipped."""
    return [run for folder in sorted(results.glob("*/")) if (run := _measured(folder)) is not None]


def _measured(folder: Path) -> MeasuredRun | None:
    """Measure a run; for a Job with several completions, from the first start to the last end."""
    files = [folder / "run.json"] if (folder / "run.json").is_file() else sorted(folder.glob("*/run.json"))
    found = [_read(file) for file in files]
    records = [record for record in found if record is not None]
    if not records or len(records) < len(found):
        return None
    definition = records[0]["definition"]
    started = min(datetime.fromisoformat(record["started"]) for record in records)
    finished = max(datetime.fromisoformat(record["finished"]) for record in records)
    return MeasuredRun(
        workload=definition["workload"],
        seconds=(finished - started).total_seconds(),
        command=tuple(definition["command"]),
        args=tuple(definition["args"]),
        env=definition["env"],
        world_size=records[0].get("world_size"),
    )


def _read(file: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(read_bytes(file, MAX_BYTES))
        complete = record.keys() >= _KEYS and record["definition"].keys() >= _DEFINITION_KEYS
    except (OSError, ValueError, AttributeError):
        return None
    return record if complete and record["state"] == "succeeded" and record["attempts"] == 1 else None
