"""The versions that registries offer beyond the pinned ones."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from trainstack.dev.newer_versions import NewerVersion, find_newer_versions, highest_versions
from trainstack.toolchain import go_toolchain
from trainstack.toolchain.go_toolchain import Go
from trainstack.toolchain.pinned_versions import Version

GO_MOD = "trainstack/toolchain/go/cluster/go.mod"
LOCK = "trainstack/toolchain/requirements.lock"


@pytest.mark.parametrize(
    ("pinned", "offered", "highest"),
    [
        ("v0.15.2", ["v0.15.1", "v0.15.2"], ("", "")),
        ("v0.15.2", ["v0.9.0", "v0.19.2", "v0.17.0", "v0.20.0-rc.1", "v0.19.3-rc.0"], ("v0.19.2", "v0.20.0-rc.1")),
        ("v0.15.2", ["v0.15.2-rc.1", "v0.15.3-rc.1"], ("", "v0.15.3-rc.1")),
        ("v1.2.0", ["v1.10.0", "v1.9.0", "v1.10.0-alpha"], ("v1.10.0", "")),
        ("v1.2.0", [], ("", "")),
    ],
)
def test_the_highest_versions(pinned: str, offered: list[str], highest: tuple[str, str]) -> None:
    """A pre-release counts only above all releases."""
    assert highest_versions(pinned, offered) == highest


def test_newer_versions_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of packages only the direct dependencies; a module that cannot be read does not hide the others."""
    go = tmp_path / "go"
    go.write_text(
        """#!/bin/sh
case "$6" in
  example.org/new) echo '{"Versions": ["v1.0.0", "v1.1.0"]}' ;;
  example.org/same) echo '{"Versions": ["v1.0.0"]}' ;;
  *) printf '%s' '{"Error": {"Err": "reading the list:\\n\\t403 Forbidden"}}' ;;
esac
"""
    )
    go.chmod(0o755)
    monkeypatch.setattr(go_toolchain, "choose_go", lambda: Go(go, "go1.26"))
    run = subprocess.run

    def answer(command: list[str], **options: Any) -> Any:
        if command[0] == str(go):
            return run(command, **options)
        assert command[1:3] == ["pip", "list"]
        packages = '[{"name": "pulumi", "latest_version": "4.0.0"}, {"name": "grpcio", "latest_version": "9"}]'
        return subprocess.CompletedProcess(command, 0, packages, "")

    monkeypatch.setattr(subprocess, "run", answer)
    pins = [Version("go", f"example.org/{name}", "v1.0.0", GO_MOD) for name in ("new", "same", "closed")]
    pins += [Version("python", name, "3.250.0", LOCK) for name in ("pulumi", "grpcio")]
    pins += [Version("python", "pulumi", "3.1.0", "trainstack/toolchain/site.lock")]
    assert find_newer_versions(pins) == [
        NewerVersion("go", "example.org/new", "v1.0.0", GO_MOD, "v1.1.0"),
        NewerVersion("go", "example.org/closed", "v1.0.0", GO_MOD, problem="reading the list: 403 Forbidden"),
        NewerVersion("python", "pulumi", "3.250.0", LOCK, "4.0.0"),
    ]
