"""The comparison of taints with tolerations, and of labels with selectors, as in Kueue."""

import pytest

from trainstack.kueue.model import Requirement, Taint, Toleration
from trainstack.kueue.node_affinity import (
    find_untolerated_taint,
    match_labels,
    matches,
    requirement_fault,
    selector_matches,
    suits,
)

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
        (Toleration("kind", "Gt", "spot", ""), False),
    ],
)
def test_a_toleration_fits_key_value_and_effect(toleration: Toleration, tolerated: bool) -> None:
    """Missing fields match any value."""
    assert find_untolerated_taint([SPOT], [toleration]) == (None if tolerated else SPOT)


def test_a_prefer_no_schedule_taint_is_ignored() -> None:
    """Only NoSchedule and NoExecute count; the first untolerated taint is returned."""
    prefers, evicts = Taint("kind", "spot", "PreferNoSchedule"), Taint("drain", "", "NoExecute")
    assert find_untolerated_taint([prefers], []) is None
    assert find_untolerated_taint([prefers, evicts, SPOT], []) == evicts


@pytest.mark.parametrize(
    ("operator", "value", "taint", "tolerated"),
    [
        ("Gt", "4", "5", True),
        ("Gt", "5", "5", False),
        ("Lt", "6", "5", True),
        ("Lt", "5", "5", False),
        ("Lt", "6", "05", False),
        ("Gt", "1_0", "20", False),
        ("Gt", "4", "5Gi", False),
        ("Gt", "4", str(2**63), False),
    ],
)
def test_a_toleration_may_compare_integers(operator: str, value: str, taint: str, tolerated: bool) -> None:
    """Without leading zeros, and of 64 bits."""
    numbered = Taint("size", taint, "NoSchedule")
    assert (find_untolerated_taint([numbered], [Toleration("size", operator, value, "")]) is None) is tolerated


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
        ("Gt", ("5",), {"pool": "1_0"}, False),
        ("Gt", ("007",), {"pool": "8"}, True),
        ("Gt", ("7",), {"pool": str(2**63)}, False),
    ],
)
def test_an_expression(operator: str, values: tuple[str, ...], labels: dict[str, str], expected: bool) -> None:
    """The semantics are the API server's; `Gt` and `Lt` compare integers."""
    assert matches(Requirement("pool", operator, values), labels) is expected


def test_an_empty_selector_selects_all_and_a_missing_one_nothing() -> None:
    assert (selector_matches((), {}), selector_matches(None, {})) == (True, False)


def test_only_the_labels_of_the_groups_flavors_are_compared() -> None:
    """The scheduler compares the other labels."""
    assert suits({"rack": "7"}, (), {"pool": "a"}, {"pool"})
    assert not suits({"pool": "b"}, (), {"pool": "a"}, {"pool"})
    assert not suits({"zone": "x"}, (), {"pool": "a"}, {"pool", "zone"})


def test_one_term_of_an_affinity_must_match() -> None:
    """All expressions of the term must match."""
    in_b, in_a = Requirement("pool", "In", ("b",)), Requirement("pool", "In", ("a",))
    zone_exists = Requirement("zone", "Exists", ())
    keys, labels = {"pool", "zone"}, {"pool": "a"}
    assert suits({}, ((in_b,), (in_a,)), labels, keys)
    assert not suits({}, ((in_a, zone_exists),), labels, keys)


def test_a_term_without_labels_of_the_flavors_disables_the_affinity() -> None:
    """The term may match nodes of every flavor, and terms are alternatives."""
    in_b, rack = Requirement("pool", "In", ("b",)), Requirement("rack", "In", ("7",))
    assert suits({}, ((in_b,), (rack,)), {"pool": "a"}, {"pool"})
    assert not suits({}, ((in_b, rack),), {"pool": "a"}, {"pool"})


@pytest.mark.parametrize(
    ("operator", "values", "fault"),
    [
        ("Gt", ("40",), ""),
        ("Lt", ("0040",), ""),
        ("Gt", (str(2**63 - 1),), ""),
        ("Gt", (str(2**63),), f"Gt compares with one integer of 64 bits, not with '{2**63}'"),
        ("Gt", ("40Gi",), "Gt compares with one integer of 64 bits, not with '40Gi'"),
        ("Lt", ("1_0",), "Lt compares with one integer of 64 bits, not with '1_0'"),
        ("Lt", (" 5",), "Lt compares with one integer of 64 bits, not with ' 5'"),
        (
            "Lt",
            ("\N{ARABIC-INDIC DIGIT FIVE}",),
            "Lt compares with one integer of 64 bits, not with '\N{ARABIC-INDIC DIGIT FIVE}'",
        ),
        ("Lt", ("1", "2"), "Lt compares with one integer of 64 bits, not with '1', '2'"),
        ("Lt", (), "Lt compares with one integer of 64 bits, not with nothing"),
        ("Gt", ("-5",), "'-5' is not a label value"),
        ("In", ("a", "a b"), "'a b' is not a label value"),
        ("NotIn", (), "NotIn has no values"),
        ("Exists", ("a",), "Exists takes no values"),
        ("DoesNotExist", (), ""),
    ],
)
def test_a_requirement_may_be_unreadable(operator: str, values: tuple[str, ...], fault: str) -> None:
    """Numbers are those of Go, not of Python."""
    assert requirement_fault(Requirement("pool", operator, values)) == fault


def test_an_unreadable_requirement_counts_if_no_other_term_matches() -> None:
    """A term that compares no label of the flavors matches, and a node selector excludes before."""
    unreadable, in_a = Requirement("size", "Gt", ("40Gi",)), Requirement("pool", "In", ("a",))
    rack, keys, labels = Requirement("rack", "In", ("7",)), {"pool", "size"}, {"pool": "a", "size": "64"}
    assert match_labels({}, ((unreadable,),), labels, keys) == unreadable
    assert match_labels({}, ((in_a, unreadable),), labels, keys) == unreadable
    assert match_labels({}, ((unreadable,), (in_a,)), labels, keys) is True
    assert match_labels({}, ((unreadable,), (rack,)), labels, keys) is True
    assert match_labels({}, ((unreadable,),), labels, {"pool"}) is True
    assert match_labels({"pool": "b"}, ((unreadable,),), labels, keys) is False
    assert not suits({}, ((unreadable,),), labels, keys)
