"""`trainstack pin`: the pins that it writes, the cases in which it writes nothing, and its output."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.cli.commands import pin as command
from trainstack.live.registry_errors import RegistryError
from trainstack.settings.loading.load import load

ENVIRONMENT = """\
config:
  trainstack:environment:
    pinned: true
    namespaces: [{name: lab}]
  trainstack:storage:
    classes: [{name: shared, provisioner: example.org/nfs}]
    volumes: [{name: data, namespace: lab, storageClass: shared, size: 1Gi, accessModes: [ReadWriteMany]}]
  trainstack:workloads:
    runs:
      - name: hello
        kind: Job
        namespace: lab
        managed: false
        image: {name: "example.org/hello:1"}
        volumes: [{volume: data, mountPath: /data}]
      - name: fixed
        kind: Job
        namespace: lab
        managed: false
        image: {name: "example.org/fixed@sha256:%s"}
""" % ("f" * 64)
FILE = "pins/lab.yaml"


def digest(digit: str) -> str:
    """Return a digest."""
    return f"sha256:{digit * 64}"


class Served:
    """Registries that serve these images."""

    def __init__(self) -> None:
        self.images = {"busybox:1.35": digest("b"), "example.org/hello:1": digest("1")}

    def digest(self, reference: str) -> str:
        """Return the digest of the tag."""
        if reference not in self.images:
            raise RegistryError(f"{reference}: example.org has no such image; push it")
        return self.images[reference]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with an environment to be pinned, and make it the current folder."""
    (tmp_path / "Pulumi.yaml").touch()
    (tmp_path / "Pulumi.lab.yaml").write_text(ENVIRONMENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return tmp_path


@pytest.fixture
def served(root: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """Provide the registries that the command reads."""
    registries = Served()
    monkeypatch.setattr(command, "_registries", lambda _: registries)
    return registries


def pin(*words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["pin", *words, "-s", "lab"], env={"COLUMNS": "200"})


def test_pins_are_written_for_every_image_that_has_no_digest(root: Path, served: Served) -> None:
    """The environment with the pins is valid."""
    assert CliRunner().invoke(app, ["check", "-s", "lab"]).exit_code == 4
    result = pin()
    assert result.exit_code == 0, result.output
    head, *lines = (root / FILE).read_text().splitlines()
    assert head.startswith("# The digests of images")
    assert lines == [f"busybox:1.35: {digest('b')}", f"example.org/hello:1: {digest('1')}"]
    settings = load(root, "lab")
    assert settings.pins == served.images
    assert settings.pinned_reference("example.org/hello:1") == f"example.org/hello:1@{digest('1')}"
    assert CliRunner().invoke(app, ["check", "-s", "lab"]).exit_code == 0


def test_unchanged_pins_are_not_written_again(root: Path, served: Served) -> None:
    """The file is not replaced."""
    pin()
    before = (root / FILE).stat()
    result = pin()
    assert (result.exit_code, (root / FILE).stat().st_ino) == (0, before.st_ino)
    assert "2 kept" in result.output
    assert pin("--check").exit_code == 0


def test_a_tag_that_moved_is_reported(root: Path, served: Served) -> None:
    """`--check` fails and writes nothing; without it the new digest is pinned, and unused pins are removed."""
    pin()
    (root / FILE).write_text((root / FILE).read_text() + f"old:1: {digest('0')}\n")
    before = (root / FILE).read_bytes()
    served.images["example.org/hello:1"] = digest("2")
    result = pin("--check")
    assert result.exit_code == 4
    assert f"moved   example.org/hello:1  {digest('2')} (was {digest('1')})" in result.output
    assert f"{FILE}: 1 moved, 1 unused; run `trainstack pin -s lab`" in result.output
    assert (root / FILE).read_bytes() == before
    assert pin().exit_code == 0
    assert load(root, "lab").pins == served.images


def test_missing_pins_fail_the_check(root: Path, served: Served) -> None:
    """The error names the command that pins them."""
    result = pin("--check")
    assert result.exit_code == 4
    assert f"{FILE}: 2 new; run `trainstack pin -s lab`" in result.output
    assert not (root / "pins").exists()


def test_one_image_without_an_answer_and_nothing_is_written(root: Path, served: Served) -> None:
    """The error lists all such images, each with its setting."""
    served.images.clear()
    result = pin()
    assert result.exit_code == 1
    assert "cluster.loader.image: busybox:1.35: example.org has no such image" in result.output
    assert "workloads.runs[hello].image.name: example.org/hello:1" in result.output
    assert not (root / "pins").exists()


def test_another_fault_of_the_environment_is_reported_first(root: Path, served: Served) -> None:
    """The images of an environment are known only when its files are valid."""
    file = root / "Pulumi.lab.yaml"
    file.write_text(file.read_text().replace("volume: data", "volume: dta"))
    result = pin()
    assert result.exit_code == 1
    assert "[volume-unknown]" in result.output
    assert "image-unpinned" not in result.output


def test_the_result_for_programs(root: Path, served: Served) -> None:
    """The JSON has each image with its digest, its former digest and the outcome."""
    result = pin("--json")
    assert json.loads(result.stdout) == {
        "file": FILE,
        "changed": True,
        "pins": [
            {"image": "busybox:1.35", "digest": digest("b"), "was": None, "state": "new"},
            {"image": "example.org/hello:1", "digest": digest("1"), "was": None, "state": "new"},
        ],
        "code": [],
    }


def test_a_damaged_pin_is_reported_with_its_line(root: Path, served: Served) -> None:
    """The error is that of any value of an environment."""
    pin()
    (root / FILE).write_text("a:1: sha256:12\n")
    result = pin()
    assert result.exit_code == 1
    assert f'{FILE}:1: pins["a:1"]: has an invalid format (value "sha256:12"); remove the line' in result.output


def test_without_a_cluster_the_local_one_is_to_be_started(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local cluster's registry serves the images of its environment."""
    monkeypatch.delenv("KUBECONFIG")
    (root / "Pulumi.lab.yaml").write_text(f"{ENVIRONMENT}  trainstack:cluster: {{local: true}}\n")
    result = pin()
    assert result.exit_code == 5
    assert "run `trainstack cluster up`" in result.output
