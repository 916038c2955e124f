"""The cluster's addresses, and the link that connects it to this machine.

The addresses are in 198.18.0.0/15, which is reserved for tests and not routed. Pods and services are inside the
cluster's network namespace, so all clusters use the same addresses. Only the node's must be unique on the machine.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import Any

from trainstack.local_cluster.command import run, succeeds
from trainstack.local_cluster.errors import LocalClusterError

POD_RANGE = "198.18.0.0/17"
REAL_POD_SUBNET = "198.18.0.0/18"
SIMULATED_POD_SUBNET = "198.18.64.1/18"
SERVICE_RANGE = "198.18.128.0/20"
API_SERVICE_IP = "198.18.128.1"
DNS_SERVICE_IP = "198.18.128.10"
API_PORT = 6443
REGISTRY_PORT = 5000
SLOTS = 64
"""Maximum number of clusters on one machine."""
NODE_LINK = "node0"
"""Name of the link inside the cluster's network namespace."""


@dataclass(frozen=True)
class Slot:
    """A pair of addresses, of this machine and of a node, that one cluster of this machine uses at a time."""

    number: int

    @property
    def host_ip(self) -> str:
        """The address of this machine's end of the link."""
        return f"198.18.254.{4 * self.number + 1}"

    @property
    def node_ip(self) -> str:
        """The address of the cluster's end: API server, registry, node ports."""
        return f"198.18.254.{4 * self.number + 2}"

    @property
    def network(self) -> IPv4Network:
        return IPv4Network(f"198.18.254.{4 * self.number}/30")

    @property
    def link(self) -> str:
        return f"trainstack{self.number}"

    @property
    def server(self) -> str:
        return f"https://{self.node_ip}:{API_PORT}"

    @property
    def registry(self) -> str:
        return f"{self.node_ip}:{REGISTRY_PORT}"


def free_slots(preferred: int | None, addresses_in_use: list[IPv4Interface]) -> Iterator[Slot]:
    """Yield the slots whose addresses this machine does not use, the preferred one first."""
    numbers = list(range(SLOTS))
    if preferred is not None and preferred in numbers:
        numbers.remove(preferred)
        numbers.insert(0, preferred)
    for number in numbers:
        slot = Slot(number)
        if not any(slot.network.overlaps(address.network) for address in addresses_in_use):
            yield slot


def used_addresses() -> list[IPv4Interface]:
    links: list[dict[str, Any]] = json.loads(run("ip", "-json", "-4", "address", "show"))
    return [
        IPv4Interface(f"{address['local']}/{address['prefixlen']}")
        for link in links
        for address in link.get("addr_info", [])
    ]


def link_namespace(pid: int, preferred: int | None, link_alias: str) -> Slot:
    """Use a free slot, and link this machine to the network namespace of process `pid` (its pid on this machine).

    `link_alias` is the alias of the link, by which `has_link` finds it. The kernel removes the link with the namespace.
    Raises LocalClusterError if no slot is free.
    """
    for slot in free_slots(preferred, used_addresses()):
        peer = ("peer", "name", NODE_LINK, "netns", str(pid))
        if not succeeds("ip", "link", "add", "name", slot.link, "type", "veth", *peer):
            continue  # for example because another command has used the slot meanwhile
        run("ip", "address", "add", f"{slot.host_ip}/30", "dev", slot.link)
        run("ip", "link", "set", slot.link, "alias", link_alias, "up")
        return slot
    raise LocalClusterError(
        f"Cannot connect another local cluster: all {SLOTS} networks in 198.18.254.0/24 are in use, or veth links "
        "cannot be created. `ip -br address` lists the used ones; stop a cluster with `trainstack cluster down`."
    )


def has_link(link_alias: str) -> bool:
    """Return whether a link with the alias exists. The kernel removes links shortly after their namespace."""
    for alias_file in Path("/sys/class/net").glob("*/ifalias"):
        with contextlib.suppress(OSError):
            if alias_file.read_text().strip() == link_alias:
                return True
    return False
