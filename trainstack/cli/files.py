"""`trainstack upload`, `ls` and `fetch`: files to volumes, and results back."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from trainstack.cli.console import err, fail, out, show_json
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.cli.transfers import data_loader
from trainstack.runs.records import Ledger
from trainstack.settings.sections.storage import Volume
from trainstack.transfer.fetch import DONE
from trainstack.transfer.fetch import fetch as fetch_files
from trainstack.transfer.retry import TransferResult
from trainstack.transfer.upload import upload as upload_files
from trainstack.transfer.volume_files import list_files

PlaceArgument = Annotated[
    str, typer.Argument(metavar="VOLUME:PATH", help="A claim of the environment and a folder, or file, on it.")
]


def upload(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A folder or file on this machine.", exists=True)],
    place: PlaceArgument,
    stack: StackOption = "dev",
    *,
    as_json: JsonOption = False,
) -> None:
    """Bring a folder or a file to a volume; only what differs is sent, and all is checked by sha256 on both sides.

    A folder's content goes into the folder PATH. A file goes into PATH if that is a folder or ends with `/`; else PATH
    is its name there. When the connection breaks, or you stop it, the same command goes on from where it was.

    Examples:

      trainstack upload data/mnist training:data/mnist -s dev

      trainstack upload model.pt training:models/ -s dev
    """
    session = Session.open(stack)
    volume, path = _place(session, place)
    with data_loader(session.settings, volume.namespace, volume.name) as loader:
        brought = upload_files(loader, source, path)
    if as_json:
        show_json({"volume": volume.name, "namespace": volume.namespace, **asdict(brought)})
        return
    out.print(f"{volume.namespace}/{volume.name}:{brought.where}: {_count(brought)} sent, all verified", markup=False)


def ls(place: PlaceArgument, stack: StackOption = "dev", *, as_json: JsonOption = False) -> None:
    """List the files below a folder of a volume, each with its sha256.

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
        # As bytes: a name may be no text.
        typer.echo(os.fsencode(_line(name, str(file["sha256"]))))


def _line(name: str, digest: str) -> str:
    """Write a file as `sha256sum -c` reads it: a name with a line break is escaped, and the line marked."""
    if "\n" not in name:
        return f"{digest}  {name}"
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n")
    return f"\\{digest}  {escaped}"


def fetch(
    what: Annotated[
        str, typer.Argument(metavar="RUN|VOLUME:PATH", help="A run's id, or a folder or file of a volume.")
    ],
    stack: StackOption = "dev",
    to: Annotated[
        Path | None,
        typer.Option(help="The folder to write to; by default results/<run-id>/, the folder's name, or here."),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Bring a run's record, or a folder or file of a volume, to this machine, checked by sha256.

    Works also when the run's pods are gone. What is here already and whole is not fetched again; when the connection
    breaks, or you stop it, the same command goes on from where it was. Of a run that is still active comes what there
    is; files that it writes to meanwhile are named.

    Examples:

      trainstack fetch digits-0f3c9a1b2d -s dev

      trainstack fetch training:data/digits -s dev --to /tmp/digits

      trainstack fetch training:models/model.pt -s dev --to /tmp
    """
    session = Session.open(stack)
    target = to
    if ":" in what:
        volume, path = _place(session, what)
        namespace, name = volume.namespace, volume.name
    else:
        namespace, name, path = _record(session, what)
        target = to or session.results / Path(path).name
    with data_loader(session.settings, namespace, name) as loader:
        brought = fetch_files(loader, path, target)
    _tell_changed(brought)
    if as_json:
        show_json(asdict(brought))
        return
    others = "the others" if brought.changed else "all"
    out.print(f"{brought.where}: {_count(brought)} fetched, {others} verified", markup=False)


def fetch_run(session: Session, ledger: Ledger) -> Path | None:
    """Bring a run's record to results/<run-id>/; nothing is done where it already lies there, finished.

    None for a run that is not recorded, which no fault is: an unmanaged workload, or one that is declared no more.
    """
    target = session.results / ledger.run_id
    if (target / DONE).is_file():
        return target
    workload = next((each for _, each in session.settings.trained() if each.name == ledger.workload), None)
    if workload is None or workload.record is None:
        return None
    # The namespace that the run was launched in: the workload may have moved since.
    with data_loader(session.settings, ledger.namespace, workload.record.volume) as loader:
        _tell_changed(fetch_files(loader, f"{workload.record.path}/{ledger.run_id}", target))
    return target


def _place(session: Session, place: str) -> tuple[Volume, str]:
    name, colon, folder = place.partition(":")
    volumes = [volume for volume in session.settings.storage.volumes if volume.name == name]
    if not colon or not volumes:
        known = ", ".join(volume.name for volume in session.settings.storage.volumes) or "none"
        fail(f"{place!r} is no VOLUME:PATH of {session.stack}; its volumes are: {known}")
    if len(volumes) > 1:
        err.print(f"{name} is in several namespaces; {volumes[0].namespace} is taken", style="yellow")
    return volumes[0], folder or "."


def _count(brought: TransferResult) -> str:
    resumed = f", {decimal(brought.resumed_bytes)} were there already" if brought.resumed_bytes else ""
    return f"{brought.sent} of {brought.files} files ({decimal(brought.sent_bytes)}{resumed})"


def _tell_changed(fetched: TransferResult) -> None:
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
    workload = next((each for _, each in session.settings.trained() if each.name == name), None)
    if workload is None:
        known = ", ".join(each.name for _, each in session.settings.trained() if each.record) or "none"
        fail(f"{run!r} is no run of {session.stack}; runs are <workload>-<10 hex>, and its workloads are: {known}")
    if workload.record is None:
        fail(f"{run} is not recorded: {workload.name} has no `record`. Its log: trainstack logs {run}")
    return workload.namespace, workload.record.volume, f"{workload.record.path}/{run}"
