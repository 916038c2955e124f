"""Slots: the address pairs of the clusters on one machine."""

from ipaddress import IPv4Interface, IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from trainstack.local_cluster import network
from trainstack.local_cluster.network import SLOTS, Slot, free_slots


def test_a_slot_is_one_small_network_of_its_own() -> None:
    """The /30 contains only both ends."""
    slot = Slot(3)
    assert (slot.host_ip, slot.node_ip, slot.link) == ("198.18.254.13", "198.18.254.14", "trainstack3")
    assert [str(host) for host in slot.network.hosts()] == [slot.host_ip, slot.node_ip]
    assert (slot.server, slot.registry) == ("https://198.18.254.14:6443", "198.18.254.14:5000")


def test_ranges_do_not_overlap() -> None:
    """The ranges of pods, services and nodes are disjoint, and inside the reserved range."""
    slots = [Slot(number).network for number in range(SLOTS)]
    ranges = [IPv4Network(network.POD_RANGE), IPv4Network(network.SERVICE_RANGE), *slots]
    assert all(addresses.subnet_of(IPv4Network("198.18.0.0/15")) for addresses in ranges)
    assert not any(a.overlaps(b) for index, a in enumerate(ranges) for b in ranges[index + 1 :])
    real, simulated = IPv4Network(network.REAL_POD_SUBNET), IPv4Interface(network.SIMULATED_POD_SUBNET).network
    assert not real.overlaps(simulated)
    assert real.subnet_of(ranges[0])
    assert simulated.subnet_of(ranges[0])


@given(st.sets(st.integers(0, SLOTS - 1)), st.one_of(st.none(), st.integers(0, SLOTS - 1)))
def test_free_slots_come_once_each_the_preferred_one_first(taken: set[int], preferred: int | None) -> None:
    """A slot whose addresses are in use is never offered, even if preferred."""
    used = [IPv4Interface(f"{Slot(number).host_ip}/30") for number in taken]
    offered = [slot.number for slot in free_slots(preferred, used)]
    assert sorted(offered) == sorted(set(range(SLOTS)) - taken)
    if preferred is not None and preferred not in taken:
        assert offered[0] == preferred


def test_a_wider_foreign_network_occupies_all_slots_in_it() -> None:
    """A VPN that uses 198.18.254.0/25 leaves the other half free."""
    offered = [slot.number for slot in free_slots(None, [IPv4Interface("198.18.254.5/25")])]
    assert offered == list(range(32, SLOTS))
