"""The mounts, addresses and kernel parameters of the supervisor's namespaces.

Process 1 of the cluster runs this module; its changes end with the process.
"""

import os
from pathlib import Path

from trainstack.local_cluster import mount_points
from trainstack.local_cluster.command import run
from trainstack.local_cluster.state_folder import COVERED_FOLDERS, KUBELET_ROOT, Layout
from trainstack.local_cluster.supervisor_plan import SupervisorPlan

KUBELET_TUNABLES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Parameters that the kubelet would set for the whole machine. In the cluster, files with these values cover them."""

DEVICE_CHECKPOINT = '{"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":2932075448}'
"""An empty list of device plugins. Without the file, the kubelet sets its GPUs to zero at each start."""


def _mount_empty_folder(folder: Path) -> None:
    """Cover a folder of this machine with an empty one in memory."""
    mount_points.make_mount_point(folder)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "trainstack", str(folder))


def set_up_mounts(plan: SupervisorPlan) -> None:
    """Mount the cluster's own /run and its own folders at fixed paths."""
    # Mounts propagate within the cluster, so that containers see those of the kubelet, but not to the machine.
    run("mount", "--make-rshared", "/")
    for folder in ("/run", *COVERED_FOLDERS):
        _mount_empty_folder(Path(folder))
    layout = Layout(Path(plan.state))
    run("mount", "--bind", str(layout.kubelet), KUBELET_ROOT)
    # Before the kubelet starts: it would create missing `hostPath` folders of pods on this machine.
    mount_points.mount_folders(layout, plan.node_folders)
    for name, value in KUBELET_TUNABLES.items():
        target = Path("/proc/sys") / name
        if target.exists():
            value_file = Path("/run/trainstack-sysctl") / name.replace("/", ".")
            value_file.parent.mkdir(exist_ok=True)
            value_file.write_text(value + "\n")
            run("mount", "--bind", str(value_file), str(target))
    checkpoint = Path(KUBELET_ROOT, "device-plugins", "kubelet_internal_checkpoint")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_text(DEVICE_CHECKPOINT)


def set_up_network(plan: SupervisorPlan) -> None:
    """Configure the node's address, without a default route: connections to other machines fail at once."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{plan.node_ip}/30", "dev", plan.link)
    run("ip", "link", "set", plan.link, "up")
    # Service addresses are translated before a packet is sent, but the kernel needs a route first.
    run("ip", "route", "add", plan.service_range, "dev", plan.link)
    for name in ("ip_forward", "conf/all/forwarding"):
        (Path("/proc/sys/net/ipv4") / name).write_text("1")


def set_up(plan: SupervisorPlan) -> None:
    set_up_mounts(plan)
    set_up_network(plan)
    os.chdir("/")
