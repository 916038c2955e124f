"""Programs of other releases of Kueue than the pinned one."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from trainstack.cli.kueue_judge import JudgeProgram, kueue_judge
from trainstack.toolchain import go_toolchain, judges
from trainstack.toolchain.build import Builder
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.go_toolchain import Go


@pytest.fixture(autouse=True)
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache, and a toolchain that is not run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(go_toolchain, "ensure", lambda _: Go(Path("go"), "go1.26.8"))
    monkeypatch.setattr(go_toolchain, "candidate_versions", lambda: iter(["go1.26.8"]))
    return tmp_path


def fail(*_: Any) -> None:
    raise ToolchainError("403 Forbidden")


@pytest.mark.parametrize("release", ["", "main", "v0.18", "v0.17.8", "v0.13.0"])
def test_there_is_no_program_without_an_exact_release_that_the_sources_know(release: str) -> None:
    assert judges.find_judge(release) is None
    with pytest.raises(ToolchainError, match=r"name an exact release from v0\.18\.0 on"):
        judges.build_judge(release, Console())


def test_a_release_that_the_proxy_lacks_is_named(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is left."""
    monkeypatch.setattr(Builder, "run_go", fail)
    with pytest.raises(ToolchainError, match=r"Kueue v0\.20\.7 cannot be downloaded: 403 Forbidden"):
        judges.build_judge("v0.20.7", Console())
    assert judges.find_judge("v0.20.7") is None


def test_a_release_whose_api_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer release is built with the newest sources."""
    monkeypatch.setattr(Builder, "run_go", lambda *_: None)
    monkeypatch.setattr(Builder, "build", fail)
    with pytest.raises(ToolchainError, match=r"API of Kueue v0\.20\.7 does not fit the sources of judge-v0\.19: 403"):
        judges.build_judge("v0.20.7", Console())


def test_a_built_program_is_used_for_its_release_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(builder: Builder, group: Any, _: Console) -> Path:
        program = builder.folder(group) / "bin" / "kueue-judge"
        program.parent.mkdir(parents=True)
        program.touch()
        return builder.folder(group)

    monkeypatch.setattr(Builder, "run_go", lambda *_: None)
    monkeypatch.setattr(Builder, "build", build)
    path = judges.build_judge("v0.18.3", Console())
    assert kueue_judge("v0.18.3") == JudgeProgram(path, "v0.18.3")
    assert "not of v0.18.2" in str(kueue_judge("v0.18.2"))
