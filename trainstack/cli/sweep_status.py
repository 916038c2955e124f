"""`trainstack sweep status`: how far a sweep is."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trainstack.cli.console import duration, fail, out, quiet_interrupt, show, show_json, step
from trainstack.cli.runs import PAUSE_SECONDS, Patience
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.cli.sweep_logs import TrialLogs
from trainstack.cli.sweep_read import Known, SweepArgument, planned_trials, read_states, sweep_of
from trainstack.live.client import ClusterError
from trainstack.reports.sweep_format import STATES, best_in_words, counted, parameters_of, seconds_of
from trainstack.runs.launches import utc_now
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.search.progress import seconds_left
from trainstack.sweeps.search.ranking import rank
from trainstack.sweeps.search.results import State, TrialResult, objective_value

_MARKS = {"succeeded": "●", "running": "◐", "queued": "○", "waiting": "·", "failed": "✗", "stopped": "–"}  # noqa: RUF001 (a dash is meant)
_STYLES = {"succeeded": "green", "running": "cyan", "queued": "yellow", "waiting": "dim", "failed": "red"}
_LEFT: frozenset[State] = frozenset(("running", "queued", "waiting"))
"""States of trials that have not ended."""
_ROW = 50
"""Trials in a line of the grid."""
_REASONS = 10
"""So many different reasons are told."""
_NUMBERS = 12
_WIDTH = 120
"""Columns where there is no terminal."""


def status(
    name: SweepArgument,
    stack: StackOption = "dev",
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep looking until all trials have ended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a sweep's trials as a grid: done, running, queued, failed; why, and how long the rest will take.

    The time left is reckoned from the trials that have ended, with as many at once as run now. Of unmanaged trials the
    best so far is told, by their logs; what these say is kept when the pods are removed.

    Examples:

      trainstack sweep status digits-search -s dev

      trainstack sweep status digits-search -s dev --watch

      trainstack sweep status digits-search -s dev --json
    """
    if watch and as_json:
        fail("--watch is for people: leave it out, or --json")
    session = Session.open(stack)
    sweep = sweep_of(session, name)
    planned = planned_trials(session, sweep)
    known = Known(TrialLogs(session, sweep))
    if watch:
        with quiet_interrupt(), Live(console=out, auto_refresh=False) as live:
            patience = Patience(session, report=lambda line: live.update(Text(line, style="yellow"), refresh=True))
            while True:
                found = patience.ask(lambda: read_states(session, sweep, planned, known))
                live.update(shown(sweep, found, utc_now()), refresh=True)
                if not any(each.state in _LEFT for each in found):
                    return
                time.sleep(PAUSE_SECONDS)
    try:
        with step(f"looking at the trials of {name}", "2 s"):
            found = read_states(session, sweep, planned, known)
    except ClusterError as error:
        fail(str(error))
    if as_json:
        show_json(as_data(sweep, found, utc_now()))
    else:
        show(shown(sweep, found, utc_now()), width=_WIDTH)


def as_data(sweep: Sweep, found: Sequence[TrialResult], now: datetime) -> dict[str, Any]:
    """A sweep's state for programs; times in seconds, null where nothing tells."""
    keep = {"number", "set_id", "run_id", "parameters", "state", "reason", "started", "finished", "attempts"}
    counts, objective = Counter(each.state for each in found), sweep.space.objective
    return {
        "sweep": sweep.name,
        "form": sweep.form,
        "counts": {state: counts[state] for state in STATES},
        "seconds_left": left(found, now),
        "trials": [
            {**each.model_dump(mode="json", include=keep), "objective": objective_value(each.metrics, objective)}
            for each in found
        ],
    }


def left(found: Sequence[TrialResult], now: datetime) -> float | None:
    """Seconds until the last trial has ended; None where nothing tells."""
    finished = [seconds for each in found if each.state == "succeeded" and (seconds := seconds_of(each)) is not None]
    running = [(now - (each.started or now)).total_seconds() for each in found if each.state == "running"]
    return seconds_left(finished, running, sum(each.state in ("queued", "waiting") for each in found))


def shown(sweep: Sweep, found: Sequence[TrialResult], now: datetime) -> RenderableType:
    """The grid, what its marks mean, and what there is to say of the trials that do not go on."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim")
    for first in range(0, len(found), _ROW):
        marks = Text()
        for index, each in enumerate(found[first : first + _ROW]):
            # In tens, so that one is found by its number.
            marks.append(" " if index and index % 10 == 0 else "")
            marks.append(_MARKS[each.state], style=_STYLES.get(each.state, ""))
        grid.add_row(str(found[first].number), marks)
    counts = Counter(each.state for each in found)
    legend = Text("  ").join(
        Text.assemble((_MARKS[state], _STYLES.get(state, "")), f" {counts[state]} {state}")
        for state in STATES
        if counts[state]
    )
    return Group(
        Text(f"{sweep.name}, form {sweep.form}, {counted(found)}{_time_left(found, now)}"),
        grid,
        legend,
        *_best(sweep, found),
        *_reasons(found),
    )


def _best(sweep: Sweep, found: Sequence[TrialResult]) -> list[RenderableType]:
    """The best so far, where logs have told; records are not read for it."""
    best = rank(found, sweep.space.objective).best
    return [] if best is None else [Text(best_in_words(best, sweep.space.objective))]


def _time_left(found: Sequence[TrialResult], now: datetime) -> str:
    states = {each.state for each in found}
    if not states & _LEFT:
        return ""
    if states & _LEFT == {"waiting"}:
        return "; `trainstack up` launches those that are waiting"
    seconds = left(found, now)
    if seconds == 0:
        return "; what still runs takes longer than the others did"
    if seconds is not None:
        return f"; about {duration(seconds)} left"
    why = "no trial has ended well" if "succeeded" not in states else "no trial runs now"
    return f"; how long it takes is not known yet: {why}"


def _reasons(found: Sequence[TrialResult]) -> list[RenderableType]:
    """Each reason once, with the trials that it holds for; those that have failed first."""
    order: Mapping[str, int] = {"failed": 0, "stopped": 1, "queued": 2, "running": 3}
    numbers: dict[tuple[str, str], list[TrialResult]] = {}
    for each in sorted(found, key=lambda each: order.get(each.state, 4)):
        if each.reason and each.state != "succeeded":
            numbers.setdefault((each.state, each.reason), []).append(each)
    lines: list[RenderableType] = []
    for (state, reason), trials in list(numbers.items())[:_REASONS]:
        of = ", ".join(str(each.number) for each in trials[:_NUMBERS])
        more = f" and {len(trials) - _NUMBERS} more" if len(trials) > _NUMBERS else ""
        given = f" ({parameters_of(trials[0].parameters)})" if len(trials) == 1 else ""
        lines.append(Text.assemble((state, _STYLES.get(state, "")), f" {of}{more}{given}: {reason}"))
    if len(numbers) > _REASONS:
        lines.append(Text(f"and {len(numbers) - _REASONS} more reasons: --json has them all", style="dim"))
    return lines
