"""The figures of a run, from its fetched record or its pods' logs."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from trainstack.files.regular import read_bytes
from trainstack.reports.errors import ReportError
from trainstack.reports.overlap import RunPlacement
from trainstack.reports.record import MAX_REPLICAS, RunDefinition, RunRecord, parse_json, parse_run_record
from trainstack.runs.logs.training_log import Epoch, TrainingLog, epoch_from_figures, parse_log

_LOG_NAME = re.compile(r"rank-(?P<rank>\d+)\..*\.log")
_MAX_EPOCH_NUMBER = 10**9
"""The limit of an epoch's number; a greater one is damage, which charts could not show."""
METRICS_FILE = "result/metrics.jsonl"
"""Written by the program: a line of JSON for each epoch, and a last one for the test data."""
MAX_BYTES = 1 << 30
"""The limit of one file of a record, such as a log."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The inputs of a run; None if unknown."""

    image: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    seed: int | None = None
    data: str | None = None
    """The data manifest's sha256."""
    revision: str | None = None
    """The commit that was checked out into the pods, if any."""


@dataclass(frozen=True, kw_only=True)
class RunFigures:
    """The figures of a run."""

    run_id: str
    workload: str
    source: Literal["record", "logs"]
    finished: bool
    """Whether the run succeeded; otherwise its figures are incomplete."""
    world_size: int
    """The number of replicas that train together."""
    logs: Mapping[int, TrainingLog]
    """By rank, without the ranks that have no log."""
    epochs: Mapping[int, Epoch]
    """By number, from the log of rank 0 and the metrics."""
    test_loss: float | None
    test_accuracy: float | None
    definition: Definition | None
    """None if unknown."""
    notes: tuple[str, ...] = ()
    """Remarks on the origin of the figures."""
    placements: tuple[RunPlacement, ...] = ()
    """The times and nodes of the run's pods; empty if unknown."""

    @property
    def steps(self) -> dict[int, int | None]:
        """The total steps of each replica, by rank; None if its log is missing, partial or without steps."""
        partial_ranks = self.partial_ranks
        return {
            rank: None if rank in partial_ranks else _total_steps(self.logs.get(rank))
            for rank in range(self.world_size)
        }

    @property
    def partial_ranks(self) -> list[int]:
        """The ranks whose logs lack an epoch that another log has, and that precedes their last one.

        For example, a container restarted more than once and its first log is lost.
        """
        epochs_by_rank = {
            rank: {number for number, epoch in log.epochs.items() if epoch.steps} for rank, log in self.logs.items()
        }
        all_epochs = set().union(*epochs_by_rank.values())
        return sorted(
            rank
            for rank, rank_epochs in epochs_by_rank.items()
            if any(number < max(rank_epochs, default=0) for number in all_epochs - rank_epochs)
        )

    @property
    def step_unit(self) -> str:
        """The unit of `steps`, such as `progress lines`."""
        return next((log.counted for log in self.logs.values() if log.epochs), "steps")

    @property
    def unlogged_ranks(self) -> list[int]:
        """The ranks without a log."""
        return [rank for rank in range(self.world_size) if rank not in self.logs]

    @property
    def loss(self) -> float | None:
        """The loss on the test images; if unknown, on the held-out images after the last epoch."""
        return self._last_epoch_value("loss") if self.test_loss is None else self.test_loss

    @property
    def accuracy(self) -> float | None:
        """The accuracy from 0 to 1, on the same images as `loss`."""
        return self._last_epoch_value("accuracy") if self.test_accuracy is None else self.test_accuracy

    def _last_epoch_value(self, name: Literal["loss", "accuracy"]) -> float | None:
        values = [getattr(epoch, name) for epoch in self.epochs.values()]
        return next((value for value in reversed(values) if value is not None), None)

    @property
    def seconds_per_epoch(self) -> float | None:
        """The median time of an epoch, because the first one is often slow; None if unknown."""
        seconds = [epoch.seconds for epoch in self.epochs.values() if epoch.seconds is not None]
        return median(seconds) if seconds else None


def run_from_record(folder: Path, run_id: str) -> RunFigures:
    """Return the figures of a fetched record. Raises ReportError."""
    record, definition = _read_run_json(folder)
    texts_by_rank: dict[int, list[str]] = {}
    for file in sorted((folder / "logs").glob("*.log")):
        if match := _LOG_NAME.fullmatch(file.name):
            texts_by_rank.setdefault(int(match["rank"]), []).append(
                read_bytes(file, MAX_BYTES).decode(errors="replace")
            )
    # A resumed run has a log for each attempt.
    logs = {rank: parse_log("\n".join(attempt_texts).split("\n")) for rank, attempt_texts in texts_by_rank.items()}
    metrics = read_metrics(folder)
    # The program may write its test figures to any line, so the last value of each name counts.
    last_values: dict[str, float] = {}
    first_log = logs.get(0, TrainingLog(epochs={}))
    epochs = dict(first_log.epochs)
    for line in metrics:
        last_values.update(line)
        # A line with test figures describes the trained model, not an epoch. The metrics have priority over the log.
        if "epoch" in line and "test_accuracy" not in line and abs(line["epoch"]) < _MAX_EPOCH_NUMBER:
            number = int(line["epoch"])
            epochs[number] = epochs.get(number, Epoch()).updated_with(epoch_from_figures(line))
    return RunFigures(
        run_id=run_id,
        workload=definition.workload or run_id.rpartition("-")[0],
        source="record",
        finished=record.state == "succeeded",
        world_size=_replica_count(record.world_size, first_log),
        logs=logs,
        epochs=dict(sorted(epochs.items())),
        test_loss=last_values.get("test_loss", first_log.test_loss),
        test_accuracy=last_values.get("test_accuracy", first_log.test_accuracy),
        definition=Definition(
            image=definition.image,
            command=definition.command or (),
            args=definition.args or (),
            seed=definition.seed,
            data=definition.data,
            revision=definition.code.revision if definition.code else None,
        ),
        notes=() if metrics else _notes_without_metrics(record, first_log),
        placements=_placements(record),
    )


def run_from_logs(
    run_id: str,
    texts_by_rank: Mapping[int, str],
    *,
    workload: str,
    finished: bool,
    world_size: int | None,
    definition: Definition | None,
    notes: Sequence[str] = (),
    placements: Sequence[RunPlacement] = (),
) -> RunFigures:
    """Return the figures of a run without a record.

    `texts_by_rank`: the logs as the API server returns them, with timestamps. `world_size`: from the pods; if None, the
    value in the log, or 1.
    """
    logs = {rank: parse_log(text.split("\n"), timestamps=True) for rank, text in texts_by_rank.items()}
    first_log = logs.get(0, TrainingLog(epochs={}))
    return RunFigures(
        run_id=run_id,
        workload=workload,
        source="logs",
        finished=finished,
        world_size=_replica_count(world_size, first_log),
        logs=logs,
        epochs=first_log.epochs,
        test_loss=first_log.test_loss,
        test_accuracy=first_log.test_accuracy,
        definition=definition,
        notes=(*notes, *_unread_notes(first_log)),
        placements=tuple(placements),
    )


def add_logs(run: RunFigures, texts_by_rank: Mapping[int, str]) -> RunFigures:
    """Return the run with the logs of further ranks, whose pods have no volume for the record."""
    added_logs = {
        rank: parse_log(text.split("\n"), timestamps=True)
        for rank, text in texts_by_rank.items()
        if rank not in run.logs
    }
    return replace(run, logs={**run.logs, **added_logs})


def _notes_without_metrics(record: RunRecord, log: TrainingLog) -> tuple[str, ...]:
    origin = (f"no {METRICS_FILE}; its figures are from its log",) if record.state == "succeeded" else ()
    return (*origin, *_unread_notes(log))


def _unread_notes(log: TrainingLog) -> tuple[str, ...]:
    """Return the note on figures in the first replica's log that are not numbers, if any."""
    return (f"not read, because they are not numbers: {', '.join(log.unread)}",) if log.unread else ()


def _placements(record: RunRecord) -> tuple[RunPlacement, ...]:
    if record.started is None or record.finished is None:
        return ()
    return (RunPlacement(None, record.started, record.finished),)


def _replica_count(world_size: int | None, log: TrainingLog) -> int:
    """Return the known number of replicas, else the one in the log if it is plausible, else 1."""
    logged_size = log.world_size if log.world_size and log.world_size <= MAX_REPLICAS else None
    return world_size or logged_size or 1


def _total_steps(log: TrainingLog | None) -> int | None:
    epoch_steps = [epoch.steps for epoch in log.epochs.values() if epoch.steps is not None] if log else []
    return sum(epoch_steps) if epoch_steps else None


def _read_run_json(folder: Path) -> tuple[RunRecord, RunDefinition]:
    file = folder / "run.json"
    try:
        value = parse_json(read_bytes(file, MAX_BYTES))
        record = parse_run_record(value) if isinstance(value, dict) else None
    except FileNotFoundError:
        if completions := sorted(part.parent.name for part in folder.glob("*/run.json")):
            raise ReportError(
                f"{folder} has {len(completions)} records, one for each completion of the Job: select one, such as "
                f"{folder.name}/{completions[0]}"
            ) from None
        raise ReportError(f"{folder} is not a record: it has no run.json. Remove it and fetch the run again") from None
    except (OSError, ValueError) as error:
        raise ReportError(f"{file} cannot be read ({error}). Remove {folder} and fetch the run again") from error
    if record is None:
        raise ReportError(f"{file} is not a JSON object. Remove {folder} and fetch the run again")
    return record, record.definition or RunDefinition()


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """Return the numeric values of each line of a record's metrics, or an empty list without the file.

    Raises ReportError.
    """
    file = folder / METRICS_FILE
    if not file.is_file():
        return []
    lines = parse_metrics(read_bytes(file, MAX_BYTES).decode(errors="replace"), str(file))
    return [{key: number for key, value in line.items() if (number := _as_float(value)) is not None} for line in lines]


def _as_float(value: object) -> float | None:
    """Return the value as a float, which may be infinite, or None if it is not a number."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def parse_metrics(text: str, file: str) -> list[dict[str, Any]]:
    """Parse the lines of a metrics file as JSON objects. Raises ReportError with file and line."""
    metrics = []
    # Not splitlines: it also splits at characters that JSON strings may contain.
    text = text.removesuffix("\n")
    for index, line in enumerate(text.split("\n") if text else (), start=1):
        try:
            values = parse_json(line)
        except ValueError as error:
            raise ReportError(
                f"{file}:{index}: invalid JSON ({error}): {line[:80]!r}. Each line must be an object"
            ) from error
        if not isinstance(values, dict):
            raise ReportError(f"{file}:{index}: not a JSON object: {line[:80]!r}")
        metrics.append(values)
    return metrics
