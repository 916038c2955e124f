"""`trainstack adopt`: the files that it writes, and the cases in which it writes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.cli.commands import adopt
from trainstack.onboarding.adopt.namespace_objects import InstalledOperator, NamespaceObjects
from trainstack.settings.loading.load import load

LAB = """\
config:
  # The lab's own.
  trainstack:storage:
    volumes:
      - {name: old, namespace: default, storageClass: fast, size: 1Gi, accessModes: [ReadWriteOnce]}
    # Before the classes.
    classes:
      - {name: fast, provisioner: csi.example.org}
encryptionsalt: v1:abc:=
"""
SPEC = {
    "accessModes": ["ReadWriteMany"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "fast",
    "volumeMode": "Filesystem",
}


def make_claim(name: str, **spec: Any) -> dict[str, Any]:
    """Return a live claim."""
    metadata = {"name": name, "namespace": "vision"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**SPEC, **spec}}


def make_priority(name: str) -> dict[str, Any]:
    """Return a live priority class."""
    kind = "WorkloadPriorityClass"
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "value": 7}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with an environment and shared priorities, and make it the current folder."""
    (tmp_path / "Pulumi.yaml").touch()
    (tmp_path / "Pulumi.lab.yaml").write_text(LAB)
    (tmp_path / "defaults.yaml").write_text("queues: {priorityClasses: [{name: low, value: 1, description: x}]}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, found: NamespaceObjects | None, *words: str) -> Result:
    """Run the command on a cluster that holds these objects."""
    monkeypatch.setattr(adopt, "read_namespace_objects", lambda *_, **__: found)
    return CliRunner().invoke(app, ["adopt", "vision", *words], env={"COLUMNS": "200"})


def test_an_environment_that_is_there_is_added_to(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments keep their place; the class of the claim is declared already."""
    result = run(monkeypatch, NamespaceObjects(namespace="vision", claims=(make_claim("data"),)), "-s", "lab")
    assert result.exit_code == 0, result.output
    text = (root / "Pulumi.lab.yaml").read_text()
    assert [line for line in text.splitlines() if line in LAB.splitlines()] == LAB.splitlines()
    old, new = load(root, "lab").storage.volumes
    assert (old.adopt, new.adopt, new.name, new.storage_class) == (False, True, "data", "fast")
    assert load(root, "lab").environment.existing.namespaces == ("vision",)
    result = run(monkeypatch, NamespaceObjects(namespace="vision", claims=(make_claim("data"),)), "-s", "lab")
    assert "not adopted: PersistentVolumeClaim vision/data: is declared by lab already" in result.output
    assert (root / "Pulumi.lab.yaml").read_text() == text


def test_an_environment_that_is_not_there_is_made(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment omits the priorities of defaults.yaml; operators are listed without a source to install."""
    kueue = InstalledOperator(name="Kueue", namespace="kueue-system", version="v0.15.2")
    result = run(
        monkeypatch, NamespaceObjects(namespace="vision", claims=(make_claim("data"),), operators=(kueue,)), "-s", "new"
    )
    assert result.exit_code == 0, result.output
    environment_settings = load(root, "new")
    assert (environment_settings.queues.priority_classes, environment_settings.operators.kueue) == ((), None)
    assert environment_settings.environment.existing.storage_classes == ("fast",)
    assert "# Kueue v0.15.2 in namespace kueue-system\n  trainstack:operators: {}\n" in (
        (root / "Pulumi.new.yaml").read_text()
    )


@pytest.mark.parametrize(("stack", "creates"), [("new", True), ("lab", False)])
def test_the_stack_of_a_new_environment_is_created_by_its_user(
    root: Path, monkeypatch: pytest.MonkeyPatch, stack: str, *, creates: bool
) -> None:
    """A new environment is not embedded, so `pulumi preview` needs a login and its stack; an existing one has both."""
    result = run(monkeypatch, NamespaceObjects(namespace="vision", claims=(make_claim("data"),)), "-s", stack)
    steps = [line.strip() for line in result.stderr.partition("Next:\n")[2].splitlines()]
    creation = ["pulumi login (unless you are logged in)", f"pulumi stack init {stack}"] if creates else []
    assert steps == [
        f"git diff, and git add Pulumi.{stack}.yaml",
        f"trainstack check -s {stack}",
        *creation,
        f"pulumi preview -s {stack} (creates are adoptions; there must be no replacement or deletion)",
        f"pulumi up -s {stack}",
        f"pulumi preview -s {stack} --refresh --expect-no-changes",
    ]
    checked = CliRunner().invoke(app, ["check", "-s", stack])
    assert checked.exit_code == 0, checked.output


@pytest.mark.parametrize(("profile", "cluster_wide"), [("tenant", False), ("owner", True)])
def test_a_tenant_reads_its_namespace_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch, profile: str, *, cluster_wide: bool
) -> None:
    """A tenant has no rights outside its namespace, and adopts no object outside it."""
    environment = f"trainstack:environment: {{profile: {profile}, layers: [training]}}"
    queues = "trainstack:queues: {priorityClasses: null}"
    (root / "Pulumi.lab.yaml").write_text(f"config:\n  {environment}\n  {queues}\n")
    requested: list[bool] = []

    def read(namespace: str, _: str | None, *, cluster_wide: bool) -> NamespaceObjects:
        requested.append(cluster_wide)
        return NamespaceObjects(namespace=namespace, claims=(make_claim("data"),), foreign_claims=None)

    monkeypatch.setattr(adopt, "read_namespace_objects", read)
    result = CliRunner().invoke(app, ["adopt", "vision", "-s", "lab"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "adopted: PersistentVolumeClaim vision/data" in result.output
    assert requested == [cluster_wide]


def test_a_shared_priority_that_is_live_is_taken_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry has the live value, and no description because the live object has none."""
    found = NamespaceObjects(namespace="vision", priority_classes=(make_priority("low"),))
    assert run(monkeypatch, found, "-s", "lab").exit_code == 0
    (low,) = load(root, "lab").queues.priority_classes
    assert (low.value, low.description, low.adopt) == (7, "", True)


def test_a_dry_run_reports_all_and_writes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON lists what is adopted, and what is not with the reason."""
    claims = (make_claim("data"), make_claim("odd", volumeMode="Block"))
    result = run(monkeypatch, NamespaceObjects(namespace="vision", claims=claims), "-s", "lab", "--dry-run", "--json")
    output = json.loads(result.stdout)
    assert output["taken"] == ["PersistentVolumeClaim vision/data"]
    assert output["left"] == {
        "PersistentVolumeClaim vision/odd": "cannot be expressed in the settings: spec.volumeMode"
    }
    assert output["written"] == []
    added = [line for line in output["diff"].splitlines() if line.startswith("+ ")]
    assert [line for line in added if "name: " in line] == ["+      - name: data"]
    assert (root / "Pulumi.lab.yaml").read_text() == LAB


def test_nothing_to_adopt_and_no_namespace_are_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is created."""
    result = run(monkeypatch, NamespaceObjects(namespace="vision"), "-s", "new")
    assert (result.exit_code, result.stdout) == (
        0,
        "no object of namespace vision can be adopted; no file was changed\n",
    )
    result = run(monkeypatch, None, "-s", "new")
    assert result.exit_code == 1
    assert "the cluster has no namespace vision" in result.output
    assert not (root / "Pulumi.new.yaml").exists()
