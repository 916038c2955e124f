"""The selection of a pod's main container."""

from typing import Any

import pytest

from trainstack.objects.labels import DEFAULT_CONTAINER
from trainstack.runs.status.main_container import main_container_name


def make_pod(*containers: str, annotated: str | None = None) -> dict[str, Any]:
    """Return a pod with these containers, after an init container."""
    annotations = {} if annotated is None else {DEFAULT_CONTAINER: annotated}
    init_containers = [{"name": "checkout"}]
    spec = {"initContainers": init_containers, "containers": [{"name": name} for name in containers]}
    return {"metadata": {"annotations": annotations}, "spec": spec}


@pytest.mark.parametrize(
    ("containers", "name"),
    [
        (("training",), "training"),
        (("pytorch",), "pytorch"),
        (("istio-proxy", "node", "logger"), "node"),
        (("data-loader", "sidecar"), "data-loader"),
        (("mine", "sidecar"), "mine"),
    ],
)
def test_the_training_container_is_identified_by_its_name(containers: tuple[str, ...], name: str) -> None:
    """Sidecars of admission webhooks may be at any position; if no name is known, it is the first."""
    assert main_container_name(make_pod(*containers)) == name


def test_a_container_of_another_name_is_identified_by_the_annotation() -> None:
    """Injectors may set the annotation, too, but not before Trainstack, and never for a known name."""
    assert main_container_name(make_pod("istio-proxy", "mine", "logger", annotated="mine")) == "mine"
    assert main_container_name(make_pod("istio-proxy", "training", annotated="istio-proxy")) == "training"
    assert main_container_name(make_pod("mine", "logger", annotated="gone")) == "mine"


def test_a_pod_without_containers_has_no_main_container() -> None:
    """A cluster's answer may lack the spec."""
    assert main_container_name({"metadata": {}}) == ""
