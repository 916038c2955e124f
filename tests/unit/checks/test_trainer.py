"""Which container of a pod trains."""

import pytest

from trainstack.runs.status.main_container import trainer


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
def test_the_container_that_trains_is_known_by_its_name(containers: tuple[str, ...], name: str) -> None:
    """Wherever an admission webhook has put its sidecars; one of another name is the first."""
    assert trainer(containers) == name
