import dataclasses
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from trainstack.cli.output.console import fail, out, report, show_json, write
from trainstack.cli.session import JsonOption, checkout
from trainstack.errors import ExitCode
from trainstack.local_cluster import cluster as native
from trainstack.local_cluster import drivers, tenant_kubeconfigs
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.drivers import Driver
from trainstack.local_cluster.images import base, ensure_images, git, helpers, operators, workload
from trainstack.local_cluster.kind import cluster as kind
from trainstack.local_cluster.sites import install
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout
from trainstack.toolchain import tools

app = typer.Typer(
    no_args_is_help=True, help="Manage the local cluster: Kubernetes on this machine, natively or in kind."
)

StateOption = Annotated[
    Path | None,
    typer.Option("--state", metavar="FOLDER", help="The cluster's folder (default: .trainstack/cluster)."),
]


def _folder(state: Path | None) -> Path:
    return state or checkout() / ".trainstack" / "cluster"


def _install_sites(cluster: LocalCluster, spec: ClusterSpec) -> None:
    if spec.sites:
        install.install_sites(cluster, spec.sites, report)


def _running_cluster(state: Path | None) -> LocalCluster:
    cluster_status = drivers.status(_folder(state))
    if cluster_status.cluster is None:
        message = f"the local cluster is not running ({cluster_status.problem}): start it with `trainstack cluster up`"
        fail(message, ExitCode.UNREACHABLE)
    return cluster_status.cluster


@app.command()
def up(  # noqa: PLR0913 (the options of the command)
    *,
    state: StateOption = None,
    driver: Annotated[
        Driver | None,
        typer.Option(
            help="native: in namespaces of this machine, as root; kind: in docker, podman or nerdctl, as any user.",
            show_default="as the last start; for a new cluster native, or kind if installed where native cannot run",
        ),
    ] = None,
    node_image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="With kind: the node's image.", show_default="the default of kind"),
    ] = None,
    registry_image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="With kind: the registry's image.", show_default=kind.REGISTRY_IMAGE),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(help="Simulated GPUs of the real node; their pods run on the CPU.")
    ] = None,
    gpu_product: Annotated[str | None, typer.Option(help="Product label of the real node's GPUs.")] = None,
    simulated_nodes: Annotated[
        int | None, typer.Option(help="Number of simulated nodes, whose pods succeed without starting a process.")
    ] = None,
    simulated_gpus: Annotated[int | None, typer.Option(help="GPUs per simulated node.")] = None,
    simulated_product: Annotated[str | None, typer.Option(help="Product label of the simulated GPUs.")] = None,
    site: Annotated[
        list[str] | None,
        typer.Option(metavar="SITE", help="Reproduce this reference system, in addition to earlier ones; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start the local cluster, optionally with simulated GPU nodes.

    Takes about 10 s, with kind 30 s and the first download of its node image. Options that are not given keep their
    values of the last start. The real node's GPUs and the sites can be changed while the cluster is running.

    Examples:
      trainstack cluster up
      trainstack cluster up --driver kind
      trainstack cluster up --gpus 4 --gpu-product NVIDIA-A100-SXM4-40GB
      trainstack cluster up --simulated-nodes 10 --simulated-gpus 8
      trainstack cluster up --site eidf --site vsphere
    """
    folder = _folder(state)
    drivers.choose_driver(folder, driver)
    saved_spec = drivers.status(folder).spec or ClusterSpec()
    options: dict[str, Any] = {
        "gpus": gpus,
        "gpu_product": gpu_product,
        "simulated_nodes": simulated_nodes,
        "simulated_gpus": simulated_gpus,
        "simulated_product": simulated_product,
    }
    chosen_options = {name: value for name, value in options.items() if value is not None}
    spec = dataclasses.replace(install.with_sites(saved_spec, site or ()), **chosen_options)
    if spec.simulated_nodes:
        tools.ensure([tools.SIMULATION_GROUP])
    cluster = drivers.up(folder, spec, report, driver=driver, node_image=node_image, registry_image=registry_image)
    _install_sites(cluster, spec)
    if as_json:
        show_json(cluster.to_dict())
    else:
        out.print(f"The local cluster is running: {cluster.server}\nexport KUBECONFIG={cluster.kubeconfig}")


@app.command()
def down(
    *,
    state: StateOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="Stop every native cluster of this machine, also of other checkouts.")
    ] = False,
    wipe: Annotated[bool, typer.Option("--wipe", help="Also delete its objects and volumes.")] = False,
) -> None:
    """Stop the local cluster and keep its data for the next `up`.

    Examples:
      trainstack cluster down
      trainstack cluster down --wipe
      trainstack cluster down --all
    """
    if every:
        if state:
            fail("--all stops every cluster: leave out --state", ExitCode.USAGE)
        count = native.down_all(keep_data=not wipe, report=report)
        out.print(f"{count} native clusters of this machine are stopped" if count else "no native cluster runs here")
        return
    start, folder = time.monotonic(), _folder(state)
    drivers.down(folder, keep_data=not wipe, report=report)
    place = "its containers" if drivers.existing_driver(folder) == "kind" else folder
    data_note = "its data was deleted" if wipe else f"its data is kept in {place}"
    out.print(f"The local cluster is stopped ({time.monotonic() - start:.1f} s); {data_note}.")


@app.command()
def reset(*, state: StateOption = None) -> None:
    """Recreate the local cluster without objects and volumes; images are kept.

    Example:
      trainstack cluster reset
    """
    saved_spec = drivers.status(_folder(state)).spec or ClusterSpec()
    cluster = drivers.reset(_folder(state), None, report)
    _install_sites(cluster, saved_spec)
    out.print(f"The local cluster was reset: {cluster.server}")


@app.command()
def status(*, state: StateOption = None, as_json: JsonOption = False) -> None:
    """Show the local cluster's components; exit with 4 unless all are ready.

    Examples:
      trainstack cluster status
      trainstack cluster status --json
    """
    cluster_status = drivers.status(_folder(state))
    if as_json:
        data = dataclasses.asdict(cluster_status)
        if cluster_status.cluster is not None:
            data["cluster"] = cluster_status.cluster.to_dict()
        show_json(data)
    elif cluster_status.cluster is None:
        out.print(f"The local cluster is not running: {cluster_status.problem}.")
    else:
        table = Table("component", "pid", "ready", "restarts", "last end", box=None)
        for component in cluster_status.components:
            pid = str(component.pid or "") if not component.once else "done"
            ready = "yes" if component.ready else "no"
            table.add_row(component.name, pid, ready, str(component.restarts), component.exit)
        out.print(table)
        out.print(f"{cluster_status.cluster.server}: {cluster_status.problem or 'ready'}")
        if cluster_status.spec and cluster_status.spec.sites:
            out.print(f"sites: {', '.join(cluster_status.spec.sites)}")
    if not cluster_status.ready:
        raise typer.Exit(ExitCode.FINDINGS)


@app.command()
def load(
    *,
    folder: Annotated[
        Path | None,
        typer.Argument(help="A folder with a Dockerfile (`ARG BASE`); by default all images that the cluster needs."),
    ] = None,
    serve_as: Annotated[
        list[str] | None, typer.Option("--as", metavar="IMAGE", help="Also serve it under this name; repeatable.")
    ] = None,
    state: StateOption = None,
) -> None:
    """Build an image and push it to the cluster's registry, under the name of any registry.

    Examples:
      trainstack cluster load
      trainstack cluster load workloads/digits
      trainstack cluster load workloads/digits --as docker.io/kubeflow/pytorch-dist-mnist-test:1.0
    """
    cluster = _running_cluster(state)
    names = tuple(serve_as or ())
    recipes = [workload(folder, names)] if folder else [*operators(), *helpers(), git(), base(names)]
    for image in ensure_images(recipes, cluster.registry, report):
        out.print(image)


@app.command()
def kubeconfig(
    *,
    account: Annotated[
        str | None,
        typer.Option("--as", metavar="NAMESPACE/ACCOUNT", help="Act as this service account, in its namespace."),
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="The file to write with --as.")] = None,
    state: StateOption = None,
) -> None:
    """Print the path of the administrator's kubeconfig, or write one for a service account and print its path.

    Examples:
      export KUBECONFIG="$(trainstack cluster kubeconfig)"
      export KUBECONFIG="$(trainstack cluster kubeconfig --as eidf001/researcher)"
      trainstack cluster kubeconfig --as eidf001/researcher --output researcher.yaml
    """
    cluster = _running_cluster(state)
    if account is None:
        if output is not None:
            fail("--output requires --as; to move the administrator's kubeconfig, copy it", ExitCode.USAGE)
        out.print(str(cluster.kubeconfig))
        return
    try:
        out.print(str(tenant_kubeconfigs.write_kubeconfig(cluster, account, output)))
    except OSError as error:
        fail(f"cannot write the kubeconfig: {error}")


@app.command()
def logs(
    *,
    component: Annotated[
        str,
        typer.Argument(help="A component of `trainstack cluster status`, or `supervisor`; with kind also `kubelet`."),
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")] = False,
    state: StateOption = None,
) -> None:
    """Print the log of one component of the local cluster.

    Examples:
      trainstack cluster logs kubelet
      trainstack cluster logs apiserver --follow
    """
    if drivers.existing_driver(_folder(state)) == "kind":
        raise typer.Exit(_print_output(kind.logs(_folder(state), component, follow=follow)))
    folder = Layout.of(_folder(state)).log
    path = folder / f"{component}.log"
    if not path.exists():
        logged_components = (
            ", ".join(sorted(file.stem for file in folder.glob("*.log"))) or "none, since it was never started"
        )
        fail(f"no log of component {component!r} in {folder}; components with a log: {logged_components}")
    if follow:
        raise typer.Exit(_print_output(["tail", "-n", "100", "-f", str(path)]))
    write(path.read_text(errors="replace"))


def _print_output(command: Sequence[str]) -> int:
    """Print the output of a program without what controls a terminal; return its exit code."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                write(line)
        except BaseException:
            process.terminate()
            raise
    return process.returncode
