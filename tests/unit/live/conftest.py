"""A fake cluster with a kubeconfig."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.live.fake_cluster import FakeCluster, fake_cluster, make_config
from trainstack.live import kubeconfig

Use = Callable[..., None]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Run a fake cluster."""
    with fake_cluster() as server:
        yield server


@pytest.fixture
def use(cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Return a function that writes the kubeconfig with a user, and fields of the cluster."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

    def write(user: dict[str, Any], **fields: Any) -> None:
        (tmp_path / "kubeconfig").write_text(json.dumps(make_config(cluster.server_port, user, **fields)))
        kubeconfig.clear_cache()

    yield write
    kubeconfig.clear_cache()
