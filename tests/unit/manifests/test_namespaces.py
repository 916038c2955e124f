"""Namespaces, and which pods they take."""

import pytest

from trainstack.platform.namespaces import enforced, namespace
from trainstack.settings.sections.environment import Namespace

MARK = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}


def levels(enforce: str, warn: str, audit: str) -> dict[str, str]:
    """The three labels of Pod Security."""
    said = {"enforce": enforce, "warn": warn, "audit": audit}
    return {f"pod-security.kubernetes.io/{mode}": level for mode, level in said.items()}


def test_a_namespace_carries_its_labels_our_mark_and_takes_restricted_pods_alone() -> None:
    """Nothing that a person writes overrides the mark."""
    declared = Namespace(name="research", labels={"team": "a", "trainstack.dev/stack": "other"})
    strict = levels("restricted", "restricted", "restricted")
    assert namespace(declared, "dev") == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "research", "labels": {**strict, "team": "a", **MARK}},
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"enforce": "baseline"}, levels("baseline", "baseline", "baseline")),
        ({"enforce": "baseline", "warn": "restricted"}, levels("baseline", "restricted", "baseline")),
        ({"audit": "privileged"}, levels("restricted", "restricted", "privileged")),
    ],
)
def test_a_level_that_the_file_says_wins(said: dict[str, str], expected: dict[str, str]) -> None:
    """Another level to enforce is the one to warn and audit by, unless the file says more."""
    declared = Namespace(
        name="user", labels={f"pod-security.kubernetes.io/{mode}": each for mode, each in said.items()}
    )
    assert namespace(declared, "dev")["metadata"]["labels"] == {**expected, **MARK}
    assert enforced(declared) == expected["pod-security.kubernetes.io/enforce"]


def test_an_adopted_namespace_keeps_the_level_that_it_has() -> None:
    """Who lives there may need it; what the file says is said."""
    assert namespace(Namespace(name="old", adopt=True), "dev")["metadata"]["labels"] == MARK
    assert enforced(Namespace(name="old", adopt=True)) == ""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    declared = Namespace(name="old", adopt=True, labels=labels)
    assert namespace(declared, "dev")["metadata"]["labels"] == {**labels, **MARK}
    assert enforced(declared) == "restricted"
