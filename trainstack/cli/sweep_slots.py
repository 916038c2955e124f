"""The places of sweeps whose trials are launched one by one, so many at once."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from trainstack.cli.console import fail
from trainstack.cli.runs import PATIENCE_SECONDS, PAUSE_SECONDS, Patience, launch_bodies, tell
from trainstack.cli.session import Session
from trainstack.runs.launches import live_launch


def await_place(session: Session, caps: Mapping[str, int], timeout: int) -> None:
    """Return once one of these sweeps has fewer trials queued or at work than it may have; show every change.

    Ends the command when time is up.
    """
    end, said = time.monotonic() + timeout, ""
    patience = Patience(session, PATIENCE_SECONDS)
    while True:
        taken = _places(patience.ask(lambda: launch_bodies(session, None)))
        line = ", ".join(f"{name}: {taken.get(name, 0)} of {most} places taken" for name, most in caps.items())
        if line != said:
            said = line
            tell(line)
        if any(taken.get(name, 0) < most for name, most in caps.items()):
            return
        if time.monotonic() > end:
            fail(
                f"no trial of {', '.join(caps)} has ended within {timeout} s; they go on in the cluster. Look again "
                f"with: trainstack status -s {session.stack}"
            )
        time.sleep(PAUSE_SECONDS)


def _places(bodies: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """By sweep, how many of its trials may be at work at once, of what is queued or at work."""
    taken: dict[str, int] = {}
    for body in bodies:
        launch = live_launch(body)
        if launch.active and launch.sweep is not None:
            many = 1 if launch.sweep.set_id else int(body["spec"].get("parallelism", 1))
            taken[launch.sweep.name] = taken.get(launch.sweep.name, 0) + many
    return taken
