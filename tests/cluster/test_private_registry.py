"""A registry with a password and TLS: what `trainstack image`, `pin`, `check` and `up` make of it, with buildah."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.cluster.lab import NAMESPACE, await_end, bare, launches, ledgers, team_config, uid, uids
from tests.cluster.project import ROOT, Project
from tests.cluster.registries import (
    PASSWORD,
    USER,
    buildah_variables,
    log_in,
    make_access,
    served_with_password,
    trusted_by_nodes,
    write_dockerfile,
)
from trainstack.cli.app import app
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.images import Recipe, Storage, ensure_built
from trainstack.dev.cluster.registry_access import RegistryAccess
from trainstack.dev.image_builds import OWN_BASE
from trainstack.dev.image_tools import ImageTool

pytestmark = pytest.mark.cluster

TRAINING, MODEL_IMAGE = "traindb-training-mnist", "joleedocker/traindb-training-mnist:1.0"
"""The run of the database's training service, and its image as the service publishes it."""


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buildah as a user has it, whose files are the test's own."""
    (tmp_path / "auth.json").write_text("{}")
    for variable in ("DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in buildah_variables(tmp_path).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))


@pytest.fixture
def guarded(tmp_path: Path, buildah: None) -> Iterator[str]:
    """A registry with a password, whose authority the user has put where buildah looks for it; its address."""
    access = make_access(tmp_path)
    with served_with_password(tmp_path, access):
        yield access.address


def make_project(folder: Path, registry: str) -> Path:
    """The committed environment of the training service, of images in this registry, with the user's Dockerfile."""
    (folder / "workloads" / TRAINING).mkdir(parents=True)
    for name in ("Pulumi.yaml", "defaults.yaml"):
        shutil.copy(ROOT / name, folder)
    (folder / "trainstack" / "runs").mkdir(parents=True)
    (folder / "trainstack" / "runs" / "wrapper").symlink_to(ROOT / "trainstack" / "runs" / "wrapper")
    text = (ROOT / "Pulumi.traindb.yaml").read_text()
    assert text.count(MODEL_IMAGE) == 2
    text = text.replace(MODEL_IMAGE, f"{registry}/{MODEL_IMAGE}")
    local = "  trainstack:cluster:\n    local: true\n"
    assert text.count(local) == 1
    loader = f"  trainstack:cluster: {{registry: '{registry}', loader: {{image: '{registry}/{MODEL_IMAGE}'}}}}\n"
    content = {"name": "content", "kind": "Job", "namespace": "kubeflow", "managed": False}
    content["image"] = {"build": "workloads/content"}
    (folder / "Pulumi.traindb.yaml").write_text(text.replace(local, loader) + f"      - {json.dumps(content)}\n")
    for name in (TRAINING, "content"):
        (folder / "workloads" / name).mkdir(exist_ok=True)
        write_dockerfile(folder / "workloads" / name)
    return folder


def trainstack(*words: str) -> Result:
    """Run a command for the environment."""
    return CliRunner().invoke(app, [*words, "-s", "traindb"])


def listed() -> Mapping[str, dict[str, Any]]:
    """What `image list` has, by the first workload."""
    done = trainstack("image", "list", "--json")
    assert done.exit_code == 0, done.stderr
    return {line["workloads"][0]: line for line in json.loads(done.stdout)}


def buildah_login(registry: str) -> None:
    """Log in as the user does."""
    login = ["buildah", "login", "--username", USER, "--password-stdin", registry]
    subprocess.run(login, input=PASSWORD, text=True, check=True, capture_output=True)


def test_a_users_image_is_built_pushed_listed_and_pinned(
    tmp_path: Path, guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a registry with a password and TLS, by what `buildah login` left; the digest is the same to everybody."""
    project = make_project(tmp_path / "project", guarded)
    monkeypatch.chdir(project)
    reference = f"{guarded}/{MODEL_IMAGE}"
    log_in(tmp_path, guarded, "wrong")
    done = trainstack("image", "push", TRAINING)
    assert done.exit_code == 1
    assert (
        f"{guarded} rejected the credentials, or none are stored for it; run `buildah login {guarded}`" in done.stderr
    )
    assert "unauthorized: authentication required" in done.stderr
    before = listed()[TRAINING]
    assert (before["built"], before["registry"]) == (True, "unknown")
    assert f"{guarded} denies access to ann" in before["problem"]

    buildah_login(guarded)
    assert {line["registry"] for line in listed().values()} == {"missing"}
    done = trainstack("image", "push")
    assert done.exit_code == 0, done.stderr
    digests = dict(line.split("@") for line in done.stdout.splitlines())
    after = listed()
    assert {line["image"]: line["digest"] for line in after.values()} == digests
    image = after[TRAINING]
    assert image["workloads"] == [TRAINING, "traindb-recorded"]
    assert (image["image"], image["platforms"]) == (reference, ["linux/amd64"])
    assert image["sizeBytes"] > 100_000
    assert after["content"]["image"].startswith(f"{guarded}/trainstack/content:")
    done = trainstack("pin")
    assert done.exit_code == 0, done.stderr
    assert yaml.safe_load((project / "pins" / "traindb.yaml").read_text()) == digests


def test_an_unknown_authority_is_explained(tmp_path: Path, guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the place where its certificate has to be."""
    monkeypatch.chdir(make_project(tmp_path / "project", guarded))
    log_in(tmp_path, guarded, PASSWORD)
    shutil.rmtree(tmp_path / "home")
    done = trainstack("image", "push", TRAINING)
    assert done.exit_code == 1
    assert f"copy the authority's certificate to /etc/containers/certs.d/{guarded}/ca.crt" in done.stderr
    assert "certificate verify failed" in listed()[TRAINING]["problem"]


@pytest.fixture
def person(lab: Project, cluster: Cluster, tmp_path: Path, buildah: None) -> Iterator[tuple[Project, RegistryAccess]]:
    """A team whose nodes pull from a registry of its own, which is not served yet, with the team's pull secret.

    The kubeconfig is elsewhere than the local cluster's, so that this is any cluster.
    """
    access = make_access(tmp_path, cluster.host_ip)
    kubeconfig = Path(shutil.copy(cluster.kubeconfig, tmp_path / "kubeconfig"))
    image = {"name": f"{access.address}/lab/hello:1"}
    run = bare("hello", image=image, imagePullSecrets=["hello-registry"], command=["/bin/sh", "-c", "echo trained"])
    # Without the Internet, only the nodes have the loader's registry.
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
        with trusted_by_nodes(cluster, access):
            yield project, access
    finally:
        project.take_down()
        shutil.rmtree(lab.root / "workloads" / "hello")
        assert lab.kubectl("delete", "secret", "hello-registry", "-n", NAMESPACE).code == 0


def test_up_names_the_command_for_an_image_that_is_missing(
    person: tuple[Project, RegistryAccess], tmp_path: Path
) -> None:
    """Nothing is launched before; the command, copied, builds and pushes; then the nodes pull it and the run trains."""
    project, access = person
    reference = f"{access.address}/lab/hello:1"
    unknown = f"workloads.runs[hello].image: whether the registry has {reference} is unknown: {reference}: "
    with served_with_password(tmp_path, access):
        log_in(tmp_path, access.address, "wrong")
        done = project.trainstack("check", "--cluster")
        assert f"{unknown}{access.address} denies access to ann, or has no such image; log in with" in done.out
        assert "0 errors" in done.err
        buildah_login(access.address)

        command = refused_for_the_image(project, reference)
        done = project.run(
            ["/bin/sh", "-c", command], environment={"PATH": f"{project.root}/.venv/bin:/bin-of-nothing"}
        )
        assert done.code != 0
        assert "no program that builds images is installed: install buildah, podman or docker" in done.text
        assert not (tmp_path / "blobs").exists()

        done = project.run(["/bin/sh", "-c", command])
        assert done.code == 0, done.text
        assert done.out.startswith(f"{reference}@sha256:")
        done = project.trainstack("up", "--no-wait")
        assert done.code == 0, done.text
        hello = await_end(project, "hello", "Complete")

    # The registry is away. A run that was launched needs its image no more.
    done = project.trainstack("up", "--no-wait")
    assert done.code == 0, done.text
    assert f"{unknown}{access.address} does not respond" in done.err
    assert uids(project) == {hello["metadata"]["name"]: uid(hello)}
    done = project.run(["/bin/sh", "-c", command])
    assert (done.code, done.out) == (1, "")
    assert f"{access.address} does not respond; check the name and the network" in done.err


def refused_for_the_image(project: Project, reference: str) -> str:
    """The command that `up` and `check --cluster` both print; neither has made anything."""
    refusal = f"workloads.runs[hello].image: the registry does not have {reference}; run `"
    found = set()
    for words in (("check", "--cluster"), ("up", "--no-wait")):
        done = project.trainstack(*words)
        assert done.code == 1, done.text
        assert "error [image-missing] Pulumi.registry.yaml:" in done.text
        assert refusal in done.text
        found.add(done.text.partition(refusal)[2].partition("`")[0])
    assert (launches(project), ledgers(project), project.get("pvc", "lab", NAMESPACE)) == ([], {}, {})
    assert "resources" not in json.loads(project.pulumi("stack", "export").out)["deployment"]
    (command,) = found
    assert command == "trainstack image push hello -s registry"
    return command


def test_buildah_builds_on_the_base_of_the_projects_layout(tmp_path: Path, buildah: None) -> None:
    """The base is in no registry, and none is asked for it."""
    storage = Storage(tmp_path / "images")
    (tmp_path / "base").mkdir()
    write_dockerfile(tmp_path / "base")
    (base,) = ensure_built([Recipe("base", tmp_path / "base")], print, storage)
    tool = ImageTool("buildah")
    assert not tool.has(base)
    tool.load(storage.layout, base)
    assert tool.has(base)
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nCOPY Dockerfile /\n")
    tool.build("r.example.org/lab/on-base:1", tmp_path / "context", {"BASE": base}, *OWN_BASE)
    assert tool.has("r.example.org/lab/on-base:1")
