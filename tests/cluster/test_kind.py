"""The environment dev on a kind cluster, from creation to deletion, with podman and a node image built by the test."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import kind_node
from tests.cluster.inventory import all_objects, assert_only_retained
from tests.cluster.kind_node import Built
from tests.cluster.project import CommandResult, Project, eventually
from trainstack.local_cluster.images import recipe
from trainstack.local_cluster.state_folder import Layout

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

LABEL = "io.x-k8s.kind.cluster"
"""The label by which kind finds the containers of a cluster."""
IMAGES = "trainstack-registry"
"""The volume of images, which clusters share and no command deletes."""


@dataclass(frozen=True)
class Kubeconfig:
    kubeconfig: Path


def podman(*words: str) -> str:
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"podman {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def inventory() -> dict[str, set[str]]:
    """Return podman's containers and volumes, by kind, without the shared volume of images."""
    return {
        "containers": set(podman("ps", "--all", "--no-trunc", "--format", "{{.ID}}").split()),
        "volumes": set(podman("volume", "ls", "--format", "{{.Name}}").split()) - {IMAGES},
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Yield kind and its images. Missing packages fail the tests, since the test installs none."""
    missing = kind_node.missing_packages()
    assert not missing, f"missing packages: {', '.join(missing)}; `make test-kind` installs them"
    assert Path("/lib/modules").is_dir(), "kind's node mounts /lib/modules, which `make test-kind` creates"
    settings = tmp_path_factory.mktemp("podman") / "containers.conf"
    # Root in a container may not raise its limits to podman's defaults.
    limits = [option.removeprefix("--ulimit=") for option in recipe._limit_options()]
    settings.write_text(f"[containers]\ndefault_ulimits = {json.dumps(limits)}\n")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CONTAINERS_CONF", str(settings))
        yield kind_node.ensure_built()


@pytest.fixture
def project(built: Built, tmp_path: Path) -> Iterator[Project]:
    """Yield a copy of the checkout for a kind cluster; podman has the same containers afterwards."""
    before, volumes, networks = inventory(), list_names("volume"), list_names("network")
    copy = Project.copy(tmp_path / "copy", Kubeconfig(tmp_path / "copy/.trainstack/cluster/kubeconfig"))
    copy.variables |= {
        "PATH": f"{built.programs}:{copy.variables['PATH']}",
        "KIND_EXPERIMENTAL_PROVIDER": kind_node.ENGINE,
    }
    try:
        yield copy
    finally:
        # These are remnants of a failed test; the test itself runs `cluster down`.
        for container in inventory()["containers"] - before["containers"]:
            podman("rm", "--force", "--volumes", "--time", "0", container)
        for volume in list_names("volume") - volumes:
            podman("volume", "rm", "--force", volume)
        for network in list_names("network") - networks:
            podman("network", "rm", network)
        assert inventory() == before


def list_names(kind: str) -> set[str]:
    return set(podman(kind, "ls", "--format", "{{.Name}}").split())


@dataclass(frozen=True)
class Foreign:
    """The node of another owner's kind cluster, by its labels."""

    name: str
    id: str

    @classmethod
    def start(cls, cluster: str, image: str) -> "Foreign":
        name = f"{cluster}-control-plane"
        labels = (f"--label={LABEL}={cluster}", "--label=io.x-k8s.kind.role=control-plane")
        words = (
            "run",
            "--detach",
            f"--name={name}",
            *labels,
            "--network=none",
            "--entrypoint=sleep",
            image,
            "infinity",
        )
        return cls(name, podman(*words))

    def state(self) -> dict[str, Any]:
        """Return the fields that a stop, start or deletion changes."""
        found = json.loads(podman("container", "inspect", self.name))[0]
        return {"id": found["Id"], **{key: found["State"][key] for key in ("Status", "Pid", "StartedAt")}}

    def remove(self) -> None:
        podman("rm", "--force", "--time", "0", self.id)


def run(project: Project, *words: str, seconds: float = 120, code: int = 0) -> CommandResult:
    began = time.monotonic()
    done = project.run(list(words), trainstack=True, seconds=seconds)
    print(f"{time.monotonic() - began:6.1f} s  {' '.join(words)}")
    assert done.code == code, done.text
    return done


def up(project: Project, built: Built, code: int = 0) -> CommandResult:
    images = ("--node-image", built.node_image, "--registry-image", built.registry_image)
    # Twice the sum of kubeadm's and the driver's own limits.
    return run(project, "cluster", "up", "--driver", "kind", *images, seconds=1100, code=code)


def test_a_cluster_of_another_owner_is_not_adopted(project: Project, built: Built) -> None:
    """Neither `up` nor `down --wipe` changes a kind cluster that has this folder's cluster name."""
    foreign = Foreign.start(Layout.of(project.root / ".trainstack/cluster").cgroup, built.node_image)
    before = foreign.state()
    refused = up(project, built, code=1)
    assert "has no record of; nothing was changed" in refused.err
    run(project, "cluster", "down", "--wipe")
    assert foreign.state() == before
    foreign.remove()


def test_dev_trains_on_kind_and_is_removed_completely(project: Project, built: Built) -> None:
    """The run's record is on a ReadWriteMany volume. A foreign cluster in the same engine is unchanged."""
    foreign = Foreign.start("foreign", built.node_image)
    foreign_before, before = foreign.state(), inventory()
    state = project.root / ".trainstack/cluster"
    try:
        up(project, built)
        record = json.loads(Layout.of(state).driver.read_text())
        assert_running(project, f"{record['name']}-control-plane")
        assert len(inventory()["containers"] - before["containers"]) == 2

        objects = all_objects(project)
        done = run(project, "up", "-s", "dev", "--yes", seconds=1500)
        (result,) = (project.root / "results").iterdir()
        assert f"{result.name}\n  test accuracy  0.9" in done.out
        claim = project.get("pvc", "training", "research")
        assert claim["spec"]["accessModes"] == claim["status"]["accessModes"] == ["ReadWriteMany"]
        assert claim["status"]["phase"] == "Bound"

        restart(project, record["name"])
        assert re.search(rf"(?m)^{result.name} +TrainJob +succeeded ", run(project, "status", "-s", "dev").out)
        assert_record(project, result.name)
        assert project.get("pvc", "training", "research") == claim

        retained = json.loads(project.pulumi("stack", "output", "--json").out)["retained"]
        run(project, "destroy", "-s", "dev", "--yes", seconds=900)
        # `destroy` without --keep-platform deletes the operators' definitions.
        assert_only_retained(
            project, objects, [name for name in retained if not name.startswith("CustomResourceDefinition")]
        )
    finally:
        run(project, "cluster", "down", "--wipe", seconds=300)
    assert inventory() == before
    assert not state.exists()
    assert foreign.state() == foreign_before
    foreign.remove()


def assert_running(project: Project, container: str) -> None:
    """Assert that the cluster's only node is this container, and that it is ready."""
    status = json.loads(run(project, "cluster", "status", "--json").out)
    assert status["ready"]
    (node,) = project.get("nodes")["items"]
    assert node["metadata"]["name"] == container
    assert {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}["Ready"] == "True"
    assert podman("container", "inspect", "--format", "{{.State.Status}}", container) == "running"


def restart(project: Project, cluster: str) -> None:
    """Stop the containers, and start the same ones again; `up` needs none of the first start's options."""
    names = (f"{cluster}-control-plane", f"{cluster}-registry")
    node = podman("container", "inspect", "--format", "{{.Id}}", names[0])
    run(project, "cluster", "down", seconds=300)
    assert all(podman("container", "inspect", "--format", "{{.State.Running}}", name) == "false" for name in names)
    run(project, "cluster", "up", seconds=600)
    assert_running(project, names[0])
    assert podman("container", "inspect", "--format", "{{.Id}}", names[0]) == node
    # `up` does not wait until the operators' webhooks have restarted.
    words = ["status", "-s", project.stack]
    eventually("status responds", lambda: project.run(words, trainstack=True).code == 0, 240, every=2)


def assert_record(project: Project, name: str) -> None:
    """Fetch the record from the volume through another pod than the run's, and check the verified files."""
    folder = project.root / "fetched"
    done = run(project, "fetch", "-s", "dev", name, "--to", str(folder), seconds=300)
    assert " fetched, all verified" in done.text
    fetched = json.loads((folder / "run.json").read_text())
    assert (fetched["state"], fetched["attempts"]) == ("succeeded", 1)
