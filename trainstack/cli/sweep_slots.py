"""Slots of sweeps whose trials are launched individually, up to the sweep's `parallelism` at once."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from trainstack.cli.follow import ChangeReporter
from trainstack.cli.output.console import fail
from trainstack.cli.retries import PAUSE_SECONDS, RETRY_SECONDS, RetryBudget
from trainstack.cli.run_selection import launch_bodies
from trainstack.cli.session import Session
from trainstack.runs.launches import live_launch


def await_slot(session: Session, parallelism: Mapping[str, int], timeout: int) -> None:
    """Return once one of the sweeps has a free slot; report every change. Exits if the time is up."""
    deadline, changes = time.monotonic() + timeout, ChangeReporter()
    retry_budget = RetryBudget(session, RETRY_SECONDS)
    while True:
        active = _active_trials(retry_budget.retry(lambda: launch_bodies(session, None)))
        slots = (f"{name}: {active.get(name, 0)} of {limit} slots in use" for name, limit in parallelism.items())
        changes.report("slots", ", ".join(slots))
        if any(active.get(name, 0) < limit for name, limit in parallelism.items()):
            return
        if time.monotonic() > deadline:
            fail(
                f"no trial of {', '.join(parallelism)} has ended within {timeout} s; the trials continue. Check them "
                f"with: trainstack status -s {session.stack}"
            )
        time.sleep(PAUSE_SECONDS)


def _active_trials(bodies: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return by sweep how many trials its queued and running launches may run at once."""
    active: dict[str, int] = {}
    for body in bodies:
        launch = live_launch(body)
        if launch.is_active and launch.sweep is not None:
            trials = 1 if launch.sweep.set_id else int(body["spec"].get("parallelism", 1))
            active[launch.sweep.name] = active.get(launch.sweep.name, 0) + trials
    return active
