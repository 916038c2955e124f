"""The two drivers of the local cluster: `native`, in namespaces of this machine, and `kind`, in a container engine.

The functions use the driver that created the cluster in a state folder. `up` chooses one for a new cluster.
"""

import os
import shutil
from pathlib import Path
from typing import Literal

from trainstack.local_cluster import cluster as native
from trainstack.local_cluster.cluster import ClusterStatus, LocalCluster, Report, discard_progress
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.kind import cluster as kind
from trainstack.local_cluster.kind.engine import installed_engines
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout
from trainstack.toolchain import distribution

Driver = Literal["native", "kind"]


def existing_driver(state: Path) -> Driver | None:
    """Return the driver that created the cluster in a state folder; None without a cluster."""
    layout = Layout.of(state)
    if layout.driver.exists():
        return "kind"
    return "native" if layout.spec.exists() else None


def default_driver(state: Path) -> Driver:
    """Return the driver of the existing cluster. Without one, return `native`, or `kind` if only kind can run.

    The native driver needs no container engine and starts in 10 s, but requires root and a supported distribution.
    Without these, kind is used if it is installed.
    """
    if driver := existing_driver(state):
        return driver
    can_run_native = os.geteuid() == 0 and distribution.read_distribution().is_supported
    return "native" if can_run_native or shutil.which("kind") is None or not installed_engines() else "kind"


def choose_driver(state: Path, requested: Driver | None) -> Driver:
    """Return the driver for `up`. Raises LocalClusterError if the folder's cluster has another one."""
    folder_driver = existing_driver(state)
    if requested is not None and folder_driver is not None and requested != folder_driver:
        raise LocalClusterError(
            f"{state} has a {folder_driver} cluster, which a {requested} cluster cannot continue",
            f"delete it with `trainstack cluster down --wipe`, or use another folder: `trainstack cluster up --driver "
            f"{requested} --state FOLDER`",
        )
    return requested or default_driver(state)


def check_machine(state: Path) -> None:
    """Raise LocalClusterError with everything that this machine lacks for the driver of a state folder."""
    if default_driver(state) == "kind":
        kind.check_machine(state)
    else:
        native.check_machine()


def status(state: Path) -> ClusterStatus:
    return kind.status(state) if existing_driver(state) == "kind" else native.status(state)


def up(
    state: Path,
    spec: ClusterSpec | None = None,
    report: Report = discard_progress,
    *,
    driver: Driver | None = None,
    node_image: str | None = None,
    registry_image: str | None = None,
) -> LocalCluster:
    """Ensure that the cluster runs and is ready, with the driver that `choose_driver` returns.

    `node_image` and `registry_image` are for the kind driver only. Raises LocalClusterError.
    """
    if choose_driver(state, driver) == "kind":
        return kind.up(state, spec, report, node_image=node_image, registry_image=registry_image)
    if node_image or registry_image:
        raise LocalClusterError("--node-image and --registry-image require the kind driver", "add `--driver kind`")
    return native.up(state, spec, report)


def down(state: Path, *, keep_data: bool = True, report: Report = discard_progress) -> None:
    if existing_driver(state) == "kind":
        kind.down(state, keep_data=keep_data, report=report)
    else:
        native.down(state, keep_data=keep_data, report=report)


def reset(state: Path, spec: ClusterSpec | None = None, report: Report = discard_progress) -> LocalCluster:
    return kind.reset(state, spec, report) if existing_driver(state) == "kind" else native.reset(state, spec, report)
