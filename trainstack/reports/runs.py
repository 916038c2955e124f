"""A run's figures: from its fetched record, or from its pods' logs."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Literal

from trainstack.reports.errors import ReportError
from trainstack.reports.overlap import Placement
from trainstack.runs.logs.training_log import Epoch, Log, epoch_of, parse

_LOG_NAME = re.compile(r"rank-(?P<rank>\d+)\..*\.log")
METRICS = "result/metrics.jsonl"
"""What a program tells of itself: a line of JSON for each epoch, and a last one for the test."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What a run was made of, as far as it is known. None is what nothing tells."""

    image: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    seed: int | None = None
    data: str | None = None
    """The sha256 of the data's manifest."""
    revision: str | None = None
    """The commit of the code that was checked out into the pods; None also where there was none."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run."""

    run_id: str
    workload: str
    source: Literal["record", "logs"]
    """Its record, or its pods' logs."""
    finished: bool
    """It has succeeded; else its figures are those so far."""
    world_size: int
    """How many replicas train together."""
    logs: Mapping[int, Log]
    """By rank; of a rank that is not in it no log was found."""
    epochs: Mapping[int, Epoch]
    """Those of rank 0, by number; with what the metrics tell of them."""
    test_loss: float | None
    test_accuracy: float | None
    definition: Definition | None
    """None: nothing tells."""
    notes: tuple[str, ...] = ()
    """What a person should know of where the figures come from."""
    placements: tuple[Placement, ...] = ()
    """Where and when it ran; none where nothing tells that."""

    @property
    def steps(self) -> dict[int, int | None]:
        """The steps of each replica over all epochs, by rank; None where its log is missing, partial or tells none."""
        partial = self.partial
        return {rank: None if rank in partial else _steps(self.logs.get(rank)) for rank in range(self.world_size)}

    @property
    def partial(self) -> list[int]:
        """The ranks whose logs lack an epoch, before their last, that another's log tells of.

        Their containers were started again more than once, say, and the first logs are gone.
        """
        told = {rank: {number for number, each in log.epochs.items() if each.steps} for rank, log in self.logs.items()}
        every = set().union(*told.values())
        return sorted(rank for rank, own in told.items() if any(each < max(own, default=0) for each in every - own))

    @property
    def counted(self) -> str:
        """What counts as a step."""
        return next((log.counted for log in self.logs.values() if log.epochs), "steps")

    @property
    def silent(self) -> list[int]:
        """The ranks whose logs were not found."""
        return [rank for rank in range(self.world_size) if rank not in self.logs]

    @property
    def loss(self) -> float | None:
        """On the test images; where nothing tells that, on the held-out images after the last epoch."""
        return self._last("loss") if self.test_loss is None else self.test_loss

    @property
    def accuracy(self) -> float | None:
        """Likewise, 0 to 1."""
        return self._last("accuracy") if self.test_accuracy is None else self.test_accuracy

    def _last(self, name: Literal["loss", "accuracy"]) -> float | None:
        known = [getattr(epoch, name) for epoch in self.epochs.values()]
        return next((value for value in reversed(known) if value is not None), None)

    @property
    def seconds_per_epoch(self) -> float | None:
        """The median, which one slow epoch, as the first often is, does not move."""
        known = [epoch.seconds for epoch in self.epochs.values() if epoch.seconds is not None]
        return median(known) if known else None


def from_record(folder: Path, run_id: str) -> Run:
    """Read a fetched record. Raises ReportError where it is none."""
    facts = _run_json(folder)
    texts: dict[int, list[str]] = {}
    for file in sorted((folder / "logs").glob("*.log")):
        if match := _LOG_NAME.fullmatch(file.name):
            texts.setdefault(int(match["rank"]), []).append(file.read_text(encoding="utf-8", errors="replace"))
    # A run that was resumed has a log of each attempt.
    logs = {rank: parse("\n".join(parts).split("\n")) for rank, parts in texts.items()}
    metrics = read_metrics(folder)
    told: dict[str, float] = {}
    epochs = dict(logs[0].epochs) if 0 in logs else {}
    for line in metrics:
        told.update(line)
        if "epoch" in line and "test_accuracy" not in line:
            number = int(line["epoch"])
            epochs[number] = epochs.get(number, Epoch()).with_(epoch_of(line))
    definition = facts.get("definition") or {}
    first = logs.get(0)
    return Run(
        run_id=run_id,
        workload=str(definition.get("workload") or run_id.rpartition("-")[0]),
        source="record",
        finished=facts.get("state") == "succeeded",
        world_size=int(facts.get("world_size") or (first and first.world_size) or 1),
        logs=logs,
        epochs=dict(sorted(epochs.items())),
        test_loss=told.get("test_loss", first.test_loss if first else None),
        test_accuracy=told.get("test_accuracy", first.test_accuracy if first else None),
        definition=Definition(
            image=definition.get("image"),
            command=tuple(definition.get("command") or ()),
            args=tuple(definition.get("args") or ()),
            seed=definition.get("seed"),
            data=definition.get("data"),
            revision=(definition.get("code") or {}).get("revision"),
        ),
        notes=() if metrics or facts.get("state") != "succeeded" else (f"wrote no {METRICS}: its log alone tells",),
        placements=_placements(facts),
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
    """Read the logs of a run that is not recorded.

    Args:
        run_id: the run.
        texts: by rank, its pod's log as the API server gives it with timestamps.
        workload: its name.
        finished: whether it has succeeded.
        world_size: as its pods were told; None: as its log tells, else 1.
        definition: what its pods run.
        notes: what there is to say of where the logs come from.
        placements: where and when its pods ran.

    """
    logs = {rank: parse(text.split("\n"), timestamps=True) for rank, text in texts.items()}
    first = logs.get(0)
    return Run(
        run_id=run_id,
        workload=workload,
        source="logs",
        finished=finished,
        world_size=world_size or (first.world_size if first else None) or 1,
        logs=logs,
        epochs=first.epochs if first else {},
        test_loss=first.test_loss if first else None,
        test_accuracy=first.test_accuracy if first else None,
        definition=definition,
        notes=tuple(notes),
        placements=tuple(placements),
    )


def with_logs(run: Run, texts: Mapping[int, str]) -> Run:
    """A run from its record, with the logs of those ranks that had no volume to write theirs to."""
    more = {rank: parse(text.split("\n"), timestamps=True) for rank, text in texts.items() if rank not in run.logs}
    return replace(run, logs={**run.logs, **more})


def _placements(facts: Mapping[str, Any]) -> tuple[Placement, ...]:
    """When a recorded run ran: its record does not name nodes."""
    if not (facts.get("started") and facts.get("finished")):
        return ()
    start, end = (datetime.fromisoformat(str(facts[name])) for name in ("started", "finished"))
    return (Placement(None, start, end),)


def _steps(log: Log | None) -> int | None:
    known = [epoch.steps for epoch in log.epochs.values() if epoch.steps is not None] if log else []
    return sum(known) if known else None


def _run_json(folder: Path) -> dict[str, Any]:
    file = folder / "run.json"
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        parts = sorted(each.parent.name for each in folder.glob("*/run.json"))
        if parts:
            raise ReportError(
                f"{folder} holds {len(parts)} records, one for each completion of the Job: name one, such as "
                f"{folder.name}/{parts[0]}"
            ) from None
        raise ReportError(f"{folder} is no record: it has no run.json. Remove it and fetch the run again") from None
    except (OSError, ValueError) as error:
        raise ReportError(f"{file} cannot be read ({error}). Remove {folder} and fetch the run again") from error
    if not isinstance(facts, dict):
        raise ReportError(f"{file} is no JSON object. Remove {folder} and fetch the run again")
    return facts


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The numbers of each line of a record's metrics; none where it has no such file. Raises ReportError."""
    file = folder / METRICS
    if not file.is_file():
        return []
    lines = metrics_of(file.read_text(encoding="utf-8", errors="replace"), str(file))
    return [{key: float(value) for key, value in line.items() if isinstance(value, int | float)} for line in lines]


def metrics_of(text: str, file: str) -> list[dict[str, Any]]:
    """The lines of a file of metrics. Raises ReportError, which names file and line."""
    found = []
    # Not splitlines: JSON may hold what else ends a line.
    text = text.removesuffix("\n")
    for index, line in enumerate(text.split("\n") if text else (), start=1):
        try:
            values = json.loads(line)
        except ValueError as error:
            raise ReportError(f"{file}:{index}: no JSON ({error}): {line[:80]!r}. Each line is an object") from error
        if not isinstance(values, dict):
            raise ReportError(f"{file}:{index}: no JSON object: {line[:80]!r}")
        found.append(values)
    return found
