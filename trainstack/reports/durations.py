"""The durations of earlier runs, from their records in `results/`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from trainstack.files.regular import read_bytes
from trainstack.reports.record import parse_object, parse_run_record
from trainstack.reports.run_figures import MAX_BYTES


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A run that succeeded in its first attempt, so that its duration includes no time in a queue."""

    workload: str
    seconds: float
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    world_size: int | None
    """The number of replicas that trained together; None if the record lacks it."""


def read_measured_runs(results: Path) -> list[MeasuredRun]:
    """Return the runs with complete records in a folder; other folders are skipped."""
    return [run for folder in sorted(results.glob("*/")) if (run := _measure_run(folder)) is not None]


def _measure_run(folder: Path) -> MeasuredRun | None:
    """Measure the run of a record, or return None if it is not measurable.

    A Job with several completions is measured from the first start to the last end.
    """
    files = [folder / "run.json"] if (folder / "run.json").is_file() else sorted(folder.glob("*/run.json"))
    measurements = [_read_measurement(file) for file in files]
    complete_measurements = [record for record in measurements if record is not None]
    if not complete_measurements or len(complete_measurements) < len(measurements):
        return None
    started = min(start for _, start, _ in complete_measurements)
    finished = max(end for _, _, end in complete_measurements)
    return replace(complete_measurements[0][0], seconds=(finished - started).total_seconds())


def _read_measurement(file: Path) -> tuple[MeasuredRun, datetime, datetime] | None:
    """Return the run of one record with its start and end.

    None if the record is incomplete or the run did not succeed in its first attempt.
    """
    try:
        record = parse_run_record(parse_object(read_bytes(file, MAX_BYTES)))
    except (OSError, ValueError):
        return None
    definition, start, end = record.definition, record.started, record.finished
    if record.state != "succeeded" or record.attempts != 1 or definition is None or start is None or end is None:
        return None
    workload, command, args, env = definition.workload, definition.command, definition.args, definition.env
    if workload is None or command is None or args is None or env is None:
        return None
    run = MeasuredRun(workload=workload, seconds=0.0, command=command, args=args, env=env, world_size=record.world_size)
    return run, start, end
