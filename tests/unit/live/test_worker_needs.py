"""The objects that dispatched launches need in a worker cluster, and their reads."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.make import make_distributed, make_mount, make_run, make_settings
from tests.unit.preflight.environment_cases import check_of, dispatching
from tests.unit.runs.launches import make_launch
from trainstack.cli.check_cluster import _worker_needs
from trainstack.live import worker_needs
from trainstack.live.client import Answer, ClusterError
from trainstack.live.worker_needs import read_worker_clusters
from trainstack.preflight.worker_needs import launch_needs
from trainstack.runs.manifests.build import manifest
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.secrets import SecretValue
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects


def test_a_launch_needs_the_objects_that_its_pods_refer_to() -> None:
    """Including the wrapper, which `receives` creates. Each object is listed once, the namespace first."""
    run = make_distributed(
        workers=2,
        secret_env={"TOKEN": SecretValue(secret="token", key="value")},
        image_pull_secrets=("registry",),
        service_account="trainer",
    )
    launch = make_launch()
    assert [str(need) for need in launch_needs(manifest(run, "test", launch))] == [
        "Namespace research",
        "kind PyTorchJob",
        "LocalQueue research/research",
        f"ConfigMap research/{launch.facts.wrapper}",
        "PersistentVolumeClaim research/training",
        "Secret research/registry",
        "Secret research/token",
        "ServiceAccount research/trainer",
    ]


def test_only_dispatched_runs_need_worker_clusters() -> None:
    """The result has the path of their settings, and each cluster of their queue."""
    dispatched = dispatching(check_of("check"), queue={})
    for declared, expected in ((dispatched, {"west"}), (make_settings(make_run()), None)):
        settings = declared.model_copy(update={"operators": Operators()})
        manifests = StackObjects(settings, Inputs(wrapper="print()", commit="abc")).manifests()
        found = dict(_worker_needs(settings, {"train": "workloads.runs[train]"}, manifests))
        assert {path: {*needed} for path, needed in found.items()} == (
            {} if expected is None else {"workloads.runs[train]": expected}
        )


def test_each_cluster_is_read_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only metadata is read. An object may be missing or unreadable, and a cluster unreachable."""
    launch = manifest(make_run(volumes=(make_mount(),)), "test", make_launch())
    needed = launch_needs(launch)
    statuses = {"localqueues/research": 404, "configmaps/": 403}
    reads: list[str] = []

    async def get_all(api: str, paths: Mapping[str, Any], *, metadata_only: bool = False) -> dict[str, Answer]:
        assert all(metadata_only != path.endswith("/jobs?limit=1") for path in paths)
        reads.append(api)
        found = {path: next((code for part, code in statuses.items() if part in path), 200) for path in paths}
        return {path: Answer(code, {"kind": "any"} if code == 200 else {}) for path, code in found.items()}

    async def api(cluster: str) -> str:
        if cluster == "east":
            raise ClusterError("east does not answer", "start it")
        return cluster

    monkeypatch.setattr(worker_needs, "WorkerClients", lambda _: SimpleNamespace(api=api))
    monkeypatch.setattr(worker_needs, "get_all", get_all)
    clusters = {"west": needed, "east": needed}
    found = read_worker_clusters(make_settings(), {"a": clusters, "b": clusters})
    assert reads == ["west", "west"]
    assert [str(need) for need in found["west"].missing] == ["LocalQueue research/research"]
    assert [need.kind for need in found["west"].unreadable] == ["ConfigMap"]
    assert (found["east"].problem, found["east"].remedy) == ("east does not answer", "start it")
    assert read_worker_clusters(make_settings(), {}) == {}
