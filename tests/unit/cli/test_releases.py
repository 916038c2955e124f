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

from trainstack.cli import ensure_tools
from trainstack.cli.app import app
from trainstack.cli.commands import up
from trainstack.cli.session import Session
from trainstack.live import releases
from trainstack.live.client import ClusterError
from trainstack.platform.operators.release import ChecksumMismatchError, DownloadError, RefusedDownloadError
from trainstack.toolchain import tools
from trainstack.toolchain.places import CHECKOUT

CONFIG: dict[str, Any] = {
    "trainstack:environment": {"state": "embedded", "namespaces": [{"name": "lab"}]},
    "trainstack:operators": {"jobset": {}},
}
URL = "http://localhost:9/jobset.yaml"
"""The port of the service `discard`, which does not listen."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an environment that installs JobSet from the release built by the toolchain, which is missing."""
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
    """Run a command; return its exit code, stdout and stderr."""
    result = CliRunner().invoke(app, [*words, "-s", "lab"])
    return result.exit_code, result.stdout, result.stderr


def findings() -> list[dict[str, Any]]:
    return list(json.loads(run("check", "--json")[1])["findings"])


def cached(content: bytes) -> str:
    """Cache a release as if downloaded; return its digest."""
    digest = hashlib.sha256(content).hexdigest()
    releases.download_folder().mkdir(parents=True)
    (releases.download_folder() / f"{digest}.yaml").write_bytes(content)
    return digest


def test_check_of_a_fresh_clone_names_what_is_not_built(project: Path) -> None:
    """The finding is unknown, with the line: it is not an error, since `up` builds the file."""
    (finding,) = findings()
    assert run("check")[0] == 0
    assert (finding["id"], finding["severity"]) == ("manifest-missing", "unknown")
    assert finding["where"]["file"] == "defaults.yaml"
    assert finding["message"].startswith("v0.12.0 is not built yet")
    assert "`trainstack up` builds it" in finding["remedy"]


def test_check_of_a_file_that_nothing_builds_is_an_error(project: Path) -> None:
    """The remedy is to add the file."""
    write(project, {"path": "releases/jobset.yaml"})
    (finding,) = findings()
    assert (finding["id"], finding["severity"]) == ("manifest-missing", "error")
    assert run("check")[0] == 4


def test_check_without_a_network_is_unknown(project: Path) -> None:
    """The finding has the place of the address and the way without a download."""
    write(project, {"path": None, "url": URL, "sha256": "0" * 64})
    (finding,) = findings()
    assert (finding["id"], finding["severity"]) == ("manifest-missing", "unknown")
    assert (finding["path"], finding["where"]["file"]) == ("operators.jobset.manifest.url", "Pulumi.lab.yaml")
    assert finding["message"].startswith("localhost cannot be reached (")
    assert "name it with `path` instead of `url`" in finding["remedy"]
    assert run("check")[0] == 0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RefusedDownloadError("m", "r", path="operators.jobset.manifest.url"), "manifest-missing"),
        (ChecksumMismatchError("m", "r", path="operators.jobset.manifest.sha256"), "manifest-mismatch"),
    ],
)
def test_check_of_an_address_that_has_to_change_is_an_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, error: DownloadError, expected: str
) -> None:
    """The error is at the line of the address."""
    write(project, {"path": None, "url": URL, "sha256": "0" * 64})
    monkeypatch.setattr(releases, "fetch", lambda operators, _: (operators, {"jobset": error}))
    (finding,) = findings()
    assert (finding["id"], finding["severity"], finding["message"]) == (expected, "error", "m")
    assert finding["where"]["line"] > 1


def test_a_path_and_an_address_are_refused(project: Path) -> None:
    """The template of defaults.yaml has a path, so the remedy is how to remove it."""
    write(project, {"url": "https://example.org/jobset.yaml"})
    (finding,) = findings()
    expected = ("a manifest has one source", "keep url and set `path: null`, or remove url")
    assert (finding["message"], finding["remedy"]) == expected


@pytest.mark.parametrize("url", ["http://example.org/a.yaml", "http://127.0.0.1.example.org/a.yaml", "https:///a", "a"])
def test_addresses_have_tls(project: Path, url: str) -> None:
    """The loopback interface is the exception."""
    write(project, {"path": None, "url": url})
    assert [found["path"] for found in findings()] == ["operators.jobset.manifest.url"]


@pytest.mark.parametrize("manifest", [{}, {"path": None, "url": URL}], ids=["not built", "not downloaded"])
def test_render_prints_the_rest(project: Path, manifest: dict[str, Any]) -> None:
    """The output lacks the objects of the release; the command fails and names it."""
    write(project, manifest)
    code, stdout, stderr = run("render")
    assert code == 1
    assert next(document["kind"] for document in yaml.safe_load_all(stdout)) == "Namespace"
    assert stdout == run("render", "--without-releases")[1]
    assert "error: the output lacks objects of the following releases" in stderr
    assert ("jobset-v0.12.0.yaml" if not manifest else URL.split("/")[2].split(":", maxsplit=1)[0]) in stderr


def test_a_downloaded_release_is_read_from_the_cache(project: Path) -> None:
    """No request is made: no server listens at the address."""
    digest = cached(b"{apiVersion: v1, kind: Namespace, metadata: {name: jobset-system}}")
    write(project, {"path": None, "url": URL, "sha256": digest})
    assert findings() == []
    # The release lacks the controller, which only a reader of the release can report.
    result = CliRunner().invoke(app, ["render", "-s", "lab"])
    assert "jobset" in str(result.stderr)
    assert "downloaded" not in str(result.stderr)


def test_up_builds_nothing_before_the_cluster_has_answered(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build takes minutes."""
    built: list[Any] = []

    def reach(_: str | None) -> None:
        raise ClusterError("no answer")

    monkeypatch.setattr(tools, "ensure", lambda *words, **_: built.append(words))
    monkeypatch.setattr(up, "reach", reach)
    code, _, stderr = run("up", "--yes")
    assert (code, stderr.strip(), built) == (5, "error: no answer", [])


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
    """Manifests are built only if the settings name them, and kubectl only for file transfers."""
    write(project, manifest)
    monkeypatch.setenv("PATH", str(project))
    ensured: list[tuple[str, ...]] = []
    monkeypatch.setattr(tools, "ensure", lambda groups, **_: ensured.append(groups))
    monkeypatch.setattr(ensure_tools, "settings_with_downloads", lambda settings: settings)
    session = Session(project, "lab")
    ensure_tools.ensure_tools(session, kubectl=wait, local_cluster=False)
    assert ensured == [expected]


def test_up_names_the_programs_on_path(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output has path and version, since these programs replace the pinned ones."""
    monkeypatch.setattr(tools, "ensure", lambda *_, **__: None)
    monkeypatch.setattr(tools, "replacements", lambda: ["kubectl v1.33.1 (/usr/bin/kubectl)"])
    settings = Session(project, "lab").settings
    session: Any = SimpleNamespace(settings=settings, root=project)
    ensure_tools.ensure_tools(session, kubectl=True, local_cluster=False)
    assert capsys.readouterr().err.strip() == "from PATH: kubectl v1.33.1 (/usr/bin/kubectl)"
