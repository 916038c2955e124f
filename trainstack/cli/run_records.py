"""Fetch the records of runs, from this cluster or from the worker cluster of a dispatched run."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from trainstack.cli.output.console import err, fail
from trainstack.cli.run_selection import read_bodies
from trainstack.cli.session import Session
from trainstack.cli.transfers import data_loader
from trainstack.errors import TrainstackError
from trainstack.live.run_views import read_clusters_by_run
from trainstack.live.worker_clusters import settings_of_worker
from trainstack.objects.labels import RUN, SET, SWEEP
from trainstack.runs.launches import live_launch
from trainstack.runs.ledgers import Ledger
from trainstack.runs.manifests.build import is_dispatched
from trainstack.runs.names import prefix_of_run
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Record
from trainstack.transfer.attempts import TransferResult
from trainstack.transfer.fetch import fetch as fetch_files
from trainstack.transfer.record_check import SUCCESS_FILE

Bodies = Sequence[dict[str, Any]]


class UnknownClusterError(TrainstackError):
    """It is unknown which worker cluster has the record of a dispatched run."""


def body_reader(session: Session) -> Callable[[], Bodies]:
    """Return a function that reads the live launches when it is first called."""
    return cache(lambda: read_bodies(session))


def fetch_run(session: Session, ledger: Ledger, read_live_bodies: Callable[[], Bodies]) -> Path | None:
    """Fetch a run's record to results/<run-id>/, unless the finished record is there.

    `read_live_bodies` reads the live launches. Returns None for a run without a record: an unmanaged workload, or
    one that is no longer declared. Raises UnknownClusterError.
    """
    target = session.results / ledger.run_id
    if (target / SUCCESS_FILE).is_file():
        return target
    workload = session.workload(ledger.workload)
    if workload is None or workload.record is None:
        return None
    # The namespace of the launch: the workload may have been moved to another one since.
    settings = settings_of_run(session, read_live_bodies(), ledger.run_id)
    with data_loader(settings, ledger.namespace, workload.record.volume) as loader:
        warn_of_changes(fetch_files(loader, f"{workload.record.path}/{ledger.run_id}", target))
    return target


def latest_run(session: Session, bodies: Bodies, workload: str, record: Record) -> str:
    """Return the id of a workload's latest run that has an object in the cluster; exits if there is no such run."""
    launches = map(live_launch, bodies)
    workload_launches = [launch for launch in launches if launch.workload_name == workload]
    if not workload_launches:
        fail(
            f"no run of {workload} has an object in the cluster; fetch an earlier one by its id, which is a folder of "
            f"`trainstack ls {record.volume}:{record.path} -s {session.stack}`"
        )
    return max(workload_launches, key=lambda launch: launch.created).run_id


def settings_of_run(session: Session, live_bodies: Bodies, run_id: str) -> Settings:
    """Return the settings of the cluster with a run's volume: a worker cluster's if MultiKueue dispatched the run.

    Raises PermanentError without a context for that cluster, UnknownClusterError if it is unknown which one that is.
    """
    settings = session.settings
    run_bodies = [body for body in live_bodies if body["metadata"]["labels"][RUN] == run_id] or _indexed_jobs(
        live_bodies, run_id
    )
    if run_bodies and not any(map(is_dispatched, run_bodies)):
        return settings
    clusters = {*read_clusters_by_run(run_bodies, settings.cluster.context).values()}
    if not clusters and (workload := session.workload_of_run(run_id)) is not None:
        # The run has no object that names its cluster.
        clusters = {*settings.queues.worker_clusters(workload.namespace, workload.queue)}
    if len(clusters) > 1:
        _, volume, path = record_place(session, run_id)
        raise UnknownClusterError(
            f"{run_id} has no object that names the cluster to which it was dispatched: {', '.join(sorted(clusters))}",
            f"fetch the record from the environment of that cluster: trainstack fetch {volume}:{path} -s ENV",
        )
    return settings_of_worker(settings, *clusters) if clusters else settings


def _indexed_jobs(live_bodies: Bodies, run_id: str) -> Bodies:
    """Return the Indexed Jobs of a trial's sweep, which do not have its id."""
    sweep = prefix_of_run(run_id)
    return [
        body for body in live_bodies if (labels := body["metadata"]["labels"]).get(SWEEP) == sweep and SET not in labels
    ]


def record_place(session: Session, run_id: str) -> tuple[str, str, str]:
    """Return the namespace, volume and path of a run's record; exits if the run has no record."""
    workload = session.workload_of_run(run_id)
    if workload is None:
        names = ", ".join(run.name for _, run in session.settings.runs_and_trials() if run.record) or "none"
        fail(
            f"{run_id!r} is not a run of {session.stack}; run ids are <workload>-<10 hex>, and its recorded workloads "
            f"are: {names}"
        )
    if workload.record is None:
        fail(
            f"{run_id} has no record, since {workload.name} sets no `record`; for its log: "
            f"trainstack logs {run_id} -s {session.stack}"
        )
    return workload.namespace, workload.record.volume, f"{workload.record.path}/{run_id}"


def warn_of_changes(transfer_result: TransferResult) -> None:
    if transfer_result.changed:
        err.print(
            f"{len(transfer_result.changed)} files changed while they were fetched and are not verified: "
            f"{', '.join(transfer_result.changed)!r}; fetch them again when the run has ended",
            style="yellow",
        )
