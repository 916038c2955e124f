"""Commands on environments whose release manifests are built, downloaded, or missing."""

import hashlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from trainstack.cli import deploy, ensure_tools
from trainstack.cli.app import app
from trainstack.cli.session import Session
from trainstack.dev.toolchain import tools
from trainstack.dev.toolchain.places import CHECKOUT
from trainstack.live import releases
from trainstack.live.client import ClusterError
from trainstack.platform.operators.release import DownloadError, RefusedDownloadError, WrongBytesError

CONFIG: dict[str, Any] = {
    "trainstack:environment": {"state": "embedded", "namespaces": [{"name": "lab"}]},
    "trainstack:operators": {"jobset": {}},
}
URL = "http://localhost:9/jobset.yaml"
"""The port of the service `discard`, which does not listen."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that installs JobSet by the release that the toolchain builds, which is missing."""
    for name in ("Pulumi.yaml", "defaults.yaml"):
        shutil.copy(CHECKOUT / name, tmp_path / name)
    write(tmp_path, {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write(project: Path, manifest: dict[str, Any]) -> None:
    operators = {"jobset": {"manifest": manifest}} if manifest else {"jobset": {}}
    config = {**CONFIG, "trainstack:operators": operators}
    (project / "Pulumi.lab.yaml").write_text(yaml.safe_dump({"config": config}))


def run(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    done = CliRunner().invoke(app, [*words, "-s", "lab"])
    return done.exit_code, done.stdout, done.stderr


def findings() -> list[dict[str, Any]]:
    return list(json.loads(run("check", "--json")[1])["findings"])


def cached(content: bytes) -> str:
    """The digest of a release that was downloaded before."""
    digest = hashlib.sha256(content).hexdigest()
    releases.folder().mkdir(parents=True)
    (releases.folder() / f"{digest}.yaml").write_bytes(content)
    return digest


def test_check_of_a_fresh_clone_names_what_is_not_built(project: Path) -> None:
    """As unknown, with the line and the command: it is no error, since `up` builds it."""
    (found,) = findings()
    assert run("check")[0] == 0
    assert (found["id"], found["severity"]) == ("manifest-missing", "unknown")
    assert found["where"]["file"] == "defaults.yaml"
    assert found["message"].startswith("file .trainstack/manifests/jobset-v0.10.1.yaml has not been built")
    assert "`trainstack dev tools manifests`" in found["remedy"]


def test_check_of_a_file_that_nothing_builds_is_an_error(project: Path) -> None:
    """Somebody has to add it."""
    write(project, {"path": "releases/jobset.yaml"})
    (found,) = findings()
    assert (found["id"], found["severity"]) == ("manifest-missing", "error")
    assert run("check")[0] == 4


def test_check_without_a_network_is_unknown(project: Path) -> None:
    """With the place of the address and the way without a download."""
    write(project, {"path": None, "url": URL, "sha256": "0" * 64})
    (found,) = findings()
    assert (found["id"], found["severity"]) == ("manifest-missing", "unknown")
    assert (found["path"], found["where"]["file"]) == ("operators.jobset.manifest.url", "Pulumi.lab.yaml")
    assert found["message"].startswith("localhost cannot be reached (")
    assert "name it with `path` instead of `url`" in found["remedy"]
    assert run("check")[0] == 0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RefusedDownloadError("m", "r", path="operators.jobset.manifest.url"), "manifest-missing"),
        (WrongBytesError("m", "r", path="operators.jobset.manifest.sha256"), "manifest-mismatch"),
    ],
)
def test_check_of_an_address_that_has_to_change_is_an_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, error: DownloadError, expected: str
) -> None:
    """At its line."""
    write(project, {"path": None, "url": URL, "sha256": "0" * 64})
    monkeypatch.setattr(releases, "fetch", lambda operators, _: (operators, {"jobset": error}))
    (found,) = findings()
    assert (found["id"], found["severity"], found["message"]) == (expected, "error", "m")
    assert found["where"]["line"] > 1


def test_a_path_and_an_address_are_refused(project: Path) -> None:
    """The template of defaults.yaml has a path, so the remedy is how to remove it."""
    write(project, {"url": "https://example.org/jobset.yaml"})
    assert "a manifest has one source; keep url and set `path: null`, or remove url" in run("check")[1]


@pytest.mark.parametrize("url", ["http://example.org/a.yaml", "http://127.0.0.1.example.org/a.yaml", "https:///a", "a"])
def test_addresses_have_tls(project: Path, url: str) -> None:
    """Except on the loopback interface."""
    write(project, {"path": None, "url": url})
    assert [found["path"] for found in findings()] == ["operators.jobset.manifest.url"]


@pytest.mark.parametrize("manifest", [{}, {"path": None, "url": URL}], ids=["not built", "not downloaded"])
def test_render_prints_the_rest(project: Path, manifest: dict[str, Any]) -> None:
    """Without the release's objects, and ends with an error that names it."""
    write(project, manifest)
    code, printed, said = run("render")
    assert code == 1
    assert next(each["kind"] for each in yaml.safe_load_all(printed)) == "Namespace"
    assert printed == run("render", "--without-releases")[1]
    assert "error: the output lacks objects of the following releases" in said
    assert ("jobset-v0.10.1.yaml" if not manifest else URL.split("/")[2].split(":", maxsplit=1)[0]) in said


def test_a_downloaded_release_is_read_from_the_cache(project: Path) -> None:
    """No request is made: nothing listens at the address."""
    digest = cached(b"{apiVersion: v1, kind: Namespace, metadata: {name: jobset-system}}")
    write(project, {"path": None, "url": URL, "sha256": digest})
    assert findings() == []
    # The release lacks the controller, which only the one who reads it can tell.
    done = CliRunner().invoke(app, ["render", "-s", "lab"])
    assert "jobset" in str(done.stderr)
    assert "downloaded" not in str(done.stderr)


def test_up_builds_nothing_before_the_cluster_has_answered(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build takes minutes."""
    built: list[Any] = []

    def reach(_: str | None) -> None:
        raise ClusterError("no answer")

    monkeypatch.setattr(tools, "ensure", lambda *words, **_: built.append(words))
    monkeypatch.setattr(deploy, "reach", reach)
    code, _, said = run("up", "--yes")
    assert (code, said.strip(), built) == (5, "error: no answer", [])


@pytest.mark.parametrize(
    ("manifest", "wait", "expected"),
    [
        ({}, True, ("engine", "provider", "kubectl", "manifests")),
        ({}, False, ("engine", "provider", "manifests")),
        ({"path": None, "url": URL}, False, ("engine", "provider")),
        ({"path": "jobset.yaml"}, False, ("engine", "provider")),
    ],
)
def test_up_needs_what_it_uses(
    project: Path, monkeypatch: pytest.MonkeyPatch, manifest: dict[str, Any], wait: bool, expected: tuple[str, ...]
) -> None:
    """Manifests only if the settings name those that are built here, kubectl only to exchange files."""
    write(project, manifest)
    monkeypatch.setenv("PATH", str(project))
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(tools, "ensure", lambda groups, project: asked.append(groups))
    monkeypatch.setattr(ensure_tools, "with_downloads", lambda settings: settings)
    session = Session(project, "lab")
    ensure_tools.ensure_tools(session, kubectl=wait, local_cluster=False)
    assert asked == [expected]


def test_up_names_the_programs_on_path(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Path and version, since they are used in the place of the pinned ones."""
    monkeypatch.setattr(tools, "ensure", lambda *_, **__: None)
    monkeypatch.setattr(tools, "replacements", lambda: ["kubectl v1.33.1 (/usr/bin/kubectl)"])
    settings = Session(project, "lab").settings
    session: Any = SimpleNamespace(settings=settings, root=project)
    ensure_tools.ensure_tools(session, kubectl=True, local_cluster=False)
    assert capsys.readouterr().err.strip() == "from PATH: kubectl v1.33.1 (/usr/bin/kubectl)"
