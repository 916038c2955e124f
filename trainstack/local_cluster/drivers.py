"""The two drivers of the local cluster: `native`, in namespaces of this machine, and `kind`, in a container engine.

The functions use the driver that created the cluster in a state folder. `up` chooses one for a new cluster.
"""

import os
import shutil
from pathlib import Path
from typing import Literal

from trainstack.local_cluster import cluster as native
from trainstack.local_cluster.cluster import Cluster, Report, Status, silent
from trainstack.local_cluster.errors import ClusterError
from trainstack.local_cluster.kind import cluster as kind
from trainstack.local_cluster.kind.engine import installed
from trainstack.local_cluster.layout import Layout
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.toolchain import distribution

Driver = Literal["native", "kind"]


def existing(state: Path) -> Driver | None:
    """Return the driver that created the cluster in a state folder; None without a cluster."""
    layout = Layout.of(state)
    if layout.driver.exists():
        return "kind"
    return "native" if layout.spec.exists() else None


def default(state: Path) -> Driver:
    """Return the driver of the existing cluster. Without one, return `native`, or `kind` if only kind can run.

    The native driver needs no container engine and starts in 10 s, but requires root and a supported distribution.
    Without these, kind is used if it is installed.
    """
    if found := existing(state):
        return found
    native_runs = os.geteuid() == 0 and distribution.read().supported
    return "native" if native_runs or shutil.which("kind") is None or not installed() else "kind"


def choose(state: Path, asked: Driver | None) -> Driver:
    """Return the driver for `up`. Raises LocalClusterError if the folder's cluster has another one."""
    found = existing(state)
    if asked is not None and found is not None and asked != found:
        raise ClusterError(
            f"{state} has a {found} cluster, which a {asked} cluster cannot continue",
            f"delete it with `trainstack cluster down --wipe`, or use another folder: `trainstack cluster up --driver "
            f"{asked} --state FOLDER`",
        )
    return asked or default(state)


def check_machine(state: Path) -> None:
    """Raise LocalClusterError with everything that this machine lacks for the driver of a state folder."""
    if default(state) == "kind":
        kind.check_machine(state)
    else:
        native.check_machine()


def status(state: Path) -> Status:
    return kind.status(state) if existing(state) == "kind" else native.status(state)


def up(
    state: Path,
    spec: ClusterSpec | None = None,
    report: Report = silent,
    *,
    driver: Driver | None = None,
    node_image: str | None = None,
    registry_image: str | None = None,
) -> Cluster:
    """Ensure that the cluster runs and is ready, with the driver that `choose_driver` returns.

    `node_image` and `registry_image` are for the kind driver only. Raises LocalClusterError.
    """
    if choose(state, driver) == "kind":
        return kind.up(state, spec, report, node_image=node_image, registry_image=registry_image)
    if node_image or registry_image:
        raise ClusterError("--node-image and --registry-image require the kind driver", "add `--driver kind`")
    return native.up(state, spec, report)


def down(state: Path, *, keep_data: bool = True, report: Report = silent) -> None:
    if existing(state) == "kind":
        kind.down(state, keep_data=keep_data, report=report)
    else:
        native.down(state, keep_data=keep_data, report=report)


def reset(state: Path, spec: ClusterSpec | None = None, report: Report = silent) -> Cluster:
    return kind.reset(state, spec, report) if existing(state) == "kind" else native.reset(state, spec, report)
