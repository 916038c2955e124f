import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from trainstack.cli.output.console import err, fail, out, show_json
from trainstack.cli.run_records import body_reader, latest_run, record_place, settings_of_run, warn_of_changes
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.cli.transfers import data_loader
from trainstack.errors import ExitCode
from trainstack.printable import printable
from trainstack.settings.sections.environment import ExistingVolume
from trainstack.settings.sections.storage import Volume
from trainstack.transfer.attempts import TransferResult
from trainstack.transfer.fetch import fetch as fetch_files
from trainstack.transfer.upload import upload as upload_files
from trainstack.transfer.volume_files import list_files

PlaceArgument = Annotated[
    str, typer.Argument(metavar="VOLUME:PATH", help="A volume of the environment, and a folder or file on it.")
]

_NAME = re.compile("[^\udca0-\udcff]+")
"""The parts of a name that may control a terminal: all but bytes from A0 on that are not UTF-8."""


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
        transfer = upload_files(loader, source, path)
    if as_json:
        show_json({"volume": volume.name, "namespace": volume.namespace, **asdict(transfer)})
        return
    out.print(f"{volume.namespace}/{volume.name}:{transfer.where}: {_format_counts(transfer)} sent, all verified")


def ls(place: PlaceArgument, stack: StackOption, *, as_json: JsonOption = False) -> None:
    """List the files in a folder of a volume, recursively, with their sha256.

    Examples:
      trainstack ls training:runs -s dev
      trainstack ls training:runs/digits-0f3c9a1b2d -s dev --json
    """
    session = Session.open(stack)
    volume, path = _place(session, place)
    with data_loader(session.settings, volume.namespace, volume.name) as loader:
        files = list_files(loader, path)
    if as_json:
        show_json(files)
        return
    for name, file in sorted(files.items()):
        # As bytes, since a name may not be valid UTF-8.
        typer.echo(
            os.fsencode(_checksum_line(_NAME.sub(lambda part: printable(part.group()), name), str(file["sha256"])))
        )


def _checksum_line(name: str, digest: str) -> str:
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
        records_by_run = {run.name: run.record for run in session.settings.workloads.runs if run.record is not None}
        read_live_bodies = body_reader(session)
        run_id = latest_run(session, read_live_bodies(), what, records_by_run[what]) if what in records_by_run else what
        namespace, name, path = record_place(session, run_id)
        target = to or session.results / Path(path).name
        settings = settings_of_run(session, read_live_bodies(), run_id)
    with data_loader(settings, namespace, name) as loader:
        transfer = fetch_files(loader, path, target)
    warn_of_changes(transfer)
    if as_json:
        show_json(asdict(transfer))
        return
    verified_files = "the others" if transfer.changed else "all"
    out.print(f"{transfer.where}: {_format_counts(transfer)} fetched, {verified_files} verified")


def _place(session: Session, place: str) -> tuple[Volume | ExistingVolume, str]:
    name, colon, folder = place.partition(":")
    all_volumes = session.settings.mountable_volumes
    volumes = [volume for volume in all_volumes if volume.name == name]
    if not colon or not volumes:
        volume_names = ", ".join(volume.name for volume in all_volumes) or "none"
        fail(f"{place!r} is not a VOLUME:PATH of {session.stack}; its volumes are: {volume_names}", ExitCode.USAGE)
    if len(volumes) > 1:
        err.print(f"several namespaces have a volume {name}; using the one in {volumes[0].namespace}", style="yellow")
    return volumes[0], folder or "."


def _format_counts(transfer: TransferResult) -> str:
    resumed = f", {decimal(transfer.resumed_bytes)} resumed" if transfer.resumed_bytes else ""
    return f"{transfer.sent} of {transfer.files} files ({decimal(transfer.sent_bytes)}{resumed})"
