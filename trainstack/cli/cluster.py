"""`trainstack cluster …`: the local cluster, a real one on this machine."""

import dataclasses
import subprocess
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.table import Table

from trainstack.cli.console import err, fail, out, show_json
from trainstack.cli.session import JsonOption, checkout
from trainstack.dev.cluster import access, cluster
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.images import base, ensure_images, git, helpers, operators, workload
from trainstack.dev.cluster.layout import Layout
from trainstack.dev.cluster.sites import install
from trainstack.dev.cluster.spec import ClusterSpec
from trainstack.dev.toolchain.errors import ToolchainError

app = typer.Typer(no_args_is_help=True, help="The local cluster: real Kubernetes on this machine, without Docker.")

Params = ParamSpec("Params")
Result = TypeVar("Result")

StateOption = Annotated[
    Path | None,
    typer.Option("--state", metavar="FOLDER", help="The cluster's folder; by default `.trainstack/cluster` here."),
]


def _explained(command: Callable[Params, Result]) -> Callable[Params, Result]:
    """End a command with the message of an error instead of a traceback."""

    @wraps(command)
    def wrapped(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        try:
            return command(*args, **kwargs)
        except (ClusterError, ToolchainError) as error:
            return fail(str(error))

    return wrapped


def _folder(state: Path | None) -> Path:
    return state or checkout() / ".trainstack" / "cluster"


def _report(line: str) -> None:
    err.print(f"  {line}", markup=False)


def _sites(running: Cluster, spec: ClusterSpec) -> None:
    """Make a running cluster the sites that it stands in for."""
    if spec.sites:
        install.install_sites(running, spec.sites, _report)


def _running(state: Path | None) -> Cluster:
    """The running cluster, or the end of the command."""
    current = cluster.status(_folder(state))
    if current.cluster is None:
        fail(f"the local cluster is not running ({current.problem}): start it with `trainstack cluster up`")
    return current.cluster


@app.command()
@_explained
def up(
    *,
    state: StateOption = None,
    gpus: Annotated[
        int | None, typer.Option(help="GPUs that the real node pretends to have; their pods run on the CPU.")
    ] = None,
    gpu_product: Annotated[str | None, typer.Option(help="Product label of those GPUs.")] = None,
    simulated_nodes: Annotated[
        int | None, typer.Option(help="Nodes that only pretend: their pods start no process and finish by themselves.")
    ] = None,
    simulated_gpus: Annotated[int | None, typer.Option(help="GPUs of each simulated node.")] = None,
    simulated_product: Annotated[str | None, typer.Option(help="Product label of the simulated GPUs.")] = None,
    site: Annotated[
        list[str] | None,
        typer.Option(metavar="SITE", help="Stand in for this reference system, beside those before; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Have the local cluster running and ready: about 10 s from stopped, nothing to do if it runs.

    Choices that are not given stay as they were at the last start. GPUs of the real node and sites may be chosen while
    it runs.

    Examples:

      trainstack cluster up

      trainstack cluster up --gpus 4 --gpu-product NVIDIA-A100-SXM4-40GB

      trainstack cluster up --simulated-nodes 10 --simulated-gpus 8

      trainstack cluster up --site eidf --site vsphere
    """
    folder = _folder(state)
    saved = cluster.status(folder).spec or ClusterSpec()
    given: dict[str, Any] = {
        "gpus": gpus,
        "gpu_product": gpu_product,
        "simulated_nodes": simulated_nodes,
        "simulated_gpus": simulated_gpus,
        "simulated_product": simulated_product,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    spec = dataclasses.replace(install.with_sites(saved, site or ()), **chosen)
    running = cluster.up(folder, spec, _report)
    _sites(running, spec)
    if as_json:
        show_json(running.to_dict())
    else:
        out.print(f"The local cluster runs: {running.server}\nexport KUBECONFIG={running.kubeconfig}", markup=False)


@app.command()
@_explained
def down(
    *,
    state: StateOption = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove its objects and volumes too.")] = False,
) -> None:
    """Stop the local cluster; nothing of it stays but its data, for the next `up`.

    Examples:

      trainstack cluster down

      trainstack cluster down --wipe
    """
    began, folder = time.monotonic(), _folder(state)
    cluster.down(folder, keep_data=not wipe, report=_report)
    kept = "its data is removed" if wipe else f"its data stays in {folder}"
    out.print(f"The local cluster is stopped ({time.monotonic() - began:.1f} s); {kept}.", markup=False)


@app.command()
@_explained
def reset(*, state: StateOption = None) -> None:
    """Start the local cluster afresh: no objects, no volumes; images stay.

    Example:

      trainstack cluster reset
    """
    saved = cluster.status(_folder(state)).spec or ClusterSpec()
    running = cluster.reset(_folder(state), None, _report)
    _sites(running, saved)
    out.print(f"The local cluster runs afresh: {running.server}", markup=False)


@app.command()
@_explained
def status(*, state: StateOption = None, as_json: JsonOption = False) -> None:
    """Show whether the local cluster and each of its parts are ready; exit code 1 if not.

    Examples:

      trainstack cluster status

      trainstack cluster status --json
    """
    current = cluster.status(_folder(state))
    if as_json:
        shown = dataclasses.asdict(current)
        if current.cluster is not None:
            shown["cluster"] = current.cluster.to_dict()
        show_json(shown)
    elif current.cluster is None:
        out.print(f"The local cluster does not run: {current.problem}.", markup=False)
    else:
        table = Table("component", "pid", "ready", "restarts", "last end", box=None)
        for each in current.components:
            pid = str(each.pid or "") if not each.once else "done"
            table.add_row(each.name, pid, "yes" if each.ready else "no", str(each.restarts), each.exit)
        out.print(table)
        out.print(f"{current.cluster.server}: {current.problem or 'ready'}", markup=False)
        if current.spec and current.spec.sites:
            out.print(f"stands in for: {', '.join(current.spec.sites)}", markup=False)
    if not current.ready:
        raise typer.Exit(1)


@app.command()
@_explained
def load(
    *,
    folder: Annotated[
        Path | None,
        typer.Argument(help="A folder with a Dockerfile (`ARG BASE`); without it: all that the cluster itself needs."),
    ] = None,
    serve_as: Annotated[
        list[str] | None, typer.Option("--as", metavar="IMAGE", help="A further name to serve it under; repeatable.")
    ] = None,
    state: StateOption = None,
) -> None:
    """Build an image and put it into the cluster's registry, under any registry's name.

    Examples:

      trainstack cluster load

      trainstack cluster load workloads/digits

      trainstack cluster load workloads/digits --as docker.io/kubeflow/pytorch-dist-mnist-test:1.0
    """
    running = _running(state)
    names = tuple(serve_as or ())
    recipes = [workload(folder, names)] if folder else [*operators(), *helpers(), git(), base(names)]
    for image in ensure_images(recipes, running.registry, _report):
        out.print(image, markup=False)


@app.command()
@_explained
def kubeconfig(
    *,
    account: Annotated[
        str | None,
        typer.Option("--as", metavar="NAMESPACE/ACCOUNT", help="Act as this service account, in its namespace."),
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write the one of --as.")] = None,
    state: StateOption = None,
) -> None:
    """Print the path of a kubeconfig: the administrator's, or one that is written anew for a service account.

    Examples:

      export KUBECONFIG="$(trainstack cluster kubeconfig)"

      export KUBECONFIG="$(trainstack cluster kubeconfig --as eidf001/researcher)"

      trainstack cluster kubeconfig --as eidf001/researcher --output researcher.yaml
    """
    running = _running(state)
    if account is None:
        if output is not None:
            fail("--output goes with --as: the administrator's kubeconfig stays where it is; copy it if you must")
        out.print(str(running.kubeconfig), markup=False)
        return
    try:
        out.print(str(access.write_kubeconfig(running, account, output)), markup=False)
    except OSError as error:
        fail(f"the kubeconfig cannot be written: {error}")


@app.command()
@_explained
def logs(
    *,
    component: Annotated[str, typer.Argument(help="Name from `trainstack cluster status`, or `supervisor`.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows, until Ctrl-C.")] = False,
    state: StateOption = None,
) -> None:
    """Print the log of one part of the cluster.

    Examples:

      trainstack cluster logs kubelet

      trainstack cluster logs apiserver --follow
    """
    folder = Layout.of(_folder(state)).log
    path = folder / f"{component}.log"
    if not path.exists():
        known = ", ".join(sorted(each.stem for each in folder.glob("*.log"))) or "none: it was never started"
        fail(f"there is no log of {component!r} in {folder}; there are: {known}")
    if follow:
        raise typer.Exit(subprocess.run(["tail", "-n", "100", "-f", str(path)], check=False).returncode)
    sys.stdout.write(path.read_text(errors="replace"))
