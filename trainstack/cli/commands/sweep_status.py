import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trainstack.cli.output.console import duration, make_text, out, quiet_interrupt, report_in, show, show_json, step
from trainstack.cli.retries import PAUSE_SECONDS, RetryBudget
from trainstack.cli.run_options import WatchOption, ensure_one_output
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.cli.sweep_logs import TrialLogs
from trainstack.cli.sweep_read import SweepArgument, TrialCache, planned_trials, read_states, sweep_of
from trainstack.printable import clean
from trainstack.reports.sweep_format import (
    STATES,
    describe_best_trial,
    describe_trial_states,
    format_parameters,
    trial_seconds,
)
from trainstack.runs.launches import utc_now
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.search.ranking import rank
from trainstack.sweeps.search.remaining_time import seconds_left
from trainstack.sweeps.search.results import State, TrialResult, objective_value

_MARKS = {"succeeded": "●", "running": "◐", "queued": "○", "waiting": "·", "failed": "✗", "stopped": "–"}  # noqa: RUF001 (a dash is meant)
_STYLES = {"succeeded": "green", "running": "cyan", "queued": "yellow", "waiting": "dim", "failed": "red"}
_UNFINISHED_STATES: frozenset[State] = frozenset(("running", "queued", "waiting"))
"""States before a trial has ended."""
_TRIALS_PER_LINE = 50
"""Trials per line of the grid."""
_MAX_REASONS = 10
_MAX_NUMBERS = 12
"""Trial numbers per reason."""
_WIDTH = 120
"""Columns in a file or pipe."""


def status(
    name: SweepArgument,
    stack: StackOption,
    *,
    watch: WatchOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show a sweep's trials as a grid with their states, the reasons for failures, and the time left.

    The time left assumes the durations of ended trials and the current parallelism. For unmanaged trials, also shows
    the best one so far, and saves the results from their logs before the pods are deleted.

    Examples:
      trainstack sweep status digits-search -s dev
      trainstack sweep status digits-search -s dev --watch
      trainstack sweep status digits-search -s dev --json
    """
    ensure_one_output(watch=watch, as_json=as_json)
    session = Session.open(stack)
    sweep = sweep_of(session, name)
    trials = planned_trials(session, sweep)
    cache = TrialCache(TrialLogs(session, sweep))
    if watch:
        with quiet_interrupt(), Live(console=out, auto_refresh=False) as live:
            retry_budget = RetryBudget(session, report=lambda line: report_in(live, line))
            while True:
                trial_results = retry_budget.retry(lambda: read_states(session, sweep, trials, cache))
                live.update(_render(sweep, trial_results, utc_now()), refresh=True)
                if not any(trial.state in _UNFINISHED_STATES for trial in trial_results):
                    return
                time.sleep(PAUSE_SECONDS)
    with step(f"reading the trials of {name}", "2 s"):
        trial_results = read_states(session, sweep, trials, cache)
    if as_json:
        show_json(as_data(sweep, trial_results, utc_now()))
    else:
        show(_render(sweep, trial_results, utc_now()), width=_WIDTH)


def as_data(sweep: Sweep, trial_results: Sequence[TrialResult], now: datetime) -> dict[str, Any]:
    fields = {"number", "set_id", "run_id", "parameters", "state", "reason", "started", "finished", "attempts"}
    counts, objective = Counter(trial.state for trial in trial_results), sweep.space.objective
    return {
        "sweep": sweep.name,
        "form": sweep.form,
        "counts": {state: counts[state] for state in STATES},
        "seconds_left": _seconds_left(trial_results, now),
        "trials": [
            {**trial.model_dump(mode="json", include=fields), "objective": objective_value(trial.metrics, objective)}
            for trial in trial_results
        ],
    }


def _seconds_left(trial_results: Sequence[TrialResult], now: datetime) -> float | None:
    succeeded = [trial for trial in trial_results if trial.state == "succeeded"]
    finished = [seconds for trial in succeeded if (seconds := trial_seconds(trial)) is not None]
    running = [(now - (trial.started or now)).total_seconds() for trial in trial_results if trial.state == "running"]
    return seconds_left(finished, running, sum(trial.state in ("queued", "waiting") for trial in trial_results))


def _render(sweep: Sweep, trial_results: Sequence[TrialResult], now: datetime) -> RenderableType:
    """Draw the grid, its legend, and the reasons of trials that are not running."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim")
    for start in range(0, len(trial_results), _TRIALS_PER_LINE):
        marks = Text()
        for index, trial in enumerate(trial_results[start : start + _TRIALS_PER_LINE]):
            # In groups of ten, so that a trial can be found by its number.
            marks.append(" " if index and index % 10 == 0 else "")
            marks.append(_MARKS[trial.state], style=_STYLES.get(trial.state, ""))
        grid.add_row(str(trial_results[start].number), marks)
    counts = Counter(trial.state for trial in trial_results)
    legend = Text("  ").join(
        Text.assemble((_MARKS[state], _STYLES.get(state, "")), f" {counts[state]} {state}")
        for state in STATES
        if counts[state]
    )
    return Group(
        f"{sweep.name}, form {sweep.form}, "
        f"{describe_trial_states(trial_results)}{_describe_time_left(trial_results, now)}",
        grid,
        legend,
        *_best_trial_text(sweep, trial_results),
        *_reason_lines(trial_results),
    )


def _best_trial_text(sweep: Sweep, trial_results: Sequence[TrialResult]) -> list[RenderableType]:
    best = rank(trial_results, sweep.space.objective).best
    return [] if best is None else [describe_best_trial(best, sweep.space.objective)]


def _describe_time_left(trial_results: Sequence[TrialResult], now: datetime) -> str:
    states = {trial.state for trial in trial_results}
    if not states & _UNFINISHED_STATES:
        return ""
    if states & _UNFINISHED_STATES == {"waiting"}:
        return "; `trainstack up` launches the waiting trials"
    seconds = _seconds_left(trial_results, now)
    if seconds == 0:
        return "; the running trials take longer than the others did"
    if seconds is not None:
        return f"; about {duration(seconds)} left"
    reason = "no trial has succeeded" if "succeeded" not in states else "no trial is running"
    return f"; the time left is unknown: {reason}"


def _reason_lines(trial_results: Sequence[TrialResult]) -> list[RenderableType]:
    """List the reasons with their trials; of failed trials first."""
    order: Mapping[str, int] = {"failed": 0, "stopped": 1, "queued": 2, "running": 3}
    by_reason: dict[tuple[str, str], list[TrialResult]] = {}
    for trial in sorted(trial_results, key=lambda trial: order.get(trial.state, 4)):
        if trial.reason and trial.state != "succeeded":
            by_reason.setdefault((trial.state, trial.reason), []).append(trial)
    lines: list[RenderableType] = []
    for (state, reason), trials in list(by_reason.items())[:_MAX_REASONS]:
        numbers = ", ".join(str(trial.number) for trial in trials[:_MAX_NUMBERS])
        more = f" and {len(trials) - _MAX_NUMBERS} more" if len(trials) > _MAX_NUMBERS else ""
        parameters_note = f" ({format_parameters(trials[0].parameters)})" if len(trials) == 1 else ""
        lines.append(
            Text.assemble(
                make_text(state, _STYLES.get(state, "")), clean(f" {numbers}{more}{parameters_note}: {reason}")
            )
        )
    if len(by_reason) > _MAX_REASONS:
        lines.append(Text(f"and {len(by_reason) - _MAX_REASONS} more reasons; --json has all of them", style="dim"))
    return lines
