"""Addresses of a cluster, and the one link that joins it to this machine.

All lie in 198.18.0.0/15, which is reserved for tests and routed nowhere. Pods and services live inside the cluster's
own network namespace, so every cluster has the same; only the node's address must differ between clusters on a machine.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import Any

from trainstack.dev.cluster.command import run, succeeds
from trainstack.dev.cluster.errors import ClusterError

POD_RANGE = "198.18.0.0/17"
REAL_POD_SUBNET = "198.18.0.0/18"
SIMULATED_POD_SUBNET = "198.18.64.1/18"
SERVICE_RANGE = "198.18.128.0/20"
API_SERVICE_IP = "198.18.128.1"
DNS_SERVICE_IP = "198.18.128.10"
API_PORT = 6443
REGISTRY_PORT = 5000
SLOTS = 64
"""How many clusters can run on one machine at once."""
NODE_LINK = "node0"
"""Name of the link inside the cluster's namespace."""


@dataclass(frozen=True)
class Slot:
    """One of the address pairs that clusters on this machine share out."""

    number: int

    @property
    def host_ip(self) -> str:
        """This machine's end."""
        return f"198.18.254.{4 * self.number + 1}"

    @property
    def node_ip(self) -> str:
        """The cluster's end: API server, registry, node ports."""
        return f"198.18.254.{4 * self.number + 2}"

    @property
    def network(self) -> IPv4Network:
        """The /30 of both ends."""
        return IPv4Network(f"198.18.254.{4 * self.number}/30")

    @property
    def link(self) -> str:
        """Name of this machine's end; the kernel's refusal of a second one of the same name is the lock on the slot."""
        return f"trainstack{self.number}"

    @property
    def server(self) -> str:
        """The API server as clients on this machine reach it."""
        return f"https://{self.node_ip}:{API_PORT}"

    @property
    def registry(self) -> str:
        """host:port of the image registry."""
        return f"{self.node_ip}:{REGISTRY_PORT}"


def candidates(preferred: int | None, used: list[IPv4Interface]) -> Iterator[Slot]:
    """Slots whose addresses nothing on this machine uses, the preferred one first."""
    numbers = list(range(SLOTS))
    if preferred is not None and preferred in numbers:
        numbers.remove(preferred)
        numbers.insert(0, preferred)
    for number in numbers:
        slot = Slot(number)
        if not any(slot.network.overlaps(address.network) for address in used):
            yield slot


def used_addresses() -> list[IPv4Interface]:
    """Every IPv4 address of this machine."""
    links: list[dict[str, Any]] = json.loads(run("ip", "-json", "-4", "address", "show"))
    return [IPv4Interface(f"{a['local']}/{a['prefixlen']}") for link in links for a in link.get("addr_info", [])]


def join(pid: int, preferred: int | None, owner: str) -> Slot:
    """Take a free slot and join this machine to the network namespace of process `pid` (as seen here).

    The link vanishes with the namespace, so nothing has to be undone; it bears its owner's name until then.
    """
    for slot in candidates(preferred, used_addresses()):
        peer = ("peer", "name", NODE_LINK, "netns", str(pid))
        if not succeeds("ip", "link", "add", "name", slot.link, "type", "veth", *peer):
            continue
        run("ip", "address", "add", f"{slot.host_ip}/30", "dev", slot.link)
        run("ip", "link", "set", slot.link, "alias", owner, "up")
        return slot
    raise ClusterError(
        f"No address is free for another local cluster: all {SLOTS} networks in 198.18.254.0/24 are in use or no veth "
        "link can be made. `ip -br address` shows who has them; stop a cluster with `trainstack cluster down`."
    )


def joined(owner: str) -> bool:
    """Whether a link of this owner joins this machine to a network namespace, which may be about to vanish."""
    for alias in Path("/sys/class/net").glob("*/ifalias"):
        with contextlib.suppress(OSError):
            if alias.read_text().strip() == owner:
                return True
    return False
