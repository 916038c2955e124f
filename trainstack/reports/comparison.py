"""Runs held against a baseline: what each replica did, how long an epoch took, what came of it, and what compares."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from trainstack.reports.overlap import in_words, shared
from trainstack.reports.runs import Definition, Run

SAME_ACCURACY = 0.02
"""Accuracies that differ by no more count as the same: one of 50 images."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run beside the baseline. Ratios are None where one of the two is not known."""

    run: Run
    name: str
    """The workload, or the run's id where two runs are of one workload."""
    speed_up: float | None
    """How many times as fast an epoch is as the baseline's."""
    steps_ratio: float | None
    """The baseline's steps for each of a replica's; where replicas differ, of the one with most."""
    accuracy_difference: float | None
    """From the baseline's; negative is worse."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Runs in the order in which they were named."""

    rows: tuple[Row, ...]
    baseline: Row
    warnings: tuple[str, ...]
    """What makes runs not comparable."""
    notes: tuple[str, ...]
    """What is not known, and why."""

    @property
    def others(self) -> list[Row]:
        """All but the baseline."""
        return [row for row in self.rows if row is not self.baseline]

    def in_words(self) -> list[str]:
        """A sentence for each run but the baseline."""
        return [_sentence(row, self.baseline) for row in self.others]


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare runs, at least one.

    The baseline is the run of a single replica, the slowest where there are several; without one, the first run.
    """
    single = [run for run in runs if run.world_size == 1]
    baseline = max(single, key=lambda run: run.seconds_per_epoch or 0.0, default=runs[0])
    workloads = [run.workload for run in runs]
    rows = tuple(
        Row(
            run=run,
            name=run.workload if workloads.count(run.workload) == 1 else run.run_id,
            speed_up=_ratio(baseline.seconds_per_epoch, run.seconds_per_epoch),
            steps_ratio=_ratio(_most(baseline), _most(run)) if baseline.counted == run.counted else None,
            accuracy_difference=_difference(run.accuracy, baseline.accuracy),
        )
        for run in runs
    )
    first = rows[runs.index(baseline)]
    return Comparison(
        rows=rows,
        baseline=first,
        warnings=(*_warnings(rows, first), *_overlaps(rows)),
        notes=(*(note for row in rows for note in _notes(row)), *_possible_overlaps(rows)),
    )


def _most(run: Run) -> int | None:
    return max((steps for steps in run.steps.values() if steps is not None), default=None)


def _ratio(baseline: float | None, other: float | None) -> float | None:
    return baseline / other if baseline and other else None


def _difference(value: float | None, baseline: float | None) -> float | None:
    if value is None or baseline is None or not math.isfinite(value) or not math.isfinite(baseline):
        return None
    # As decimals: 0.98 - 0.96 is a little more than 0.02 in binary.
    return round(value - baseline, 9)


def _warnings(rows: Sequence[Row], baseline: Row) -> Iterator[str]:
    for row in rows:
        if not row.run.finished:
            yield f"{row.name} has not succeeded: its figures are those so far"
        if row is not baseline:
            yield from _differences(row, baseline)


def _differences(row: Row, baseline: Row) -> Iterator[str]:
    """What the run and the baseline do not have in common, though it decides the figures."""
    run, other, both = row.run, baseline.run, f"{baseline.name} and {row.name}"
    if run.counted != other.counted:
        yield (
            f"steps of {both} do not compare: {baseline.name} counts {other.counted}, {row.name} counts {run.counted}"
        )
    strides = [next((log.images_per_line for log in each.logs.values()), None) for each in (other, run)]
    if None not in strides and strides[0] != strides[1]:
        yield (
            f"steps of {both} do not compare: their logs have a progress line every {strides[0]} and {strides[1]} "
            "images; give both the same batch size and log interval"
        )
    if len(run.epochs) != len(other.epochs):
        yield (
            f"{both} trained {len(other.epochs)} and {len(run.epochs)} epochs: steps, accuracy and loss do not "
            "compare; the time per epoch does"
        )
    mine, others = run.definition, other.definition
    if mine is None or others is None:
        return
    if mine.data and others.data and mine.data != others.data:
        yield (
            f"{both} read different data ({others.data[:12]}… and {mine.data[:12]}…): accuracy and loss do not compare"
        )
    if mine.seed is not None and others.seed is not None and mine.seed != others.seed:
        yield f"{both} have different seeds ({others.seed} and {mine.seed}): chance is part of the difference"
    if mine.revision != others.revision:
        yield f"{both} ran different code (revisions {others.revision or 'none'} and {mine.revision or 'none'})"
    if mine.image != others.image:
        yield f"{both} ran different images ({others.image} and {mine.image})"
    if options := _options(others, mine):
        yield f"{both} ran with different arguments: {options}"


def _overlaps(rows: Sequence[Row]) -> Iterator[str]:
    for one, other in combinations(rows, 2):
        for node, time in shared(one.run.placements, other.run.placements).items():
            if node is not None:
                yield (
                    f"{one.name} and {other.name} ran on node {node} at the same time for {in_words(time)} and shared "
                    "its CPUs: times per epoch and the speed-up do not compare. Run one after the other (`dependsOn`)"
                )


def _possible_overlaps(rows: Sequence[Row]) -> Iterator[str]:
    for one, other in combinations(rows, 2):
        if time := shared(one.run.placements, other.run.placements).get(None):
            yield (
                f"{one.name} and {other.name} ran at the same time for {in_words(time)}; whether on the same node is "
                "not known, since a record does not name nodes and its pods are gone"
            )


def _options(baseline: Definition, run: Definition) -> str:
    """The words of the command lines that only one of the two has; where files lie decides nothing."""
    before, now = (
        [word for word in (*each.command, *each.args) if "/" not in word and "$" not in word]
        for each in (baseline, run)
    )
    only = [[word for word in mine if word not in theirs] for mine, theirs in ((before, now), (now, before))]
    return " against ".join(" ".join(words) or "none" for words in only) if any(only) else ""


def _notes(row: Row) -> Iterator[str]:
    run, name = row.run, row.name
    yield from (f"{name}: {note}" for note in run.notes)
    if run.definition is None or run.source == "logs":
        yield f"{name} has no record: whether its data and seed are the same is not known"
    if run.silent:
        yield (
            f"{name}: no log of rank {_ranks(run.silent)}: neither in the record nor of a pod. A worker "
            "without the record's volume has its log as long as its pod exists (cleanPodPolicy: None keeps the pods)"
        )
    if run.partial:
        yield (
            f"{name}: the log of rank {_ranks(run.partial)} lacks epochs that other ranks tell of, so its steps are "
            "not known: where a container is started again, its node keeps the log of the last start before, no other"
        )
    known = {*run.silent, *run.partial}
    heard = [rank for rank, steps in run.steps.items() if steps is None and rank not in known]
    if heard:
        yield f"{name}: the log of rank {_ranks(heard)} tells of no step in a form that is known here (docs/runs.md)"
    if run.counted == "progress lines":
        yield f"{name}: its log numbers no steps, so each progress line counts as one"
    if run.accuracy is None:
        yield f"{name}: no accuracy: neither metrics nor a log tell one in a form that is known here (docs/runs.md)"
    elif run.test_accuracy is None:
        yield f"{name}: no accuracy on test images; that on the held-out images after its last epoch is shown"
    if run.loss is not None and not math.isfinite(run.loss):
        yield f"{name}: its loss is {run.loss}: the training diverged"
    if run.seconds_per_epoch is None:
        yield f"{name}: nothing tells how long an epoch took"


def _ranks(ranks: Sequence[int]) -> str:
    """`0-3, 7`."""
    starts = [rank for before, rank in pairwise([-2, *ranks]) if rank != before + 1]
    ends = [rank for rank, after in pairwise([*ranks, -2]) if after != rank + 1]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _sentence(row: Row, baseline: Row) -> str:
    run, other = row.run, baseline.run
    parts = []
    if row.steps_ratio:
        each = " each" if run.world_size > 1 else ""
        parts.append(f"{_most(run)} {run.counted}{each} against {_most(other)} (1 : {row.steps_ratio:.1f})")
    if row.speed_up:
        parts.append(
            f"an epoch in {run.seconds_per_epoch:.3g} s against {other.seconds_per_epoch:.3g} s "
            f"({row.speed_up:.2f} times as fast)"
        )
    if row.accuracy_difference is not None:
        same = abs(row.accuracy_difference) <= SAME_ACCURACY
        verdict = f"the same within {SAME_ACCURACY}" if same else f"differs by more than {SAME_ACCURACY}"
        parts.append(f"accuracy {run.accuracy:.4f} against {other.accuracy:.4f} ({verdict})")
    replicas = "1 replica" if run.world_size == 1 else f"{run.world_size} replicas"
    return f"{row.name}, {replicas}: {'; '.join(parts) or 'nothing to compare'}."
