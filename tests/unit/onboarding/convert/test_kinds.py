"""The pods of kinds without a module are found in the order of Kueue's pod sets."""

from typing import Any

import pytest

from trainstack.onboarding.convert.kinds import OTHER_WORKLOADS, PodPlace, find_pods

PODS = {"replicas": 2, "template": {"spec": {}}}
WRAPPED = "spec.components[0].template.spec"


def make_wrapper(kind: str, spec: Any, **component: Any) -> dict[str, Any]:
    """Return an AppWrapper with one component."""
    template = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    return {"metadata": {"name": "Wrapped.v1"}, "spec": {"components": [{"template": template, **component}]}}


def test_roles_are_in_the_order_of_kueue() -> None:
    """It is not that of the file."""
    specs = {"Worker": PODS, "PS": PODS, "Chief": {"template": {}}}
    assert find_pods(("kubeflow.org", "TFJob"), {"spec": {"tfReplicaSpecs": specs}}) == (
        PodPlace("chief", "spec.tfReplicaSpecs.Chief.template"),
        PodPlace("ps", "spec.tfReplicaSpecs.PS.template", "spec.tfReplicaSpecs.PS.replicas"),
        PodPlace("worker", "spec.tfReplicaSpecs.Worker.template", "spec.tfReplicaSpecs.Worker.replicas"),
    )


@pytest.mark.parametrize(
    ("kind", "spec", "places"),
    [
        ("Pod", {}, [("spec.components[0].template", None)]),
        ("Job", {"template": {}}, [(f"{WRAPPED}.template", None)]),
        ("Deployment", {"replicas": 2, "template": {}}, [(f"{WRAPPED}.template", f"{WRAPPED}.replicas")]),
        (
            "JobSet",
            {"replicatedJobs": [{"replicas": 2}]},
            [(f"{WRAPPED}.replicatedJobs[0].template.spec.template", f"{WRAPPED}.replicatedJobs[0].replicas")],
        ),
        (
            "RayCluster",
            {"headGroupSpec": {}, "workerGroupSpecs": [PODS]},
            [
                (f"{WRAPPED}.headGroupSpec.template", None),
                (f"{WRAPPED}.workerGroupSpecs[0].template", f"{WRAPPED}.workerGroupSpecs[0].replicas"),
            ],
        ),
        (
            "RayJob",
            {"rayClusterSpec": {"headGroupSpec": {}}},
            [(f"{WRAPPED}.rayClusterSpec.headGroupSpec.template", None)],
        ),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Master": {}}},
            [(f"{WRAPPED}.pytorchReplicaSpecs.Master.template", None)],
        ),
        ("Service", {}, []),
    ],
)
def test_the_pods_of_a_component_are_found(kind: str, spec: Any, places: list[tuple[str, str | None]]) -> None:
    """By its kind, as the operator finds them."""
    expected = tuple(PodPlace(f"wrapped-v1-{index}", *place) for index, place in enumerate(places))
    assert find_pods(("workload.codeflare.dev", "AppWrapper"), make_wrapper(kind, spec)) == expected


def test_a_component_may_list_its_pods() -> None:
    """The list takes precedence over the kind."""
    body = make_wrapper("Other", {}, podSets=[{"path": "template.spec.pods", "replicas": 3}, {"path": "template.x"}])
    assert [
        (place.template, place.replicas) for place in find_pods(("workload.codeflare.dev", "AppWrapper"), body)
    ] == [
        ("spec.components[0].template.spec.pods", "spec.components[0].podSets[0].replicas"),
        ("spec.components[0].template.x", None),
    ]


def test_every_kind_has_a_framework_of_kueue() -> None:
    """Its name is the group and the kind in lower case."""
    assert all(kind.framework == f"{group}/{name.lower()}" for (group, name), kind in OTHER_WORKLOADS.items())
