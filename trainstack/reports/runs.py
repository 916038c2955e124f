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
from trainstack.reports.overlap import Placement
from trainstack.reports.record import MOST_REPLICAS, RunDefinition, RunRecord, parse_json, run_record
from trainstack.runs.logs.training_log import Epoch, Log, epoch_of, parse

_LOG_NAME = re.compile(r"rank-(?P<rank>\d+)\..*\.log")
_MOST_EPOCHS = 10**9
"""The limit of an epoch's number; a greater one is damage, which charts could not show."""
METRICS = "result/metrics.jsonl"
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
class Run:
    """The figures of a run."""

    run_id: str
    workload: str
    source: Literal["record", "logs"]
    finished: bool
    """Whether the run succeeded; otherwise its figures are incomplete."""
    world_size: int
    """The number of replicas that train together."""
    logs: Mapping[int, Log]
    """By rank, without the ranks that have no log."""
    epochs: Mapping[int, Epoch]
    """By number, from the log of rank 0 and the metrics."""
    test_loss: float | None
    test_accuracy: float | None
    definition: Definition | None
    """None if unknown."""
    notes: tuple[str, ...] = ()
    """Remarks on the origin of the figures."""
    placements: tuple[Placement, ...] = ()
    """The times and nodes of the run's pods; empty if unknown."""

    @property
    def steps(self) -> dict[int, int | None]:
        """The total steps of each replica, by rank; None if its log is missing, partial or without steps."""
        partial = self.partial
        return {rank: None if rank in partial else _steps(self.logs.get(rank)) for rank in range(self.world_size)}

    @property
    def partial(self) -> list[int]:
        """The ranks whose logs lack an epoch that another log has, and that precedes their last one.

        For example, a container restarted more than once and its first log is lost.
        """
        epochs = {
            rank: {number for number, epoch in log.epochs.items() if epoch.steps} for rank, log in self.logs.items()
        }
        every = set().union(*epochs.values())
        return sorted(
            rank for rank, own in epochs.items() if any(number < max(own, default=0) for number in every - own)
        )

    @property
    def counted(self) -> str:
        """The unit of `steps`, such as `progress lines`."""
        return next((log.counted for log in self.logs.values() if log.epochs), "steps")

    @property
    def silent(self) -> list[int]:
        """The ranks without a log."""
        return [rank for rank in range(self.world_size) if rank not in self.logs]

    @property
    def loss(self) -> float | None:
        """The loss on the test images; if unknown, on the held-out images after the last epoch."""
        return self._last("loss") if self.test_loss is None else self.test_loss

    @property
    def accuracy(self) -> float | None:
        """The accuracy from 0 to 1, on the same images as `loss`."""
        return self._last("accuracy") if self.test_accuracy is None else self.test_accuracy

    def _last(self, name: Literal["loss", "accuracy"]) -> float | None:
        known = [getattr(epoch, name) for epoch in self.epochs.values()]
        return next((value for value in reversed(known) if value is not None), None)

    @property
    def seconds_per_epoch(self) -> float | None:
        """The median time of an epoch, because the first one is often slow; None if unknown."""
        known = [epoch.seconds for epoch in self.epochs.values() if epoch.seconds is not None]
        return median(known) if known else None


def from_record(folder: Path, run_id: str) -> Run:
    """Return the figures of a fetched record. Raises ReportError."""
    record, definition = _run_json(folder)
    texts: dict[int, list[str]] = {}
    for file in sorted((folder / "logs").glob("*.log")):
        if match := _LOG_NAME.fullmatch(file.name):
            texts.setdefault(int(match["rank"]), []).append(read_bytes(file, MAX_BYTES).decode(errors="replace"))
    # A resumed run has a log for each attempt.
    logs = {rank: parse("\n".join(parts).split("\n")) for rank, parts in texts.items()}
    metrics = read_metrics(folder)
    # The program may write its test figures to any line, so the last value of each name counts.
    test: dict[str, float] = {}
    first = logs.get(0, Log(epochs={}))
    epochs = dict(first.epochs)
    for line in metrics:
        test.update(line)
        # A line with test figures describes the trained model, not an epoch. The metrics have priority over the log.
        if "epoch" in line and "test_accuracy" not in line and abs(line["epoch"]) < _MOST_EPOCHS:
            number = int(line["epoch"])
            epochs[number] = epochs.get(number, Epoch()).with_(epoch_of(line))
    return Run(
        run_id=run_id,
        workload=definition.workload or run_id.rpartition("-")[0],
        source="record",
        finished=record.state == "succeeded",
        world_size=_replicas(record.world_size, first),
        logs=logs,
        epochs=dict(sorted(epochs.items())),
        test_loss=test.get("test_loss", first.test_loss),
        test_accuracy=test.get("test_accuracy", first.test_accuracy),
        definition=Definition(
            image=definition.image,
            command=definition.command or (),
            args=definition.args or (),
            seed=definition.seed,
            data=definition.data,
            revision=definition.code.revision if definition.code else None,
        ),
        notes=() if metrics else _without_metrics(record, first),
        placements=_placements(record),
    )


def from_logs(
    run_id: str,
    texts: Mapping[int, str],
    *,
    workload: str,
    finished: bool,
    world_size: int | None,
    definition: Definition | None,
    notes: Sequence[str] = (),
    placements: Sequence[Placement] = (),
) -> Run:
    """Return the figures of a run without a record.

    `texts_by_rank`: the logs as the API server returns them, with timestamps. `world_size`: from the pods; if None, the
    value in the log, or 1.
    """
    logs = {rank: parse(text.split("\n"), timestamps=True) for rank, text in texts.items()}
    first = logs.get(0, Log(epochs={}))
    return Run(
        run_id=run_id,
        workload=workload,
        source="logs",
        finished=finished,
        world_size=_replicas(world_size, first),
        logs=logs,
        epochs=first.epochs,
        test_loss=first.test_loss,
        test_accuracy=first.test_accuracy,
        definition=definition,
        notes=(*notes, *_unread(first)),
        placements=tuple(placements),
    )


def with_logs(run: Run, texts: Mapping[int, str]) -> Run:
    """Return the run with the logs of further ranks, whose pods have no volume for the record."""
    more = {rank: parse(text.split("\n"), timestamps=True) for rank, text in texts.items() if rank not in run.logs}
    return replace(run, logs={**run.logs, **more})


def _without_metrics(record: RunRecord, log: Log) -> tuple[str, ...]:
    origin = (f"no {METRICS}; its figures are from its log",) if record.state == "succeeded" else ()
    return (*origin, *_unread(log))


def _unread(log: Log) -> tuple[str, ...]:
    """Return the note on figures in the first replica's log that are not numbers, if any."""
    return (f"not read, because they are not numbers: {', '.join(log.unread)}",) if log.unread else ()


def _placements(record: RunRecord) -> tuple[Placement, ...]:
    if record.started is None or record.finished is None:
        return ()
    return (Placement(None, record.started, record.finished),)


def _replicas(known: int | None, log: Log) -> int:
    """Return the known number of replicas, else the one in the log if it is plausible, else 1."""
    printed = log.world_size if log.world_size and log.world_size <= MOST_REPLICAS else None
    return known or printed or 1


def _steps(log: Log | None) -> int | None:
    known = [epoch.steps for epoch in log.epochs.values() if epoch.steps is not None] if log else []
    return sum(known) if known else None


def _run_json(folder: Path) -> tuple[RunRecord, RunDefinition]:
    file = folder / "run.json"
    try:
        value = parse_json(read_bytes(file, MAX_BYTES))
        record = run_record(value) if isinstance(value, dict) else None
    except FileNotFoundError:
        if parts := sorted(part.parent.name for part in folder.glob("*/run.json")):
            raise ReportError(
                f"{folder} has {len(parts)} records, one for each completion of the Job: select one, such as "
                f"{folder.name}/{parts[0]}"
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
    file = folder / METRICS
    if not file.is_file():
        return []
    lines = metrics_of(read_bytes(file, MAX_BYTES).decode(errors="replace"), str(file))
    return [{key: number for key, value in line.items() if (number := _as_float(value)) is not None} for line in lines]


def _as_float(value: object) -> float | None:
    """Return the value as a float, which may be infinite, or None if it is not a number."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def metrics_of(text: str, file: str) -> list[dict[str, Any]]:
    """Parse the lines of a metrics file as JSON objects. Raises ReportError with file and line."""
    found = []
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
        found.append(values)
    return found
