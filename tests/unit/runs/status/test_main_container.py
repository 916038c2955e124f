"""The selection of a pod's main container."""

import pytest

from trainstack.runs.status.main_container import select_main_container


@pytest.mark.parametrize(
    ("containers", "name"),
    [
        (("training",), "training"),
        (("checkout", "pytorch"), "pytorch"),
        (("istio-init", "istio-proxy", "node", "logger"), "node"),
        (("data-loader", "sidecar"), "data-loader"),
        (("checkout", "mine", "sidecar"), "mine"),
    ],
)
def test_the_training_container_is_identified_by_its_name(containers: tuple[str, ...], name: str) -> None:
    """Sidecars of admission webhooks may be at any position; if no name is known, it is the first other container."""
    assert select_main_container(containers) == name
