"""Building a group: for real, from a module proxy in a folder."""

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
from trainstack.dev.toolchain import gotool, tools
from trainstack.dev.toolchain.build import Builder
from trainstack.dev.toolchain.errors import ToolchainError
from trainstack.dev.toolchain.groups import GROUPS


@pytest.fixture
def greeter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fixture]:
    """A group to build, with caches of its own but Go's build cache: the standard library is compiled once."""
    go = gotool.ensure(quiet())
    # With a cache of its own the test would not find a Go that is not on PATH.
    monkeypatch.setenv("PATH", f"{go.executable.parent}:{os.environ['PATH']}")
    asked = subprocess.run([go.executable, "env", "GOCACHE"], capture_output=True, text=True, check=True)
    fixture = make_fixture(tmp_path)
    monkeypatch.setenv("GOCACHE", asked.stdout.strip())
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "mod"))
    monkeypatch.setenv("GOPROXY", fixture.proxy)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield fixture
    # Go makes its module cache read-only, which pytest's own clean-up does not expect.
    for folder in (path for path in (tmp_path / "mod").rglob("*") if path.is_dir()):
        folder.chmod(0o755)


def make_builder(fixture: Fixture) -> Builder:
    """A builder of the fixture's modules."""
    return Builder(gotool.choose(), fixture.modules)


def quiet() -> Console:
    """A console that nobody reads."""
    return Console(file=io.StringIO())


def test_build_makes_programs_with_stamped_versions_and_scripts(greeter: Fixture) -> None:
    """The program lies under its own name, says the version that go.mod pins, and the scripts lie beside it."""
    folder = make_builder(greeter).build(greeter.group, quiet()) / "bin"
    said = subprocess.run([folder / "greet"], capture_output=True, text=True, check=True).stdout
    assert said == "hello from 1.2.3\n"
    assert subprocess.run([folder / "helper"], check=False).returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["greet", "helper"]


def test_second_build_runs_no_program(greeter: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built is found by its name alone."""
    builder = make_builder(greeter)
    first = builder.build(greeter.group, quiet())
    monkeypatch.setattr(subprocess, "Popen", None)
    assert builder.is_built(greeter.group)
    assert builder.build(greeter.group, quiet()) == first


def test_changed_source_is_built_anew_beside_the_old(greeter: Fixture) -> None:
    """Another checkout may still use what was built before."""
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
    """A changed hash, or a changed module, ends the build and leaves nothing that passes for built."""
    greeter.go_sum.write_text(greeter.go_sum.read_text().replace("h1:", "h1:AAAA", 1))
    builder = make_builder(greeter)
    with pytest.raises(ToolchainError, match=r"does not match go\.sum"):
        builder.build(greeter.group, quiet())
    assert not builder.is_built(greeter.group)


def test_module_missing_from_go_sum_is_refused(greeter: Fixture) -> None:
    """Nothing is fetched on trust and then written into go.sum."""
    greeter.go_sum.write_text("")
    with pytest.raises(ToolchainError, match="restore it with `git checkout"):
        make_builder(greeter).build(greeter.group, quiet())
    assert greeter.go_sum.read_text() == ""


def test_callers_flags_do_not_loosen_the_check(greeter: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """GOFLAGS=-mod=mod would let Go repair go.sum by itself."""
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    greeter.go_sum.write_text("")
    with pytest.raises(ToolchainError, match=r"go\.sum"):
        make_builder(greeter).build(greeter.group, quiet())


def test_left_over_staging_of_an_interrupted_build_is_replaced(greeter: Fixture) -> None:
    """A build that was killed half-way does not stand in the next one's way."""
    builder = make_builder(greeter)
    staging = builder.folder(greeter.group).with_name(".building-greeter")
    (staging / "out" / "bin").mkdir(parents=True)
    (staging / "out" / "bin" / "half").write_text("")
    folder = builder.build(greeter.group, quiet())
    assert not (folder / "bin" / "half").exists()
    assert not staging.exists()


def test_two_builds_at_once_share_one_result(greeter: Fixture) -> None:
    """The second waits for the first and builds nothing."""
    builder, said = make_builder(greeter), [io.StringIO(), io.StringIO()]
    threads = [
        threading.Thread(target=builder.build, args=(greeter.group, Console(file=text, width=200))) for text in said
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builder.is_built(greeter.group)
    assert sum("greeter: built in" in text.getvalue() for text in said) == 1


def test_ensure_of_built_tools_runs_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The no-op path looks at names in the cache and starts nothing, whatever the group."""
    go = shutil.which("go")
    if go is not None:
        # Only the folder of `go`: an official pulumi elsewhere on PATH would be asked for its version.
        monkeypatch.setenv("PATH", str(Path(go).parent))
    builder = Builder(gotool.choose())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for group in GROUPS:
        builder.folder(group).mkdir(parents=True)
    monkeypatch.setattr(subprocess, "Popen", None)
    tools.ensure([group.name for group in GROUPS], quiet())


def test_unknown_group_is_named_with_the_known_ones() -> None:
    """A typing error is answered before anything is built."""
    with pytest.raises(ToolchainError, match=r"unknown group kubelett: the groups are engine, provider"):
        tools.ensure(["kubelett"], quiet())


def test_program_that_is_not_built_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers show this text as it is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(tools.MissingTool, match=r"kubelet has not been built .* run `trainstack dev tools`"):
        tools.program("kubelet")


def test_program_of_no_group_is_an_error() -> None:
    """A name that no group holds is the caller's mistake and no missing build."""
    with pytest.raises(ToolchainError, match="no group builds a program 'kubeadm'"):
        tools.program("kubeadm")
