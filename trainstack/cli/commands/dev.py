"""`trainstack dev`: for contributors to Trainstack. All but `tools`, `machine` and `versions` work on the checkout that
the command is installed from."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.output.console import err, fail, out, show_json, write
from trainstack.cli.session import JsonOption, find_project
from trainstack.dev import release
from trainstack.dev.newer_versions import find_newer_versions
from trainstack.errors import ExitCode
from trainstack.files.project import edit_project
from trainstack.local_cluster import drivers
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.toolchain import debian, judges, tools
from trainstack.toolchain import machine as host
from trainstack.toolchain import pinned_versions as pins
from trainstack.toolchain import python_locks as locks
from trainstack.toolchain.places import CHECKOUT

app = typer.Typer(no_args_is_help=True, help="For contributors to Trainstack: the toolchain and generated files.")


@app.command("tools")
def build_tools(
    *,
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP…", help="Only these groups (default: all that are needed).")
    ] = None,
    client: Annotated[bool, typer.Option("--client", help="Only what deploying to another cluster needs.")] = False,
) -> None:
    """Build or find the pinned tools. Does nothing if they are built.

    Examples:
      trainstack dev tools
      trainstack dev tools --client
    """
    tools.ensure(groups or tools.needed_groups(local_cluster=not client), project=find_project())


@app.command("judge")
def build_judge(
    *, release: Annotated[str, typer.Argument(metavar="RELEASE", help="An exact release of Kueue, such as v0.18.3.")]
) -> None:
    """Build the scheduler of a release of Kueue as a program, from the module proxy that go uses.

    `check --cluster` asks it where pods are placed in a topology, if this release runs in the cluster.

    Example:
      trainstack dev judge v0.18.3
    """
    _print_names([judges.build_judge(release, err)])


@app.command()
def machine(
    *, install: Annotated[bool, typer.Option("--install", help="Also install missing packages.")] = False
) -> None:
    """List what this machine lacks for the local cluster; exit with 4 if it lacks anything.

    For a cluster in kind, nothing is installed.

    Examples:
      trainstack dev machine
      trainstack dev machine --install
    """
    state = (find_project() or Path.cwd()) / ".trainstack" / "cluster"
    in_kind = drivers.default_driver(state) == "kind"
    findings = _missing_for_kind(state) if in_kind else [str(finding) for finding in host.find_problems()]
    for finding in findings:
        out.print(finding)
    if findings:
        raise typer.Exit(ExitCode.FINDINGS)
    if install and not in_kind:
        debian.ensure(err)


@app.command()
def versions(
    *,
    newer: Annotated[
        bool, typer.Option("--newer", help="Print what registries have beyond the pinned versions instead.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print every pinned version.

    With --newer, reads the versions of Go modules and Python packages from the registries that go and uv use.

    Examples:
      trainstack dev versions
      trainstack dev versions --newer
      trainstack dev versions --json
    """
    try:
        if newer:
            _show_newer(as_json=as_json)
        else:
            pins.show(as_json=as_json)
    except BrokenPipeError:
        # The reader of the pipe has closed it: `make versions | head`.
        raise typer.Exit(0) from None


def _show_newer(*, as_json: bool) -> None:
    _checkout()
    err.print("reading the versions in the registries (about 10 s)")
    newer_versions = find_newer_versions(pins.collect())
    if as_json:
        show_json([asdict(version) for version in newer_versions])
        return
    rows = [
        (version.kind, version.name, version.pinned, version.newest, version.pre_release, version.pinned_in)
        for version in newer_versions
        if not version.problem
    ]
    pins.print_table([("KIND", "NAME", "PINNED", "NEWEST", "PRE-RELEASE", "PINNED IN"), *rows])
    for version in newer_versions:
        if version.problem:
            err.print(f"unknown: {version.name} {version.pinned}: {version.problem}")


@app.command()
def lock() -> None:
    """Write the Python locks from pyproject.toml, keeping versions that still satisfy it.

    Example:
      trainstack dev lock
    """
    _checkout()
    raise typer.Exit(locks.write())


@app.command()
def dist(
    *, tag: Annotated[str | None, typer.Option(help="The release's git tag, which must be that of the version.")] = None
) -> None:
    """Build the source archive and the wheel of the last commit in dist/packages/, and dist/notes.md.

    Examples:
      trainstack dev dist
      trainstack dev dist --tag v0.1.0
    """
    _print_names(release.build(_checkout(), tag, Path("dist")))


@app.command()
def schema() -> None:
    """Write the JSON Schemas in docs/schema/ from the settings' models.

    Example:
      trainstack dev schema
    """
    from trainstack.settings.loading import schema as schemas  # noqa: PLC0415 (`dev tools` runs before each `make up`)

    _write(schemas.schema_files())


@app.command()
def rules_page() -> None:
    """Write docs/checks.md from the preflight rules.

    Example:
      trainstack dev rules-page
    """
    from trainstack.preflight import rules_page as page  # noqa: PLC0415 (as above)

    _write({str(page.PAGE): page.render_page()})


@app.command()
def fields_page() -> None:
    """Write docs/kubernetes-fields.md from the table of Kubernetes' fields and the settings.

    Example:
      trainstack dev fields-page
    """
    from trainstack.dev import fields_page as page  # noqa: PLC0415 (as above)

    _write({page.PAGE: page.render_page()})


@app.command()
def terminal_pictures() -> None:
    """Write docs/forecast.png and the pictures in docs/terminal/ by running the commands that they show.

    Example:
      trainstack dev terminal-pictures
    """
    from trainstack.dev import terminal_pictures as pictures  # noqa: PLC0415 (as above)

    _print_names(pictures.write_pictures(_checkout()))


def _missing_for_kind(state: Path) -> list[str]:
    try:
        drivers.check_machine(state)
    except LocalClusterError as error:
        return [str(error)]
    return []


def _checkout() -> Path:
    """Return the checkout that the command is installed from; exit if it is installed from a wheel."""
    if not (CHECKOUT / "pyproject.toml").is_file():
        fail("this command changes a checkout of Trainstack, but is installed from a wheel; run it in a checkout")
    return CHECKOUT


def _write(files: Mapping[str, str]) -> None:
    with edit_project(_checkout()) as edit:
        edit.write(files)
    _print_names(map(Path, files))


def _print_names(files: Iterable[Path]) -> None:
    write("".join(f"{file}\n" for file in files))
