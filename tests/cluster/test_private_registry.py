"""A registry with a password and TLS: what `trainstack image` and `pin` make of it, with the real buildah."""

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.app import app
from cli.image_builds import OWN_BASE
from cli.image_tools import ImageTool
from devcluster.images import Recipe, Storage, ensure_built, helpers
from devcluster.registry_access import SERVER
from tests.cluster.project import ROOT
from tests.cluster.registries import make_access, served

pytestmark = pytest.mark.cluster

USER, PASSWORD = "ann", "secret"
HTPASSWD = "ann:$2b$04$/UJ4QkIk.dF6WpOAlXC1BuOZbbYsbKTYd9E5J/9N9o9kibojQTR96\n"
"""Of PASSWORD, by bcrypt."""
TRAINING, MODEL_IMAGE = "traindb-training-mnist", "joleedocker/traindb-training-mnist:1.0"
"""The run of the database's training service, and its image as the service publishes it."""


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buildah as a user has it, whose files are the test's own."""
    (tmp_path / "auth.json").write_text("{}")
    settings = tmp_path / "storage.conf"
    graph, run = tmp_path / "graph", tmp_path / "run"
    settings.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{graph}"\nrunroot = "{run}"\n')
    for variable in ("DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(settings))
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))


@pytest.fixture
def guarded(tmp_path: Path, buildah: None) -> Iterator[str]:
    """A registry with a password, whose authority the user has put where buildah looks for it; its address."""
    access = make_access(tmp_path)
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    trusted = tmp_path / "home" / ".config" / "containers" / "certs.d" / access.address
    trusted.mkdir(parents=True)
    shutil.copy(access.authority, trusted / "ca.crt")
    pair = {"certificate": f"{access.certs}/{SERVER}.crt", "key": f"{access.certs}/{SERVER}.key"}
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "blobs")}},
        "http": {"addr": access.address, "tls": pair},
        "auth": {"htpasswd": {"realm": "lab", "path": str(tmp_path / "htpasswd")}},
    }
    with served(tmp_path, access, yaml.safe_dump(settings)):
        yield access.address


def make_project(folder: Path, registry: str) -> Path:
    """The committed environment of the training service, of images in this registry, with the user's Dockerfile."""
    (folder / "workloads" / TRAINING).mkdir(parents=True)
    for name in ("Pulumi.yaml", "defaults.yaml"):
        shutil.copy(ROOT / name, folder)
    (folder / "workloads" / "wrapper").symlink_to(ROOT / "workloads" / "wrapper")
    text = (ROOT / "Pulumi.traindb.yaml").read_text()
    assert text.count(MODEL_IMAGE) == 2
    text = text.replace(MODEL_IMAGE, f"{registry}/{MODEL_IMAGE}")
    loader = f"  trainstack:cluster: {{registry: '{registry}', loader: {{image: '{registry}/{MODEL_IMAGE}'}}}}\n"
    content = {"name": "content", "kind": "Job", "namespace": "kubeflow", "managed": False}
    content["image"] = {"build": "workloads/content"}
    (folder / "Pulumi.traindb.yaml").write_text(
        text.replace("config:\n", f"config:\n{loader}") + f"      - {json.dumps(content)}\n"
    )
    for name in (TRAINING, "content"):
        (folder / "workloads" / name).mkdir(exist_ok=True)
        write_dockerfile(folder / "workloads" / name)
    return folder


def write_dockerfile(folder: Path) -> None:
    """An image of busybox, in which one command is run."""
    (program,) = helpers()[0].programs.values()
    shutil.copy(program, folder / "busybox")
    (folder / "Dockerfile").write_text('FROM scratch\nCOPY busybox /bin/sh\nRUN ["/bin/sh", "-c", ": > /made"]\n')


def trainstack(*words: str) -> Result:
    """Run a command for the environment."""
    return CliRunner().invoke(app, [*words, "-s", "traindb"])


def listed() -> Mapping[str, dict[str, Any]]:
    """What `image list` has, by the first workload."""
    done = trainstack("image", "list", "--json")
    assert done.exit_code == 0, done.stderr
    return {line["workloads"][0]: line for line in json.loads(done.stdout)}


def log_in(tmp_path: Path, registry: str, password: str) -> None:
    """Write the user's credentials as `buildah login` does, which would refuse wrong ones."""
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {registry: {"auth": auth}}}))


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
    assert f"{guarded} refused the credentials, or there are none for it; run `buildah login {guarded}`" in done.stderr
    assert "unauthorized: authentication required" in done.stderr
    before = listed()[TRAINING]
    assert (before["built"], before["registry"]) == (True, "unknown")
    assert f"{guarded} does not let ann read it" in before["problem"]

    login = ["buildah", "login", "--username", USER, "--password-stdin", guarded]
    subprocess.run(login, input=PASSWORD, text=True, check=True, capture_output=True)
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
    assert f"put that one's into /etc/containers/certs.d/{guarded}/ca.crt" in done.stderr
    assert "certificate verify failed" in listed()[TRAINING]["problem"]


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
