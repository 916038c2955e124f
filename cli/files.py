"""`trainstack upload`, `ls` and `fetch`: files to volumes, and results back."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import err, fail, out, show_json
from cli.loader import data_loader
from cli.session import JsonOption, Session, StackOption
from cli.transfer import DONE, Fetched, remote_digests
from cli.transfer import fetch as fetch_folder
from cli.transfer import upload as upload_folder
from settings.storage import Volume
from workloads.records import Ledger

PlaceArgument = Annotated[
    str, typer.Argument(metavar="VOLUME:PATH", help="A claim of the environment and a folder on it.")
]


def upload(
    source: Annotated[Path, typer.Argument(help="A folder on this machine.", exists=True, file_okay=False)],
    place: PlaceArgument,
    stack: StackOption = "dev",
) -> None:
    """Bring a folder to a volume; only files that differ are sent, and all are checked by sha256.

    Examples:
      trainstack upload data/mnist training:data/mnist -s dev
    """
    session = Session.open(stack)
    volume, folder = _place(session, place)
    with data_loader(session.settings, volume.namespace, volume.name) as loader:
        sent = upload_folder(loader, source, folder)
    out.print(f"{volume.namespace}/{volume.name}:{folder}: {sent} files sent, all verified")


def ls(place: PlaceArgument, stack: StackOption = "dev", *, as_json: JsonOption = False) -> None:
    """List the files below a folder of a volume, each with its sha256.

    Examples:
      trainstack ls training:runs -s dev
    """
    session = Session.open(stack)
    volume, folder = _place(session, place)
    with data_loader(session.settings, volume.namespace, volume.name) as loader:
        digests = remote_digests(loader, folder)
    if as_json:
        show_json(digests)
        return
    for name, digest in sorted(digests.items()):
        # As bytes: a name may be no text.
        typer.echo(os.fsencode(f"{digest}  {name}"))


def fetch(
    what: Annotated[str, typer.Argument(metavar="RUN|VOLUME:PATH", help="A run's id, or a folder of a volume.")],
    stack: StackOption = "dev",
    to: Annotated[Path | None, typer.Option(help="The folder to write to; by default results/<run-id>/.")] = None,
) -> None:
    """Bring a run's record, or a folder of a volume, to this machine, checked by sha256.

    Works also when the run's pods are gone. What is here already and whole is not fetched again. Of a run that is
    still active comes what there is; files that it writes to meanwhile are named.

    Examples:
      trainstack fetch digits-0f3c9a1b2d -s dev
      trainstack fetch training:data/digits -s dev --to /tmp/digits
    """
    session = Session.open(stack)
    if ":" in what:
        volume, folder = _place(session, what)
        namespace, name, target = volume.namespace, volume.name, to or Path(folder).name
    else:
        namespace, name, folder = _record(session, what)
        target = to or session.results / Path(folder).name
    with data_loader(session.settings, namespace, name) as loader:
        fetched = fetch_folder(loader, folder, Path(target))
    _tell_changed(fetched)
    out.print(f"{target}: {fetched.sent} files fetched, {'the others' if fetched.changed else 'all'} verified")


def fetch_run(session: Session, ledger: Ledger) -> Path | None:
    """Bring a run's record to results/<run-id>/; nothing is done where it already lies there, finished.

    None for a run that is not recorded, which no fault is: an unmanaged workload, or one that is declared no more.
    """
    target = session.results / ledger.run_id
    if (target / DONE).is_file():
        return target
    workload = next((each for each in session.settings.workloads.runs if each.name == ledger.workload), None)
    if workload is None or workload.record is None:
        return None
    # The namespace that the run was launched in: the workload may have moved since.
    with data_loader(session.settings, ledger.namespace, workload.record.volume) as loader:
        _tell_changed(fetch_folder(loader, f"{workload.record.path}/{ledger.run_id}", target))
    return target


def final_metrics(record: Path) -> dict[str, Any]:
    """The last line of a fetched record's metrics; {} where it has none."""
    file = record / "result" / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.is_file() else []
    return dict(json.loads(lines[-1])) if lines else {}


def _place(session: Session, place: str) -> tuple[Volume, str]:
    name, colon, folder = place.partition(":")
    volumes = [volume for volume in session.settings.storage.volumes if volume.name == name]
    if not colon or not volumes:
        known = ", ".join(volume.name for volume in session.settings.storage.volumes) or "none"
        fail(f"{place!r} is no VOLUME:PATH of {session.stack}; its volumes are: {known}")
    if len(volumes) > 1:
        err.print(f"{name} is in several namespaces; {volumes[0].namespace} is taken", style="yellow")
    return volumes[0], folder or "."


def _tell_changed(fetched: Fetched) -> None:
    if fetched.changed:
        err.print(
            f"{len(fetched.changed)} files were written to while they were fetched: {', '.join(fetched.changed)!r}. "
            "They are not verified; fetch them again when the run has ended",
            style="yellow",
            markup=False,
        )


def _record(session: Session, run: str) -> tuple[str, str, str]:
    """Namespace, volume and folder of a run's record, by the workload that its id names."""
    # Not any beginning of the id: `digits-small-0f3c9a1b2d` is no run of `digits`.
    name = run.rpartition("-")[0]
    workload = next((each for each in session.settings.workloads.runs if each.name == name), None)
    if workload is None:
        known = ", ".join(each.name for each in session.settings.workloads.runs if each.record) or "none"
        fail(f"{run!r} is no run of {session.stack}; runs are <workload>-<10 hex>, and its workloads are: {known}")
    if workload.record is None:
        fail(f"{run} is not recorded: {workload.name} has no `record`. Its log: trainstack logs {run}")
    return workload.namespace, workload.record.volume, f"{workload.record.path}/{run}"
