"""The kubeconfig of a process: merged as kubectl merges, with absolute paths, and read once."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainstack.files.temporary import remove_leftovers
from trainstack.live import kubeconfig, private_kubeconfig
from trainstack.live.client import PermanentError, reach


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Forget the kubeconfig and remove its copies before and after each test."""
    kubeconfig.clear_cache()
    yield
    private_kubeconfig.remove_copies()
    kubeconfig.clear_cache()


def make_file(path: Path, current: str, **servers: str) -> Path:
    """Write a kubeconfig with a context of the same name for each server."""
    content: dict[str, Any] = {
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": server}} for name, server in servers.items()],
        "users": [{"name": name, "user": {"client-key": f"{name}.key"}} for name in servers],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in servers],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def server(context: str | None = None) -> str:
    """Return the server of a context."""
    return str(kubeconfig.select_context(context)["clusters"][0]["cluster"]["server"])


def test_a_changed_context_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process keeps the kubeconfig that it has read, also in the copy for other programs."""
    file = make_file(tmp_path / "config", "a", a="https://a", b="https://b")
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert server() == "https://a"
    make_file(file, "b", a="https://b", b="https://b")
    assert server() == "https://a"
    copy = private_kubeconfig.shared_copy(None)
    content = yaml.safe_load(copy.read_text())
    assert content["current-context"] == "a"
    assert [cluster["cluster"]["server"] for cluster in content["clusters"]] == ["https://a"]


def test_files_are_merged_as_kubectl_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file that defines an entry wins; missing files and files without a current context are skipped."""
    first = make_file(tmp_path / "one" / "config", "", a="https://first")
    second = make_file(tmp_path / "two" / "config", "b", a="https://second", b="https://b")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{first}::{second}")
    assert kubeconfig.exists()
    assert (server(), server("a")) == ("https://b", "https://first")
    assert kubeconfig.select_context("b")["users"][0]["user"] == {"client-key": f"{tmp_path}/two/b.key"}
    with pytest.raises(ValueError, match="No such context c"):
        kubeconfig.select_context("c")


def test_a_relative_path_counts_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl does the same. The working folder of other programs may differ."""
    file = make_file(tmp_path / "config", "a", a="https://a")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "config")
    assert kubeconfig.kubeconfig_path() == str(file)
    assert server() == "https://a"


def test_a_file_without_a_current_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No context is guessed: kubectl and the provider would use another one."""
    monkeypatch.setenv("KUBECONFIG", str(make_file(tmp_path / "config", "", a="https://a")))
    assert server("a") == "https://a"
    with pytest.raises(ValueError, match="no current context"):
        kubeconfig.select_context(None)


def test_the_copy_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy ends with the process. Messages name the original file."""
    file = make_file(tmp_path / "config", "a", a="https://a", b="https://b")
    monkeypatch.setenv("KUBECONFIG", str(file))
    variables = private_kubeconfig.variables("b")
    copy = Path(variables["KUBECONFIG"])
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert variables[kubeconfig.ORIGIN_VARIABLE] == str(file)
    assert "https://a" not in copy.read_text()
    assert private_kubeconfig.shared_copy("b") == copy
    private_kubeconfig.remove_copies()
    assert not copy.exists()


def test_programs_read_the_copy_and_a_kill_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl reads the file several times."""
    file = make_file(tmp_path / "config", "a", a="https://a")
    text = (
        "import time; from trainstack.live import private_kubeconfig\n"
        "print(private_kubeconfig.shared_copy(None), flush=True); time.sleep(100)"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    variables = {**os.environ, "KUBECONFIG": str(file), "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", text], env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        copy = process.stdout.readline().strip()
        for _ in range(2):
            read = subprocess.run(["cat", copy], capture_output=True, text=True, check=True).stdout
            assert yaml.safe_load(read)["current-context"] == "a"
        process.kill()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    remove_leftovers()
    assert (Path(copy).exists(), list(temporary.iterdir())) == (False, [])


@pytest.mark.parametrize("text", ["a word\n", "- a\n", "contexts: [a]\n", "users: {a: b}\n", "contexts: 1\n"])
def test_a_file_of_another_form_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """KUBECONFIG may name any file."""
    file = tmp_path / "config"
    file.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(PermanentError, match=f"{file} is not a usable kubeconfig"):
        reach(None)
