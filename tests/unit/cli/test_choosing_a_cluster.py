"""Which kubeconfig a command uses, and the line about it before a write."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.live.test_kubeconfig import make_file
from tests.unit.make import make_settings
from trainstack.cli import cluster_in_use
from trainstack.cli.app import app
from trainstack.cli.cluster_in_use import announce_cluster
from trainstack.cli.commands import up
from trainstack.cli.same_cluster import ensure_same_cluster
from trainstack.cli.session import Session
from trainstack.cli.transfers import data_loader
from trainstack.errors import RefusedError
from trainstack.guards.other_states import OwnState
from trainstack.live import kubeconfig
from trainstack.live.client import ClusterError, PermanentError, reach
from trainstack.settings.model import Cluster
from trainstack.stacks.plan_change import check_files, plan_change


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide a project as the current folder, and a user with an empty home and without KUBECONFIG."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "Pulumi.yaml").write_text("name: trainstack\n")
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    # Set first, so that what the command sets is undone.
    monkeypatch.setenv("KUBECONFIG", "")
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.chdir(root)
    monkeypatch.setattr(cluster_in_use, "_announced", set())
    kubeconfig.clear_cache()
    yield root
    kubeconfig.clear_cache()


def write(root: Path, cluster: str) -> Session:
    """Write the environment `lab` with a section `cluster`."""
    (root / "Pulumi.lab.yaml").write_text(f"config:\n  trainstack:cluster: {cluster}\n")
    return Session.open("lab")


def test_the_default_is_kubectls(root: Path) -> None:
    """`~/.kube/config`, which is not written into KUBECONFIG, so that another environment keeps its own default."""
    session = write(root, "{}")
    assert session.kubeconfig == root.parent / "home" / ".kube" / "config"
    assert not session.is_local
    assert "KUBECONFIG" not in os.environ
    make_file(session.kubeconfig, "mine", mine="https://mine")
    assert kubeconfig.select_context(None)["current-context"] == "mine"


def test_the_local_cluster_is_the_default_of_environments_that_use_it(root: Path) -> None:
    """They use it also if their other settings are not valid, for the sake of commands that repair them."""
    for cluster in ("{local: true}", "{local: true, nonsense: 1}"):
        session = write(root, cluster)
        assert session.is_local
        assert os.environ.pop("KUBECONFIG") == str(root / ".trainstack" / "cluster" / "kubeconfig")


def test_the_default_may_be_shared(root: Path) -> None:
    """`defaults.yaml` may name the cluster; an environment overrides it."""
    (root / "defaults.yaml").write_text("cluster: {local: true}\n")
    assert write(root, "{registry: registry.example.org}").is_local
    del os.environ["KUBECONFIG"]
    assert not write(root, "{local: false}").is_local


@pytest.mark.parametrize("cluster", ["{}", "{local: true}"])
def test_kubeconfig_takes_precedence(root: Path, monkeypatch: pytest.MonkeyPatch, cluster: str) -> None:
    """It names one file or several, relative to the current folder."""
    one = make_file(root / "one", "", a="https://a")
    two = make_file(root / "two", "b", b="https://b")
    monkeypatch.setenv("KUBECONFIG", f"one{os.pathsep}two")
    session = write(root, cluster)
    assert os.environ["KUBECONFIG"] == str(session.kubeconfig) == f"{one}{os.pathsep}{two}"
    assert not session.is_local
    assert kubeconfig.describe_context(None) == f"context b, https://b ({one}{os.pathsep}{two})"
    assert kubeconfig.describe_context("a") == f"context a, https://a ({one}{os.pathsep}{two})"


def test_a_missing_kubeconfig_has_the_remedy_of_its_environment(root: Path) -> None:
    """The remedy is to start the local cluster only for environments that use it."""
    write(root, "{}")
    with pytest.raises(PermanentError, match=r"no kubeconfig at .*/home/.kube/config") as caught:
        reach(None)
    assert caught.value.remedy == "set KUBECONFIG to your cluster's file"
    write(root, "{local: true}")
    with pytest.raises(PermanentError, match=r"no kubeconfig at .*/.trainstack/cluster/kubeconfig") as caught:
        reach(None)
    assert caught.value.remedy.startswith("start the local cluster with `trainstack cluster up`")


def test_a_cluster_that_does_not_answer_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names context, server and file."""
    file = make_file(root / "config", "lab", lab="https://127.0.0.1:9")
    file.write_text(file.read_text().replace("client-key: lab.key", "token: x"))
    monkeypatch.setenv("KUBECONFIG", str(file))
    named = rf"^cannot reach the cluster of context lab, https://127.0.0.1:9 \({file}\): "
    with pytest.raises(ClusterError, match=named) as caught:
        reach(None)
    assert caught.value.remedy == "check that it is running, and that kubeconfig and context are the right ones"


def test_the_cluster_is_announced_once(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The announcement is on stderr; an invalid kubeconfig is left to the first read."""
    monkeypatch.setenv("KUBECONFIG", str(root / "config"))
    announce_cluster(make_settings())
    make_file(root / "config", "lab", lab="https://lab.example.org")
    kubeconfig.clear_cache()
    for _ in range(2):
        announce_cluster(make_settings())
    announce_cluster(make_settings(cluster=Cluster(context="unknown")))
    assert tuple(capfd.readouterr()) == ("", f"cluster: context lab, https://lab.example.org ({root}/config)\n")


def test_the_local_cluster_is_not_changed_by_chance(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBECONFIG of a shell for `dev` counts for an environment that uses the local cluster or names its context."""
    local = root / ".trainstack" / "cluster" / "kubeconfig"
    local.parent.mkdir(parents=True)
    make_file(local, "local", local="https://198.18.0.2:6443")
    monkeypatch.setenv("KUBECONFIG", str(local))
    for cluster in ("{local: true}", "{context: local}"):
        announce_cluster(write(root, cluster).settings)
    session = write(root, "{}")
    for refused in (
        lambda: announce_cluster(session.settings),
        lambda: ensure_same_cluster(session, None),
        lambda: data_loader(session.settings, "lab", "data").__enter__(),
        lambda: check_files(root, "lab", None),
    ):
        with pytest.raises(RefusedError) as caught:
            refused()
        assert str(caught.value) == (
            f"KUBECONFIG is the file of the local cluster ({local}), which stack 'lab' does not use. Nothing was "
            "changed; `unset KUBECONFIG`, or set it to the stack's own cluster. To use the local cluster, set "
            "`local: true` or its `context` in `trainstack:cluster` of Pulumi.lab.yaml"
        )
    started: list[object] = []
    monkeypatch.setattr(up, "_start_local_cluster", started.append)
    monkeypatch.setattr(up, "ensure_backend", lambda _: None)
    result = CliRunner().invoke(app, ["up", "-s", "lab", "--yes"])
    assert (result.exit_code, started) == (3, []), result.output
    # The engine's program has a private copy.
    monkeypatch.setenv("KUBECONFIG", str(make_file(root / "copy", "local", local="https://198.18.0.2:6443")))
    announce_cluster(session.settings)
    monkeypatch.setenv("TRAINSTACK_KUBECONFIG_ORIGIN", str(local))
    with pytest.raises(RefusedError, match="is the file of the local cluster"):
        check_files(root, "lab", None)


def test_the_program_needs_the_variable_for_the_local_cluster(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's provider would use ~/.kube/config; no other environment needs it."""
    (root / "Pulumi.lab.yaml").write_text("config:\n  trainstack:cluster: {local: true}\n")
    with pytest.raises(RefusedError) as caught:
        check_files(root, "lab", None)
    assert f"export KUBECONFIG={root}/.trainstack/cluster/kubeconfig" in str(caught.value)
    assert 'eval "$(trainstack env -s lab)"' in str(caught.value)
    spaced = root.rename(root.with_name("my project"))
    with pytest.raises(RefusedError, match=f"export KUBECONFIG='{spaced}/.trainstack/cluster/kubeconfig'"):
        check_files(spaced, "lab", None)
    spaced.rename(root)
    (root / "Pulumi.lab.yaml").write_text("config:\n  trainstack:cluster: {local: false}\n")
    with pytest.raises(PermanentError, match=r"home/.kube/config"):
        plan_change(check_files(root, "lab", None), OwnState("a" * 32, frozenset()))


@pytest.mark.parametrize("content", ['users: [{name: u, user: {token: "secret" ]', "token: secret\n\t- x"])
def test_an_error_has_no_line_of_the_kubeconfig(root: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """The line may contain a token, and the error is written into the logs of CI."""
    file = root / "config"
    file.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(PermanentError, match=rf"{file}:\d is not valid YAML") as caught:
        reach(None)
    assert "secret" not in str(caught.value)
