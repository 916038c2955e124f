"""A change that would replace an operator by an older release is refused with the reason."""

from collections.abc import Mapping

import pytest

from trainstack.objects.labels import RELEASE, Manifest, ownership_labels
from trainstack.objects.ownership import Identity
from trainstack.platform.operators.install import OperatorManifests, stage_manifests
from trainstack.preflight.downgrades import DOWNGRADE_RISK, refusals

CRD: Identity = ("CustomResourceDefinition", None, "workloads.kueue.x-k8s.io")
CONTROLLER: Identity = ("Deployment", "kueue-system", "kueue-controller-manager")


def make_install(release: str) -> OperatorManifests:
    """Return this release of Kueue: one definition and its controller."""
    return stage_manifests(
        [
            {"kind": CRD[0], "metadata": {"name": CRD[2]}},
            {"kind": CONTROLLER[0], "metadata": {"namespace": CONTROLLER[1], "name": CONTROLLER[2]}},
        ],
        "dev",
        release,
    )


def refusal(running: str, declared: str, place: str) -> str:
    """Return the message of a refusal."""
    return (
        f"Kueue {running} is installed ({place}), and this change would downgrade it to {declared}: {DOWNGRADE_RISK}; "
        f"set operators.kueue.manifest to {running} or a later release"
    )


@pytest.mark.parametrize(
    ("declared", "live", "expected"),
    [
        pytest.param("v0.15.2", {}, (), id="nothing there"),
        pytest.param("v0.15.2", {CRD: {RELEASE: "v0.15.2"}, CONTROLLER: {RELEASE: "v0.15.2"}}, (), id="the same"),
        pytest.param("v0.15.2", {CRD: {RELEASE: "v0.14.0"}, CONTROLLER: {RELEASE: "v0.14.0"}}, (), id="an upgrade"),
        pytest.param("v0.9.1", {CONTROLLER: {RELEASE: "v0.9"}}, (), id="an upgrade from a version of two numbers"),
        pytest.param("v0.15.2", {CRD: {}, CONTROLLER: {RELEASE: "main"}}, (), id="of no known release"),
        pytest.param(
            "v0.14.0",
            {CRD: {RELEASE: "v0.15.2"}, CONTROLLER: {RELEASE: "v0.15.2"}},
            (refusal("v0.15.2", "v0.14.0", "Deployment kueue-system/kueue-controller-manager"),),
            id="a downgrade is reported once",
        ),
        pytest.param(
            "v0.15.1",
            {CRD: {RELEASE: "v0.15.2"}},
            (refusal("v0.15.2", "v0.15.1", "CustomResourceDefinition workloads.kueue.x-k8s.io"),),
            id="definitions that a teardown left",
        ),
        pytest.param(
            "v0.9.0",
            # An upgrade was interrupted between the two.
            {CRD: {RELEASE: "v0.10.0"}, CONTROLLER: {RELEASE: "v0.9.0"}},
            (refusal("v0.10.0", "v0.9.0", "CustomResourceDefinition workloads.kueue.x-k8s.io"),),
            id="numbers are compared, not letters",
        ),
    ],
)
def test_a_downgrade_is_refused(
    declared: str, live: Mapping[Identity, Mapping[str, str]], expected: tuple[str, ...]
) -> None:
    """The labels of live definitions and controllers show the installed release."""
    assert refusals({"kueue": make_install(declared)}, live) == expected


def test_labels_of_the_release_itself_stay() -> None:
    """Only the owner and the release's version are added."""
    crd: Manifest = {"kind": "CustomResourceDefinition", "metadata": {"name": "a", "labels": {"a": "b"}}}
    (definition,) = stage_manifests([crd], "dev", "v1.2.3").crds
    assert definition["metadata"] == {"name": "a", "labels": {"a": "b", **ownership_labels("dev"), RELEASE: "v1.2.3"}}
    assert crd["metadata"]["labels"] == {"a": "b"}
