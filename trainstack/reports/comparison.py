"""Compare runs with a baseline: steps of each replica, time per epoch, accuracy, and what is not comparable."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations, pairwise

from trainstack.reports.overlap import format_duration, shared_times
from trainstack.reports.run_figures import Definition, RunFigures

SAME_ACCURACY = 0.02
"""The largest difference of two accuracies that count as the same: one of 50 images."""
_MAX_DESCRIBED_RUNS = 5
_MAX_PAIRS = 3
"""The maximum number of pairs of runs that warnings name one by one."""


@dataclass(frozen=True, kw_only=True)
class ComparisonRow:
    """A run and its ratios to the baseline, with None for unknown ones."""

    run: RunFigures
    name: str
    """The workload's name, or the run's id if several runs have the same workload."""
    speed_up: float | None
    """The baseline's time per epoch divided by the run's."""
    steps_ratio: float | None
    """The baseline's steps divided by the run's, both of the replica with the most steps."""
    accuracy_difference: float | None
    """Negative if the run is worse than the baseline."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Runs in the order of the command line."""

    rows: tuple[ComparisonRow, ...]
    baseline: ComparisonRow
    warnings: tuple[str, ...]
    """The reasons why runs are not comparable."""
    notes: tuple[str, ...]
    """The unknown figures, with the reasons."""

    @property
    def has_many_runs(self) -> bool:
        """Whether there are too many runs to describe each one."""
        return len(self.rows) > _MAX_DESCRIBED_RUNS

    def sentences(self) -> list[str]:
        """Return a sentence for each run except the baseline; of many runs, only of the best ones."""
        if self.has_many_runs:
            return list(_best_runs(self.rows, self.baseline))
        return [_sentence(row, self.baseline) for row in self.rows if row is not self.baseline]


def compare(runs: Sequence[RunFigures]) -> Comparison:
    """Return the comparison of at least one run.

    The baseline is the slowest run with a single replica, or the first run if all runs have several replicas.
    """
    single_replica_runs = [run for run in runs if run.world_size == 1]
    baseline = max(single_replica_runs, key=lambda run: run.seconds_per_epoch or 0.0, default=runs[0])
    workloads = [run.workload for run in runs]
    rows = tuple(
        ComparisonRow(
            run=run,
            name=run.workload if workloads.count(run.workload) == 1 else run.run_id,
            speed_up=_ratio(baseline.seconds_per_epoch, run.seconds_per_epoch),
            steps_ratio=_ratio(_max_steps(baseline), _max_steps(run)) if baseline.step_unit == run.step_unit else None,
            accuracy_difference=_difference(run.accuracy, baseline.accuracy),
        )
        for run in runs
    )
    baseline_row = rows[runs.index(baseline)]
    return Comparison(
        rows=rows,
        baseline=baseline_row,
        warnings=(*_warnings(rows, baseline_row), *_overlaps(rows)),
        notes=(*(note for row in rows for note in _notes(row)), *_possible_overlaps(rows)),
    )


def _max_steps(run: RunFigures) -> int | None:
    return max((steps for steps in run.steps.values() if steps is not None), default=None)


def _ratio(baseline: float | None, value: float | None) -> float | None:
    return baseline / value if baseline and value else None


def _difference(value: float | None, baseline: float | None) -> float | None:
    if value is None or baseline is None or not math.isfinite(value) or not math.isfinite(baseline):
        return None
    # In binary floating point, 0.98 - 0.96 is more than 0.02.
    return round(value - baseline, 9)


def _warnings(rows: Sequence[ComparisonRow], baseline: ComparisonRow) -> Iterator[str]:
    for row in rows:
        if not row.run.finished:
            yield f"{row.name} has not succeeded, so its figures are incomplete"
        if row is not baseline:
            yield from _differences(row, baseline)


def _differences(row: ComparisonRow, baseline: ComparisonRow) -> Iterator[str]:
    """Yield the differences between a run and the baseline that affect their figures."""
    run, baseline_run, pair = row.run, baseline.run, f"{baseline.name} and {row.name}"
    if run.step_unit != baseline_run.step_unit:
        yield (
            f"steps of {pair} are not comparable: {baseline.name} counts {baseline_run.step_unit}, {row.name} counts "
            f"{run.step_unit}"
        )
    strides = [next((log.images_per_line for log in logs.values()), None) for logs in (baseline_run.logs, run.logs)]
    if None not in strides and strides[0] != strides[1]:
        yield (
            f"steps of {pair} are not comparable: their logs have a progress line every {strides[0]} and {strides[1]} "
            "images; give both the same batch size and log interval"
        )
    if len(run.epochs) != len(baseline_run.epochs):
        yield (
            f"{pair} trained {len(baseline_run.epochs)} and {len(run.epochs)} epochs: steps, accuracy and loss are not "
            "comparable; the time per epoch is"
        )
    # The definition of a run from its logs may be unknown; unknown data and seeds are not reported as differences.
    new, old = run.definition, baseline_run.definition
    if new is None or old is None:
        return
    if new.data and old.data and new.data != old.data:
        yield (
            f"{pair} read different data ({old.data[:12]}… and {new.data[:12]}…): accuracy and loss are not comparable"
        )
    if new.seed is not None and old.seed is not None and new.seed != old.seed:
        yield f"{pair} have different seeds ({old.seed} and {new.seed}): part of the difference is random"
    if new.revision != old.revision:
        yield f"{pair} ran different code (revisions {old.revision or 'none'} and {new.revision or 'none'})"
    if new.image != old.image:
        yield f"{pair} ran different images ({old.image} and {new.image})"
    if differing_arguments := _differing_arguments(old, new):
        yield f"{pair} ran with different arguments: {differing_arguments}"


def _overlaps(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    for node, runs in _simultaneous_runs(rows).items():
        if node is not None:
            for names, time in runs:
                yield (
                    f"{names} ran on node {node} at the same time for {time} and shared its CPUs: times per epoch and "
                    "the speed-up are not comparable. Run them in sequence (`dependsOn`)"
                )


def _possible_overlaps(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    for names, time in _simultaneous_runs(rows).get(None, ()):
        yield (
            f"{names} ran at the same time for {time}; it is unknown whether they shared a node: a record has no "
            "nodes, and the pods no longer exist"
        )


def _simultaneous_runs(rows: Sequence[ComparisonRow]) -> dict[str | None, list[tuple[str, str]]]:
    """Return the names of runs that ran at the same time, with the time, by node (None if unknown).

    Many pairs on a node are one entry, with the longest time of two runs.
    """
    pairs: dict[str | None, list[tuple[ComparisonRow, ComparisonRow, timedelta]]] = {}
    for row, peer in combinations(rows, 2):
        for node, time in shared_times(row.run.placements, peer.run.placements).items():
            pairs.setdefault(node, []).append((row, peer, time))
    entries = {}
    for node, pairs_on_node in pairs.items():
        if len(pairs_on_node) <= _MAX_PAIRS:
            entries[node] = [
                (f"{row.name} and {peer.name}", format_duration(time)) for row, peer, time in pairs_on_node
            ]
            continue
        names = dict.fromkeys(run.name for row, peer, _ in pairs_on_node for run in (row, peer))
        longest = max(time for _, _, time in pairs_on_node)
        entries[node] = [(f"{len(names)} runs ({', '.join(names)})", f"up to {format_duration(longest)}")]
    return entries


def _differing_arguments(baseline_definition: Definition, run_definition: Definition) -> str:
    """Return the arguments that only one of the two definitions has; paths and variables are ignored."""
    baseline_arguments, run_arguments = (
        [argument for argument in (*definition.command, *definition.args) if not re.search("[/$]", argument)]
        for definition in (baseline_definition, run_definition)
    )
    removed = [argument for argument in baseline_arguments if argument not in run_arguments]
    added = [argument for argument in run_arguments if argument not in baseline_arguments]
    return f"{' '.join(removed) or 'none'} against {' '.join(added) or 'none'}" if removed or added else ""


def _notes(row: ComparisonRow) -> Iterator[str]:
    run, name = row.run, row.name
    yield from (f"{name}: {note}" for note in run.notes)
    if run.definition is None or run.source == "logs":
        yield f"{name} has no record, so its data and seed are unknown"
    if run.unlogged_ranks:
        yield (
            f"{name}: no log of rank {_ranks(run.unlogged_ranks)} in the record or from a pod. The log of a worker "
            "without the record's volume exists as long as its pod (cleanPodPolicy: None keeps the pods)"
        )
    if run.partial_ranks:
        yield (
            f"{name}: the log of rank {_ranks(run.partial_ranks)} lacks epochs that other ranks have, so its steps are "
            "unknown: of a restarted container, the node keeps only the current and the previous log"
        )
    unrecognized_ranks = [
        rank
        for rank, steps in run.steps.items()
        if steps is None and rank not in (*run.unlogged_ranks, *run.partial_ranks)
    ]
    if unrecognized_ranks:
        yield f"{name}: the log of rank {_ranks(unrecognized_ranks)} has no steps in a recognized format (docs/runs.md)"
    if run.step_unit == "progress lines":
        yield f"{name}: its log does not number steps, so each progress line counts as one"
    if run.accuracy is None:
        yield f"{name}: no accuracy in its metrics or logs in a recognized format (docs/runs.md)"
    elif run.test_accuracy is None:
        yield f"{name}: no accuracy on test images; shown is the one on the held-out images after the last epoch"
    if run.loss is not None and not math.isfinite(run.loss):
        yield f"{name}: its loss is {run.loss}: the training diverged"
    if run.seconds_per_epoch is None:
        yield f"{name}: the time per epoch is unknown"


def _ranks(ranks: Sequence[int]) -> str:
    """Format ranks as `0-3, 7`."""
    starts = [rank for previous, rank in pairwise([-2, *ranks]) if rank != previous + 1]
    ends = [rank for rank, following in pairwise([*ranks, -2]) if following != rank + 1]
    return ", ".join(str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True))


def _best_runs(rows: Sequence[ComparisonRow], baseline: ComparisonRow) -> Iterator[str]:
    yield f"The baseline is {baseline.name}."
    timed_rows = [(row.run.seconds_per_epoch, row) for row in rows if row.run.seconds_per_epoch is not None]
    if timed_rows:
        seconds, fastest = min(timed_rows, key=lambda timed_row: timed_row[0])
        speed_up = f", {fastest.speed_up:.2f} times as fast as the baseline" if fastest.speed_up else ""
        yield f"Shortest epoch: {fastest.name}, {seconds:.3g} s{speed_up}."
    accuracies = [(row.run.accuracy, row) for row in rows if row.run.accuracy is not None]
    if finite_accuracies := [(accuracy, row) for accuracy, row in accuracies if math.isfinite(accuracy)]:
        accuracy, most_accurate = max(finite_accuracies, key=lambda rated_row: rated_row[0])
        yield f"Highest accuracy: {most_accurate.name}, {accuracy:.4f}."


def _sentence(row: ComparisonRow, baseline: ComparisonRow) -> str:
    run, baseline_run = row.run, baseline.run
    parts = []
    if row.steps_ratio:
        suffix = " each" if run.world_size > 1 else ""
        parts.append(
            f"{_max_steps(run)} {run.step_unit}{suffix} against {_max_steps(baseline_run)} (1 : {row.steps_ratio:.1f})"
        )
    if row.speed_up:
        parts.append(
            f"an epoch in {run.seconds_per_epoch:.3g} s against {baseline_run.seconds_per_epoch:.3g} s "
            f"({row.speed_up:.2f} times as fast)"
        )
    if row.accuracy_difference is not None:
        is_same = abs(row.accuracy_difference) <= SAME_ACCURACY
        difference = f"the same within {SAME_ACCURACY}" if is_same else f"differs by more than {SAME_ACCURACY}"
        parts.append(f"accuracy {run.accuracy:.4f} against {baseline_run.accuracy:.4f} ({difference})")
    replicas = "1 replica" if run.world_size == 1 else f"{run.world_size} replicas"
    return f"{row.name}, {replicas}: {'; '.join(parts) or 'nothing to compare'}."
