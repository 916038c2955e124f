"""`check`, `up` and `image push` with a registry that requires a password and TLS, from which the cluster pulls."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.lab import NAMESPACE, await_end, launches, ledgers, team_config, uid, uids, unmanaged_run
from tests.cluster.project import Project
from tests.cluster.registries import (
    PASSWORD,
    USER,
    buildah_login,
    log_in,
    make_access,
    pulled_by_nodes,
    running_private_registry,
    write_dockerfile,
)
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.registry_access import RegistryAccess

pytestmark = pytest.mark.cluster


@pytest.fixture
def person(
    lab: Project, cluster: LocalCluster, tmp_path: Path, buildah: None
) -> Iterator[tuple[Project, RegistryAccess]]:
    """Yield a team with a pull secret for its own registry, which is not running yet, and the registry's access.

    The kubeconfig is a copy in another folder, so the commands do not recognize the local cluster.
    """
    access = make_access(tmp_path, cluster.host_ip)
    kubeconfig = Path(shutil.copy(cluster.kubeconfig, tmp_path / "kubeconfig"))
    image = {"name": f"{access.address}/lab/hello:1"}
    run = unmanaged_run(
        "hello", image=image, imagePullSecrets=["hello-registry"], command=["/bin/sh", "-c", "echo trained"]
    )
    # Without Internet access, only the nodes reach the loader's registry.
    known = {"rule": "registry-unreachable", "path": "cluster.loader.image", "reason": "The nodes have a mirror."}
    config = {**team_config(lab.stack, run), "trainstack:checks": {"silenced": [known]}}
    lab.write_stack("registry", config)
    (lab.root / "workloads" / "hello").mkdir()
    write_dockerfile(lab.root / "workloads" / "hello")
    words = (f"--docker-server={access.address}", f"--docker-username={USER}", f"--docker-password={PASSWORD}")
    done = lab.kubectl("create", "secret", "docker-registry", "hello-registry", "-n", NAMESPACE, *words)
    assert done.code == 0, done.text
    project = lab.environment("registry", kubeconfig)
    try:
        with pulled_by_nodes(cluster, access):
            yield project, access
    finally:
        project.take_down()
        shutil.rmtree(lab.root / "workloads" / "hello")
        assert lab.kubectl("delete", "secret", "hello-registry", "-n", NAMESPACE).code == 0


def test_up_prints_the_command_for_a_missing_image(person: tuple[Project, RegistryAccess], tmp_path: Path) -> None:
    """Nothing is launched without the image.

    The printed command builds and pushes it; then the nodes pull it, and the run trains.
    """
    project, access = person
    reference = f"{access.address}/lab/hello:1"
    unknown = f"whether the registry has {reference} is unknown: {reference}: "
    with running_private_registry(tmp_path, access):
        log_in(tmp_path, access.address, "wrong")
        done = project.trainstack("check", "--cluster")
        assert f"{unknown}{access.address} denies access to ann, or has no such image; log in with" in done.out
        assert "0 errors" in done.err
        buildah_login(access.address)

        command = assert_refused_for_missing_image(project, reference)
        done = project.run(
            ["/bin/sh", "-c", command], environment={"PATH": f"{project.root}/.venv/bin:/bin-of-nothing"}
        )
        assert done.code != 0
        assert "no program that builds images is installed: install buildah, podman or docker" in done.text
        assert not (tmp_path / "blobs").exists()

        done = project.run(["/bin/sh", "-c", command])
        assert done.code == 0, done.text
        assert done.out.startswith(f"{reference}@sha256:")
        done = project.trainstack("up", "--yes", "--no-wait")
        assert done.code == 0, done.text
        hello = await_end(project, "hello", "Complete")

    # The registry is down. A run that was launched no longer needs its image.
    done = project.trainstack("up", "--yes", "--no-wait")
    assert done.code == 0, done.text
    assert f"{unknown}{access.address} does not respond" in done.err
    assert uids(project) == {hello["metadata"]["name"]: uid(hello)}
    done = project.run(["/bin/sh", "-c", command])
    assert (done.code, done.out) == (1, "")
    assert f"{access.address} does not respond; check the name and the network" in done.err


def assert_refused_for_missing_image(project: Project, reference: str) -> str:
    """Assert that `up` and `check --cluster` print the same command and create nothing, and return the command."""
    found: set[str] = set()
    for words, code in ((("check", "--cluster"), 4), (("up", "--yes", "--no-wait"), 3)):
        done = project.trainstack(*words)
        assert done.code == code, done.text
        assert re.search(
            r"error +\[image-missing\] Pulumi\.registry\.yaml:\d+: workloads\.runs\[hello\]\.image", done.text
        )
        assert f"the registry does not have {reference}" in done.text
        found.update(re.findall("run `([^`]+)`", done.text))
    assert (launches(project), ledgers(project), project.get("pvc", "lab", NAMESPACE)) == ([], {}, {})
    assert "resources" not in json.loads(project.pulumi("stack", "export").out)["deployment"]
    (command,) = found
    assert command == "trainstack image push hello -s registry"
    return command
