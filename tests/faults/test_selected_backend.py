"""A state where Pulumi is logged in, and a preview without a state: the real engine, an object store, an API server."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.apiserver import ApiServer, api_server
from tests.cluster.project import CommandResult, Project
from tests.faults.bucket import bucket
from tests.faults.test_owning_state import garbage_collector

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PREVIEW = """
from trainstack.cli.engine import preview_variables, pulumi
from trainstack.cli.session import Session

session = Session.open("fresh")
with preview_variables(session) as variables:
    pulumi(session, "preview", "--json", variables=variables)
"""
"""A preview of an embedded environment."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server alone."""
    with api_server(tmp_path_factory.mktemp("selected")) as running:
        yield running


@pytest.fixture
def team(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Project, str]]:
    """Yield the team's environment in a checkout without a login, and the URL of the team's object store."""
    for name in [name for name in os.environ if name.startswith("PULUMI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PULUMI_CREDENTIALS_PATH", str(tmp_path / "logins"))
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "correct horse")
    with bucket() as store:
        url = store.pop("PULUMI_BACKEND_URL")
        for name, value in store.items():
            monkeypatch.setenv(name, value)
        project = Project.copy(tmp_path / "copy", server, "sweeps")
        yield project.other_stack("team", make_config("team", state="pulumi")), url


def make_config(name: str, **environment: object) -> dict[str, object]:
    """Return an environment with a storage class: an API server alone never completes the deletion of a namespace."""
    return {
        "trainstack:environment": environment,
        "trainstack:storage": {"classes": [{"name": name, "provisioner": "rancher.io/local-path"}]},
        "trainstack:queues": {"priorityClasses": None},
    }


def assert_succeeded(done: CommandResult) -> CommandResult:
    """Check that a command succeeded, and return it."""
    assert done.code == 0, done.text
    return done


def test_a_login_is_enough(team: tuple[Project, str], server: ApiServer, tmp_path: Path) -> None:
    """Without a login the command fails; after it a second checkout has the same stack. Neither keeps a state."""
    project, url = team
    assert {"PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE_FILE"}.isdisjoint(project.variables)
    offset = server.offset()
    done = project.trainstack("up", "--yes", "--no-wait")
    assert (done.code, "Pulumi is not logged in" in done.text) == (1, True), done.text
    assert server.events(offset) == []

    assert_succeeded(project.run(["pulumi", "login", url, "--non-interactive"]))
    done = project.trainstack("up", "--yes", "--no-wait")
    assert (done.code, "create it with `pulumi stack init team`" in " ".join(done.text.split())) == (1, True), done.text
    assert_succeeded(project.run(["pulumi", "stack", "init", "team", "--non-interactive"]))
    done = assert_succeeded(project.trainstack("up", "--yes", "--no-wait"))
    assert f"cluster: context {current_context(project)}, {server.server} ({project.kubeconfig})\n" in done.err
    assert server.get(f"{CLASSES}/team") is not None
    assert_succeeded(project.trainstack("status"))
    assert assert_succeeded(project.trainstack("doctor")).out.startswith("not checked  locks")

    second = Project.copy(tmp_path / "second", server, "sweeps")
    (second.root / "Pulumi.team.yaml").write_bytes((project.root / "Pulumi.team.yaml").read_bytes())
    assert second.environment("team", server.kubeconfig).changes("--refresh") == {}
    assert without_variables(project, tmp_path).changes("--refresh") == {}

    with garbage_collector(server):
        assert_succeeded(project.trainstack("destroy", "--yes"))
    assert server.get(f"{CLASSES}/team") is None
    assert project.pulumi("stack", "export").out.count('"urn"') == 0
    for copy in (project, second):
        assert not (copy.root / ".trainstack" / "backend" / ".pulumi" / "stacks" / "trainstack" / "team.json").exists()


def without_variables(project: Project, tmp_path: Path) -> Project:
    """The same stack without our variables and without KUBECONFIG, as `pulumi` alone is used.

    Our engine cannot download the provider, so it still has its home.
    """
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_bytes(project.kubeconfig.read_bytes())
    kept = {name: value for name, value in project.variables.items() if name in ("PATH", "PULUMI_HOME")}
    variables = {**kept, "HOME": str(home), "KUBECONFIG": "", "PYTHONPATH": ""}
    return replace(project, kubeconfig=Path(), variables=variables)


def current_context(project: Project) -> str:
    """The kubeconfig's context."""
    return str(yaml.safe_load(project.kubeconfig.read_text())["current-context"])


def test_a_preview_of_a_stack_without_state_writes_nothing(server: ApiServer, tmp_path: Path) -> None:
    """It writes neither a state nor the salt of its passphrase, and a second preview is the same."""
    project = Project.copy(tmp_path, server, "sweeps")
    project.write_stack("fresh", make_config("fresh"))
    files = sorted(path for path in project.root.rglob("*") if path.is_file())
    text = (project.root / "Pulumi.fresh.yaml").read_text()
    for _ in range(2):
        done = assert_succeeded(project.run([sys.executable, "-c", PREVIEW], environment={"TMPDIR": str(tmp_path)}))
        steps = [step["urn"] for step in json.loads(done.out)["steps"]]
        assert any(urn.endswith("StorageClass::fresh") for urn in steps), steps
    assert (project.root / "Pulumi.fresh.yaml").read_text() == text
    assert "fresh" not in project.run(["pulumi", "stack", "ls"]).out
    assert server.get(f"{CLASSES}/fresh") is None
    assert list(tmp_path.glob("trainstack-*")) == []
    found = {path for path in project.root.rglob("*") if path.is_file() and path.parent.name != "__pycache__"}
    new = found - {*files}
    assert {path.parts[len(project.root.parts)] for path in new} <= {".trainstack"}
