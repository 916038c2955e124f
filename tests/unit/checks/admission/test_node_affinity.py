"""Taints against tolerations, labels against selectors, as Kueue compares them."""

import pytest

from trainstack.kueue.model import Requirement, Taint, Toleration
from trainstack.kueue.node_affinity import matches, selected, suits, untolerated

SPOT = Taint("kind", "spot", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("kind", "Equal", "spot", "NoSchedule"), True),
        (Toleration("kind", "Equal", "spot", ""), True),
        (Toleration("kind", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Exists", "", ""), True),
        (Toleration("kind", "Equal", "big", ""), False),
        (Toleration("other", "Exists", "", ""), False),
        (Toleration("kind", "Exists", "", "NoExecute"), False),
    ],
)
def test_a_toleration_fits_key_value_and_effect(toleration: Toleration, tolerated: bool) -> None:
    """What it does not say it tolerates in any form."""
    assert untolerated([SPOT], [toleration]) == (None if tolerated else SPOT)


def test_a_preference_keeps_nothing_away() -> None:
    """Only NoSchedule and NoExecute do; the first that does is told."""
    prefers, evicts = Taint("kind", "spot", "PreferNoSchedule"), Taint("drain", "", "NoExecute")
    assert untolerated([prefers], []) is None
    assert untolerated([prefers, evicts, SPOT], []) == evicts


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ("a", "b"), {"pool": "a"}, True),
        ("In", ("b",), {"pool": "a"}, False),
        ("In", ("a",), {}, False),
        ("NotIn", ("b",), {"pool": "a"}, True),
        ("NotIn", ("a",), {"pool": "a"}, False),
        ("NotIn", ("a",), {}, True),
        ("Exists", (), {"pool": ""}, True),
        ("Exists", (), {}, False),
        ("DoesNotExist", (), {}, True),
        ("DoesNotExist", (), {"pool": "a"}, False),
        ("Gt", ("7",), {"pool": "8"}, True),
        ("Gt", ("8",), {"pool": "8"}, False),
        ("Lt", ("8",), {"pool": "7"}, True),
        ("Lt", ("8",), {"pool": "8"}, False),
        ("Lt", ("8",), {"pool": "many"}, False),
        ("Gt", ("0",), {}, False),
    ],
)
def test_an_expression(operator: str, values: tuple[str, ...], labels: dict[str, str], expected: bool) -> None:
    """As the API server understands it; `Gt` and `Lt` compare whole numbers."""
    assert matches(Requirement("pool", operator, values), labels) is expected


def test_a_selector_of_nothing_takes_all_and_none_takes_nothing() -> None:
    """An empty selector and an absent one are not the same."""
    assert (selected((), {}), selected(None, {})) == (True, False)


def test_only_the_labels_of_the_groups_flavors_are_compared() -> None:
    """A selector for a label that no flavor has is the scheduler's affair."""
    assert suits({"rack": "7"}, (), {"pool": "a"}, {"pool"})
    assert not suits({"pool": "b"}, (), {"pool": "a"}, {"pool"})
    assert not suits({"zone": "x"}, (), {"pool": "a"}, {"pool", "zone"})


def test_of_the_terms_of_an_affinity_one_suffices() -> None:
    """The expressions of a term hold together."""
    in_b, in_a = Requirement("pool", "In", ("b",)), Requirement("pool", "In", ("a",))
    there = Requirement("zone", "Exists", ())
    keys, labels = {"pool", "zone"}, {"pool": "a"}
    assert suits({}, ((in_b,), (in_a,)), labels, keys)
    assert not suits({}, ((in_a, there),), labels, keys)


def test_a_term_without_labels_of_the_flavors_makes_the_affinity_count_for_nothing() -> None:
    """It matches on some node of every flavor, and terms are alternatives."""
    in_b, rack = Requirement("pool", "In", ("b",)), Requirement("rack", "In", ("7",))
    assert suits({}, ((in_b,), (rack,)), {"pool": "a"}, {"pool"})
    assert not suits({}, ((in_b, rack),), {"pool": "a"}, {"pool"})
