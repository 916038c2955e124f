"""Follow runs until they have ended, and print each change."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from trainstack.cli.output.console import fail, report, show_json
from trainstack.cli.retries import PAUSE_SECONDS, RETRY_SECONDS, RetryBudget
from trainstack.cli.run_selection import describe_missing_run, unknown_results
from trainstack.cli.run_views import MANY, as_data, leave_out_loaders, read_views_of_any
from trainstack.cli.session import Session
from trainstack.runs.launches import Phase
from trainstack.runs.status.run_view import RunView


class ChangeReporter:
    """Prints a subject's line only when it changes."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def report(self, subject: str, line: str) -> None:
        if self._lines.get(subject) != line:
            self._lines[subject] = line
            report(line)


def follow(session: Session, run: str | None, timeout: int, *, as_json: bool = False) -> list[RunView]:
    """Report every change until the chosen launches have ended. Exits if one failed or the time is up.

    A run whose object is deleted before its result is read counts as failed. Data loaders are not awaited. A Pod with
    restartPolicy Always has ended once an attempt has succeeded.
    """
    deadline = time.monotonic() + timeout
    changes = ChangeReporter()
    active_run_ids: dict[str, None] = {}
    """Run ids that were active at some point, in order."""
    retry_budget = RetryBudget(session, RETRY_SECONDS)
    while True:
        all_views = retry_budget.retry(lambda: read_views_of_any(session, run))
        views = leave_out_loaders(session, all_views)
        if run is not None and all_views and not views:
            fail(f"{run} is a data loader, which runs until it is deleted or reaches its deadline")
        if run is not None and not all_views and not active_run_ids:
            fail(retry_budget.retry(lambda: describe_missing_run(session, run)))
        # A run that was active and has no view any more was deleted before its result was read.
        active_run_ids |= dict.fromkeys(view.launch.run_id for view in views if view.launch.is_unfinished)
        for name, line in _summary_lines(views):
            changes.report(name, line)
        if not any(view.launch.is_unfinished for view in views):
            break
        if time.monotonic() > deadline:
            fail(
                f"not finished within {timeout} s; the runs continue. Check them with: "
                f"trainstack status -s {session.stack}"
            )
        time.sleep(PAUSE_SECONDS)
    if as_json:
        show_json([as_data(view) for view in views])
    if faults := _describe_failures(session, views, active_run_ids):
        fail("\n".join(faults))
    return views


def _summary_lines(views: Sequence[RunView]) -> Iterator[tuple[str, str]]:
    counts: dict[str, Counter[str]] = {}
    for view in views:
        launch, fraction = view.launch, view.done_fraction
        if len(views) > MANY and launch.sweep is not None and launch.sweep.set_id:
            counts.setdefault(launch.sweep.name, Counter())[launch.phase] += 1
        else:
            yield launch.name, f"{launch.run_id}: {'' if fraction is None else f'{fraction:.0%} '}{view.summary()}"
    for name, phases in counts.items():
        yield name, f"{name}: {', '.join(f'{phases[phase]} {phase}' for phase in get_args(Phase) if phases[phase])}"


def _describe_failures(session: Session, views: Sequence[RunView], active_run_ids: Iterable[str]) -> list[str]:
    faults = []
    failed_views = [view for view in views if view.launch.phase == "failed"]
    if failed_views:
        reasons = [f"{view.launch.run_id} ({view.failure or 'no reason given'})" for view in failed_views]
        first_failed = failed_views[0].launch.run_id
        faults.append(f"failed: {', '.join(reasons)}. See the log: trainstack logs {first_failed} -s {session.stack}")
    if lost_run_ids := [run_id for run_id in active_run_ids if run_id not in {view.launch.run_id for view in views}]:
        faults.append(unknown_results(session, lost_run_ids))
    return faults
