"""Builds of a group: real ones, from a module proxy in a folder."""

import io
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.toolchain.modules import Fixture, make_fixture
from trainstack.toolchain import go_toolchain, tools
from trainstack.toolchain.build import Builder
from trainstack.toolchain.errors import MissingTool, ToolchainError
from trainstack.toolchain.groups import GROUPS


@pytest.fixture
def greeter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fixture]:
    """Provide a group to build; its caches are empty except Go's build cache: the standard library is compiled once."""
    go = go_toolchain.ensure(quiet())
    # With an empty cache the test would not find a Go that is not on PATH.
    monkeypatch.setenv("PATH", f"{go.executable.parent}:{os.environ['PATH']}")
    process = subprocess.run([go.executable, "env", "GOCACHE"], capture_output=True, text=True, check=True)
    fixture = make_fixture(tmp_path)
    monkeypatch.setenv("GOCACHE", process.stdout.strip())
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "mod"))
    monkeypatch.setenv("GOPROXY", fixture.proxy)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield fixture
    # Go makes its module cache read-only, which pytest's clean-up does not expect.
    for folder in (path for path in (tmp_path / "mod").rglob("*") if path.is_dir()):
        folder.chmod(0o755)


def make_builder(fixture: Fixture) -> Builder:
    """Return a builder of the fixture's modules."""
    return Builder(go_toolchain.choose_go(), fixture.modules)


def quiet() -> Console:
    """Return a console that prints nowhere."""
    return Console(file=io.StringIO())


def test_build_makes_programs_with_stamped_versions_and_scripts(
    greeter: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program has its own name and prints the version that go.mod pins; the scripts are in the same folder.

    A killed build does not prevent the next one, and a second one finds the result by its name.
    """
    builder = make_builder(greeter)
    staging = builder.folder(greeter.group).with_name(".building-greeter")
    (staging / "out" / "bin").mkdir(parents=True)
    (staging / "out" / "bin" / "half").write_text("")
    built = builder.build(greeter.group, quiet())
    folder = built / "bin"
    stdout = subprocess.run([folder / "greet"], capture_output=True, text=True, check=True).stdout
    assert stdout == "hello from 1.2.3\n"
    assert subprocess.run([folder / "helper"], check=False).returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["greet", "helper"]
    assert not staging.exists()
    monkeypatch.setattr(subprocess, "Popen", None)
    assert builder.is_built(greeter.group)
    assert builder.build(greeter.group, quiet()) == built


def test_changed_source_is_built_anew_beside_the_old(greeter: Fixture) -> None:
    """Another checkout may still use the previous build."""
    first = make_builder(greeter).build(greeter.group, quiet())
    main = greeter.modules / "greeter" / "main.go"
    main.write_text(main.read_text().replace("greeting.Text()", '"changed", greeting.Release'))
    second = make_builder(greeter).build(greeter.group, quiet())
    assert first != second
    assert (first / "bin" / "greet").exists()
    assert (
        subprocess.run([second / "bin" / "greet"], capture_output=True, text=True, check=True).stdout
        == "changed 1.2.3\n"
    )


def test_download_that_go_sum_does_not_vouch_for_is_refused(greeter: Fixture) -> None:
    """A changed hash or module fails the build, which leaves nothing that counts as built."""
    greeter.go_sum.write_text(greeter.go_sum.read_text().replace("h1:", "h1:AAAA", 1))
    builder = make_builder(greeter)
    with pytest.raises(ToolchainError, match=r"does not match go\.sum"):
        builder.build(greeter.group, quiet())
    assert not builder.is_built(greeter.group)


def test_module_missing_from_go_sum_is_refused(greeter: Fixture) -> None:
    """No module is fetched without a hash and then added to go.sum."""
    greeter.go_sum.write_text("")
    with pytest.raises(ToolchainError, match="restore it with `git checkout"):
        make_builder(greeter).build(greeter.group, quiet())
    assert greeter.go_sum.read_text() == ""


def test_callers_flags_do_not_loosen_the_check(greeter: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """GOFLAGS=-mod=mod would let Go change go.sum."""
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    greeter.go_sum.write_text("")
    with pytest.raises(ToolchainError, match=r"go\.sum"):
        make_builder(greeter).build(greeter.group, quiet())


def test_two_builds_at_once_share_one_result(greeter: Fixture) -> None:
    """The second one waits for the first and builds nothing."""
    builder, outputs = make_builder(greeter), [io.StringIO(), io.StringIO()]
    threads = [
        threading.Thread(target=builder.build, args=(greeter.group, Console(file=text, width=200))) for text in outputs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builder.is_built(greeter.group)
    assert sum("greeter: built in" in text.getvalue() for text in outputs) == 1


def test_ensure_of_built_tools_runs_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ensure` only looks up names in the cache, for any group."""
    go = shutil.which("go")
    if go is not None:
        # PATH has only the folder of `go`: an official pulumi would be called for its version.
        monkeypatch.setenv("PATH", str(Path(go).parent))
    builder = Builder(go_toolchain.choose_go())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for group in GROUPS:
        builder.folder(group).mkdir(parents=True)
    monkeypatch.setattr(subprocess, "Popen", None)
    tools.ensure([group.name for group in GROUPS], quiet())


def test_unknown_group_is_named_with_the_known_ones() -> None:
    """The error for a misspelt name precedes any build."""
    with pytest.raises(ToolchainError, match=r"unknown group kubelett: the groups are engine, provider"):
        tools.ensure(["kubelett"], quiet())


def test_program_that_is_not_built_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers print this text unchanged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingTool, match=r"kubelet has not been built .* run `trainstack dev tools`"):
        tools.program("kubelet")


def test_program_of_no_group_is_an_error() -> None:
    """The name is a bug of the caller, not a missing build."""
    with pytest.raises(ToolchainError, match="no group builds a program 'kubeadm'"):
        tools.program("kubeadm")
