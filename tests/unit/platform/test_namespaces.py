"""Namespaces, and the pods that they admit."""

import pytest

from trainstack.platform.namespaces import enforced_level, namespace
from trainstack.settings.sections.environment import Namespace

MARK = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}


def levels(enforce: str, warn: str, audit: str) -> dict[str, str]:
    """Return the three labels of Pod Security."""
    modes = {"enforce": enforce, "warn": warn, "audit": audit}
    return {f"pod-security.kubernetes.io/{mode}": level for mode, level in modes.items()}


def test_a_namespace_carries_its_labels_our_mark_and_takes_restricted_pods_alone() -> None:
    """No label of the user overrides the stack's."""
    declared = Namespace(name="research", labels={"team": "a", "trainstack.dev/stack": "other"})
    strict = levels("restricted", "restricted", "restricted")
    assert namespace(declared, "dev") == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "research", "labels": {**strict, "team": "a", **MARK}},
    }


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ({"enforce": "baseline"}, levels("baseline", "baseline", "baseline")),
        ({"enforce": "baseline", "warn": "restricted"}, levels("baseline", "restricted", "baseline")),
        ({"audit": "privileged"}, levels("restricted", "restricted", "privileged")),
    ],
)
def test_a_declared_level_takes_precedence(modes: dict[str, str], expected: dict[str, str]) -> None:
    """A declared level to enforce is also the one to warn and audit by, unless those are declared."""
    declared = Namespace(
        name="user", labels={f"pod-security.kubernetes.io/{mode}": level for mode, level in modes.items()}
    )
    assert namespace(declared, "dev")["metadata"]["labels"] == {**expected, **MARK}
    assert enforced_level(declared) == expected["pod-security.kubernetes.io/enforce"]


def test_an_adopted_namespace_keeps_the_level_that_it_has() -> None:
    """Its other tenants may need it; declared levels are applied."""
    assert namespace(Namespace(name="old", adopt=True), "dev")["metadata"]["labels"] == MARK
    assert enforced_level(Namespace(name="old", adopt=True)) == ""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    declared = Namespace(name="old", adopt=True, labels=labels)
    assert namespace(declared, "dev")["metadata"]["labels"] == {**labels, **MARK}
    assert enforced_level(declared) == "restricted"
