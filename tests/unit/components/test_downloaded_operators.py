"""Operators of a Pulumi program that names a release by its address."""

import hashlib
from pathlib import Path

import pulumi
import pytest

from tests.unit.components.declare import declare
from tests.unit.make import make_manifest, make_settings
from trainstack.components.operators import Operators
from trainstack.live import releases
from trainstack.platform.operators.install import OperatorError
from trainstack.platform.operators.release import DownloadError, ReleaseError
from trainstack.settings.sections.operators import Install
from trainstack.settings.sections.operators import Operators as OperatorsSettings
from trainstack.stacks import plan_change

URL = "http://localhost:9/jobset.yaml"
"""The port of the service `discard`, which does not listen."""
CONTENT = b"{apiVersion: v1, kind: Namespace, metadata: {name: jobset-system}}"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache and no proxy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return releases.download_folder()


def make_operators(sha256: str) -> OperatorsSettings:
    return OperatorsSettings(jobset=Install(manifest=make_manifest(url=URL, sha256=sha256)))


def put(cache: Path) -> str:
    """Store a release in the cache, and return its digest."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"{digest}.yaml").write_bytes(CONTENT)
    return digest


def test_the_component_downloads(cache: Path) -> None:
    """It reports an error of the download, and reads a release from the cache (here without a controller)."""

    def component(sha256: str) -> None:
        declare(lambda opts: Operators("operators", make_operators(sha256), opts, stack="test"))

    with pytest.raises(ReleaseError, match=r"operators\.jobset\.manifest\.url: localhost cannot be reached"):
        component("0" * 64)
    with pytest.raises(OperatorError):
        component(put(cache))


def test_the_program_downloads_and_reports_an_error_after_its_rules(cache: Path, tmp_path: Path) -> None:
    """The rules still examine the files."""
    declared, error = plan_change._build_stack_objects(make_settings(operators=make_operators("0" * 64)), tmp_path)
    assert not declared.has_inputs
    assert isinstance(error, DownloadError)
    declared, error = plan_change._build_stack_objects(make_settings(operators=make_operators(put(cache))), tmp_path)
    assert error is None
    assert declared.inputs.releases["jobset"][0]["metadata"] == {"name": "jobset-system"}


def test_the_progress_is_in_the_engines_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain `pulumi up` prints it."""
    lines: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lines.append)
    plan_change._log_line("downloading")
    assert lines == ["downloading"]
