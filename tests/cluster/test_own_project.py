"""A tenant's project in a repository of its own, with Trainstack from the wheel alone."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.lab import NAMESPACE, OPEN
from tests.cluster.project import ROOT, Project
from tests.wheel import build
from trainstack.runs.images.images import workload_reference

pytestmark = pytest.mark.cluster

STACK = "vision"


@pytest.fixture
def project(lab: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """An empty repository, and the wheel on the path instead of the checkout."""
    site = build(tmp_path_factory.mktemp("wheel")).site
    root = tmp_path_factory.mktemp("own")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    found = Project(root, lab.kubeconfig, STACK, {"PYTHONPATH": str(site)})
    yield found
    found.take_down()
    done = lab.kubectl("delete", "pvc", "training", "-n", NAMESPACE, "--timeout=60s", "--ignore-not-found")
    assert done.code == 0, done.text


def test_a_tenant_trains_with_the_wheel_alone(project: Project) -> None:
    """From `init` to the fetched result; then the files change nothing."""
    words = ["--profile", "tenant", "--cluster", "other", "--namespace", NAMESPACE, "--queue", OPEN]
    done = project.run(["init", *words, "-s", STACK], trainstack=True)
    assert done.code == 0, done.text
    refused = project.trainstack("check")
    assert refused.code == 4
    assert "storage.volumes[training].storageClass: is missing" in refused.text
    # This cluster's class, and an image with Python that its registry has.
    _replace(project.root / f"Pulumi.{STACK}.yaml", "storageClass:   # fill in", "storageClass: shared")
    _replace(project.root / f"Pulumi.{STACK}.yaml", "storageClasses: []", "storageClasses: [shared]")
    _replace(project.root / f"Pulumi.{STACK}.yaml", "    profile: tenant", "    state: embedded\n    profile: tenant")
    image = workload_reference(ROOT / "workloads" / "digits")
    _replace(project.root / "workloads" / "hello" / "workload.yaml", "python:3.13-slim", image)
    done = project.trainstack("up", "--yes")
    assert done.code == 0, done.text
    (result,) = project.root.glob("results/hello-*/result/result.json")
    assert json.loads(result.read_text()) == {"epochs": 5}
    project._use_environment()
    assert project.changes() == {}
    assert not (project.root / "trainstack").exists()


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
