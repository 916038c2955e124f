"""`trainstack image` and `pin` with a real buildah and a registry with a password and TLS, without a cluster."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.cluster.project import ROOT
from tests.cluster.registries import (
    PASSWORD,
    buildah_login,
    log_in,
    make_access,
    running_private_registry,
    write_dockerfile,
)
from tests.copies import copy_into
from trainstack.cli.app import app
from trainstack.images.builds import PROJECT_BASE_OPTIONS
from trainstack.images.tools import ImageTool
from trainstack.local_cluster.images import ImageStorage, Recipe, ensure_built

pytestmark = pytest.mark.cluster

TRAINING, MODEL_IMAGE = "traindb-training-mnist", "joleedocker/traindb-training-mnist:1.0"
"""The run of the database's training service, and the image that the service publishes."""


@pytest.fixture
def registry(tmp_path: Path, buildah: None) -> Iterator[str]:
    """Start a registry with a password and with an authority that buildah trusts; yields its address."""
    access = make_access(tmp_path)
    with running_private_registry(tmp_path, access):
        yield access.address


def make_project(folder: Path, registry: str) -> Path:
    """Write the training service's environment with images in this registry and the user's Dockerfiles."""
    (folder / "workloads" / TRAINING).mkdir(parents=True)
    copy_into(folder, "Pulumi.yaml", "defaults.yaml")
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
    """Run a command for the environment `traindb`."""
    return CliRunner().invoke(app, [*words, "-s", "traindb"])


def images_by_workload() -> Mapping[str, dict[str, Any]]:
    """Return the entries of `image list`, by their first workload."""
    done = trainstack("image", "list", "--json")
    assert done.exit_code == 0, done.stderr
    return {line["workloads"][0]: line for line in json.loads(done.stdout)}


def test_a_users_image_is_built_pushed_listed_and_pinned(
    tmp_path: Path, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credentials for the registry are those of `buildah login`; push, list and pin give the same digest."""
    project = make_project(tmp_path / "project", registry)
    monkeypatch.chdir(project)
    reference = f"{registry}/{MODEL_IMAGE}"
    log_in(tmp_path, registry, "wrong")
    done = trainstack("image", "push", TRAINING)
    assert done.exit_code == 1
    assert (
        f"{registry} rejected the credentials, or none are stored for it; run `buildah login {registry}`" in done.stderr
    )
    assert "unauthorized: authentication required" in done.stderr
    before = images_by_workload()[TRAINING]
    assert (before["built"], before["registry"]) == (True, "unknown")
    assert f"{registry} denies access to ann" in before["problem"]

    buildah_login(registry)
    assert {line["registry"] for line in images_by_workload().values()} == {"missing"}
    done = trainstack("image", "push")
    assert done.exit_code == 0, done.stderr
    digests = dict(line.split("@") for line in done.stdout.splitlines())
    after = images_by_workload()
    assert {line["image"]: line["digest"] for line in after.values()} == digests
    image = after[TRAINING]
    assert image["workloads"] == [TRAINING, "traindb-recorded"]
    assert (image["image"], image["platforms"]) == (reference, ["linux/amd64"])
    assert image["sizeBytes"] > 100_000
    assert after["content"]["image"].startswith(f"{registry}/trainstack/content:")
    done = trainstack("pin")
    assert done.exit_code == 0, done.stderr
    assert yaml.safe_load((project / "pins" / "traindb.yaml").read_text()) == digests


def test_the_error_of_an_unknown_authority_has_the_remedy(
    tmp_path: Path, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the path of the authority's certificate."""
    monkeypatch.chdir(make_project(tmp_path / "project", registry))
    log_in(tmp_path, registry, PASSWORD)
    shutil.rmtree(tmp_path / "home")
    done = trainstack("image", "push", TRAINING)
    assert done.exit_code == 1
    assert f"copy the authority's certificate to /etc/containers/certs.d/{registry}/ca.crt" in done.stderr
    assert "certificate verify failed" in images_by_workload()[TRAINING]["problem"]


def test_buildah_builds_on_a_base_from_the_projects_layout(tmp_path: Path, buildah: None) -> None:
    """No registry has the base, and none is asked for it."""
    storage = ImageStorage(tmp_path / "images")
    (tmp_path / "base").mkdir()
    write_dockerfile(tmp_path / "base")
    (base,) = ensure_built([Recipe("base", tmp_path / "base")], print, storage)
    tool = ImageTool("buildah")
    assert not tool.has_image(base)
    tool.load(storage.layout, base)
    assert tool.has_image(base)
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nCOPY Dockerfile /\n")
    tool.build("r.example.org/lab/on-base:1", tmp_path / "context", {"BASE": base}, *PROJECT_BASE_OPTIONS)
    assert tool.has_image("r.example.org/lab/on-base:1")
