"""Launches and ledgers that a name on the command line refers to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainstack.cli.output.console import fail
from trainstack.cli.session import Session
from trainstack.live.client import ClusterError
from trainstack.live.snapshot import read_launches, read_runs, run_namespaces
from trainstack.objects.ownership import identity
from trainstack.runs.launches import LiveLaunch, live_launch
from trainstack.runs.ledgers import Ledger, mounted_wrapper

Body = Mapping[str, Any]
"""A live object."""


def launch_bodies(session: Session, run: str | None) -> list[Body]:
    """Read the objects of a run's launches, or of all. Raises ClusterError; exits if the run has none."""
    bodies = read_bodies(session)
    return bodies_of(select_launches([live_launch(body) for body in bodies], run), bodies)


def read_bodies(session: Session) -> list[dict[str, Any]]:
    settings = session.settings
    return read_launches(settings, run_namespaces(settings))


def bodies_of(launches: Sequence[LiveLaunch], bodies: Sequence[Body]) -> list[Body]:
    identities = {(launch.kind, launch.namespace, launch.name) for launch in launches}
    return [body for body in bodies if identity(body) in identities]


def select_launches(launches: Sequence[LiveLaunch], run: str | None) -> list[LiveLaunch]:
    """Return the launches of one run, or all; exits if the run has none."""
    selected_launches = launches_named(launches, run)
    if run is not None and not selected_launches:
        fail(_describe_missing_object(launches, run))
    return selected_launches


def _describe_missing_object(launches: Sequence[LiveLaunch], run: str) -> str:
    run_ids = ", ".join(sorted({launch.run_id for launch in launches})) or "none"
    return (
        f"run {run!r} has no object in the cluster (runs that have one: {run_ids}); if it was launched before, its "
        "record is on its volume"
    )


def unknown_results(session: Session, run_ids: Iterable[str]) -> str:
    """Describe runs whose objects were deleted before their results were read, with where a result is recorded."""
    try:
        ledgers = {ledger.run_id: ledger for ledger in read_runs(session.settings).ledgers}
    except ClusterError as error:
        return f"{', '.join(run_ids)}: the object was deleted before the result was known; {error}"
    return "\n".join(_unknown_result(session, run_id, ledgers.get(run_id)) for run_id in run_ids)


def _unknown_result(session: Session, run_id: str, ledger: Ledger | None) -> str:
    if ledger is None:
        remedy = "its ledger was deleted too, so the run was stopped or destroyed"
    elif mounted_wrapper(ledger.objects) is None:
        remedy = "an unmanaged run keeps no record"
    else:
        remedy = f"its record has the result: trainstack fetch {run_id} -s {session.stack}"
    return f"{run_id}: its object was deleted before the result was known; {remedy}"


def ledgers_of(ledgers: Sequence[Ledger], run: str) -> list[Ledger]:
    """Return the ledgers of a run id, else those of a workload, else those whose run ids start with the name."""
    return (
        [ledger for ledger in ledgers if ledger.run_id == run]
        or [ledger for ledger in ledgers if ledger.workload == run]
        or [ledger for ledger in ledgers if ledger.run_id.startswith(run)]
    )


def describe_missing_run(session: Session, run: str) -> str:
    runs = read_runs(session.settings)
    run_ledgers = ledgers_of(runs.ledgers, run)
    lines = (_unknown_result(session, ledger.run_id, ledger) for ledger in run_ledgers)
    return "\n".join(lines) or _describe_missing_object(runs.live, run)


def launches_named(launches: Sequence[LiveLaunch], run: str | None) -> list[LiveLaunch]:
    """Return the launches that a name on the command line refers to; all for None."""
    if run is None:
        return list(launches)
    # `digits` names the runs of that workload, not those of `digits-small`.
    matches = [launch for launch in launches if launch.workload_name == run]
    # `search-3` names the third trial, not the run id `search-3f0c9a1b2d`.
    matches = matches or [launch for launch in launches if run in (launch.name, _trial_name(launch))]
    return matches or [launch for launch in launches if launch.run_id.startswith(run)]


def _trial_name(launch: LiveLaunch) -> str | None:
    sweep = launch.sweep
    return f"{sweep.name}-{sweep.number}" if sweep and sweep.number is not None else None
