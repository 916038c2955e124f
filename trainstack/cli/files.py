import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from trainstack.cli.console import err, fail, out, show_json
from trainstack.cli.runs import read_bodies
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.cli.transfers import data_loader
from trainstack.errors import ExitCode, TrainstackError
from trainstack.live.progress import clusters_of
from trainstack.live.worker_clusters import settings_of_worker
from trainstack.objects.labels import RUN, SET, SWEEP
from trainstack.printable import printable
from trainstack.runs.launches import live_launch
from trainstack.runs.ledgers import Ledger
from trainstack.runs.manifests.build import is_dispatched
from trainstack.settings.model import Settings
from trainstack.settings.sections.storage import Volume
from trainstack.settings.sections.workloads import Record
from trainstack.transfer.fetch import fetch as fetch_files
from trainstack.transfer.record_check import DONE
from trainstack.transfer.retry import TransferResult
from trainstack.transfer.upload import upload as upload_files
from trainstack.transfer.volume_files import list_files

Bodies = Sequence[dict[str, Any]]
PlaceArgument = Annotated[
    str, typer.Argument(metavar="VOLUME:PATH", help="A volume of the environment, and a folder or file on it.")
]

_NAME = re.compile("[^\udca0-\udcff]+")
"""The parts of a name that may control a terminal: all but bytes from A0 on that are not UTF-8."""


class UnknownClusterError(TrainstackError):
    """It is unknown which worker cluster has the record of a dispatched run."""


def upload(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A folder or file on this machine.", exists=True)],
    place: PlaceArgument,
    stack: StackOption,
    *,
    as_json: JsonOption = False,
) -> None:
    """Copy a folder or file to a volume, sending only differences, verified by sha256.

    The content of a folder is copied into the folder PATH. A file is copied into PATH if PATH is a folder or ends with
    `/`, else to PATH. If the transfer is interrupted, the same command resumes it.

    Examples:
      trainstack upload data/mnist training:data/mnist -s dev
      trainstack upload model.pt training:models/ -s dev
    """
    session = Session.open(stack)
    volume, path = _place(session, place)
    with data_loader(session.settings, volume.namespace, volume.name) as loader:
        sent = upload_files(loader, source, path)
    if as_json:
        show_json({"volume": volume.name, "namespace": volume.namespace, **asdict(sent)})
        return
    out.print(f"{volume.namespace}/{volume.name}:{sent.where}: {_count(sent)} sent, all verified")


def ls(place: PlaceArgument, stack: StackOption, *, as_json: JsonOption = False) -> None:
    """List the files in a folder of a volume, recursively, with their sha256.

    Examples:
      trainstack ls training:runs -s dev
      trainstack ls training:runs/digits-0f3c9a1b2d -s dev --json
    """
    session = Session.open(stack)
    volume, path = _place(session, place)
    with data_loader(session.settings, volume.namespace, volume.name) as loader:
        found = list_files(loader, path)
    if as_json:
        show_json(found)
        return
    for name, file in sorted(found.items()):
        # As bytes, since a name may not be valid UTF-8.
        typer.echo(os.fsencode(_line(_NAME.sub(lambda part: printable(part.group()), name), str(file["sha256"]))))


def _line(name: str, digest: str) -> str:
    """Format a file for `sha256sum -c`, which requires escapes and a mark for a name with a line break."""
    if "\n" not in name:
        return f"{digest}  {name}"
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n")
    return f"\\{digest}  {escaped}"


def fetch(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|VOLUME:PATH",
            help="A run id, a workload (its latest run in the cluster), or a folder or file on a volume.",
        ),
    ],
    stack: StackOption,
    to: Annotated[
        Path | None,
        typer.Option(help="The folder to write to (default: results/<run-id>/, or the remote folder's name)."),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Copy a run's record, or a folder or file on a volume, to this machine, verified by sha256.

    Does not need the run's pods. Complete local files are not fetched again; if the transfer is interrupted, the same
    command resumes it. For an active run, fetches the files so far and lists those that changed meanwhile.

    Examples:
      trainstack fetch digits -s dev
      trainstack fetch digits-0f3c9a1b2d -s dev
      trainstack fetch training:data/digits -s dev --to /tmp/digits
      trainstack fetch training:models/model.pt -s dev --to /tmp
    """
    session = Session.open(stack)
    target = to
    if ":" in what:
        volume, path = _place(session, what)
        namespace, name, settings = volume.namespace, volume.name, session.settings
    else:
        recorded = {run.name: run.record for run in session.settings.workloads.runs if run.record is not None}
        live = bodies_once(session)
        run_id = _latest(session, live(), what, recorded[what]) if what in recorded else what
        namespace, name, path = _record(session, run_id)
        target = to or session.results / Path(path).name
        settings = _settings_of_run(session, live(), run_id)
    with data_loader(settings, namespace, name) as loader:
        fetched = fetch_files(loader, path, target)
    _warn_of_changes(fetched)
    if as_json:
        show_json(asdict(fetched))
        return
    verified = "the others" if fetched.changed else "all"
    out.print(f"{fetched.where}: {_count(fetched)} fetched, {verified} verified")


def bodies_once(session: Session) -> Callable[[], Bodies]:
    """Return a function that reads the live launches when it is first called."""
    return cache(lambda: read_bodies(session))


def fetch_run(session: Session, ledger: Ledger, live: Callable[[], Bodies]) -> Path | None:
    """Fetch a run's record to results/<run-id>/, unless the finished record is there.

    `live` reads the live launches. Returns None for a run without a record: an unmanaged workload, or one that is no
    longer declared. Raises UnknownClusterError.
    """
    target = session.results / ledger.run_id
    if (target / DONE).is_file():
        return target
    workload = session.workload(ledger.workload)
    if workload is None or workload.record is None:
        return None
    # The namespace of the launch: the workload may have been moved to another one since.
    settings = _settings_of_run(session, live(), ledger.run_id)
    with data_loader(settings, ledger.namespace, workload.record.volume) as loader:
        _warn_of_changes(fetch_files(loader, f"{workload.record.path}/{ledger.run_id}", target))
    return target


def _place(session: Session, place: str) -> tuple[Volume, str]:
    name, colon, folder = place.partition(":")
    volumes = [volume for volume in session.settings.storage.volumes if volume.name == name]
    if not colon or not volumes:
        known = ", ".join(volume.name for volume in session.settings.storage.volumes) or "none"
        fail(f"{place!r} is not a VOLUME:PATH of {session.stack}; its volumes are: {known}", ExitCode.USAGE)
    if len(volumes) > 1:
        err.print(f"several namespaces have a volume {name}; using the one in {volumes[0].namespace}", style="yellow")
    return volumes[0], folder or "."


def _count(result: TransferResult) -> str:
    resumed = f", {decimal(result.resumed_bytes)} resumed" if result.resumed_bytes else ""
    return f"{result.sent} of {result.files} files ({decimal(result.sent_bytes)}{resumed})"


def _warn_of_changes(fetched: TransferResult) -> None:
    if fetched.changed:
        err.print(
            f"{len(fetched.changed)} files changed while they were fetched and are not verified: "
            f"{', '.join(fetched.changed)!r}; fetch them again when the run has ended",
            style="yellow",
        )


def _latest(session: Session, bodies: Bodies, workload: str, record: Record) -> str:
    """Return the id of a workload's latest run that has an object in the cluster; exits if there is no such run."""
    launches = map(live_launch, bodies)
    found = [launch for launch in launches if launch.run_id.rpartition("-")[0] == workload]
    if not found:
        fail(
            f"no run of {workload} has an object in the cluster; fetch an earlier one by its id, which is a folder of "
            f"`trainstack ls {record.volume}:{record.path} -s {session.stack}`"
        )
    return max(found, key=lambda launch: launch.created).run_id


def _settings_of_run(session: Session, live: Bodies, run_id: str) -> Settings:
    """Return the settings of the cluster with a run's volume: a worker cluster's if MultiKueue dispatched the run.

    Raises PermanentError without a context for that cluster, UnknownClusterError if it is unknown which one that is.
    """
    settings = session.settings
    bodies = [body for body in live if body["metadata"]["labels"][RUN] == run_id] or _batches(live, run_id)
    if bodies and not any(map(is_dispatched, bodies)):
        return settings
    clusters = {*clusters_of(bodies, settings.cluster.context).values()}
    if not clusters and (workload := session.workload(run_id.rpartition("-")[0])) is not None:
        # The run has no object that names its cluster.
        clusters = {*settings.queues.worker_clusters(workload.namespace, workload.queue)}
    if len(clusters) > 1:
        _, volume, path = _record(session, run_id)
        raise UnknownClusterError(
            f"{run_id} has no object that names the cluster to which it was dispatched: {', '.join(sorted(clusters))}",
            f"fetch the record from the environment of that cluster: trainstack fetch {volume}:{path} -s ENV",
        )
    return settings_of_worker(settings, *clusters) if clusters else settings


def _batches(live: Bodies, run_id: str) -> Bodies:
    """Return the Indexed Jobs of a trial's sweep, which do not have its id."""
    sweep = run_id.rpartition("-")[0]
    return [body for body in live if (own := body["metadata"]["labels"]).get(SWEEP) == sweep and SET not in own]


def _record(session: Session, run: str) -> tuple[str, str, str]:
    workload = session.workload(run.rpartition("-")[0])
    if workload is None:
        known = ", ".join(trained.name for _, trained in session.settings.trained() if trained.record) or "none"
        fail(
            f"{run!r} is not a run of {session.stack}; run ids are <workload>-<10 hex>, and its recorded workloads "
            f"are: {known}"
        )
    if workload.record is None:
        fail(
            f"{run} has no record, since {workload.name} sets no `record`; for its log: "
            f"trainstack logs {run} -s {session.stack}"
        )
    return workload.namespace, workload.record.volume, f"{workload.record.path}/{run}"
