"""Temporary files end with their process: nothing secret is left, and the next command removes the rest."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trainstack.cli.app import app
from trainstack.files import temporary
from trainstack.files.temporary import PREFIX, remove_leftovers, secret_file, temporary_folder

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@contextmanager
def process(statement: str, folder: Path) -> Iterator[str]:
    """Run a program that makes temporary files, and kill it at the end of the block; yield what it prints."""
    text = (
        "import os, sys, time; from trainstack.files import temporary\n"
        f"{statement}\nprint(printed, flush=True); time.sleep(100)"
    )
    variables = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        [sys.executable, "-c", text], cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        yield running.stdout.readline().strip()
        running.kill()


def test_a_folder_is_private_and_removed(folder: Path) -> None:
    """Only this account can open it."""
    with temporary_folder() as first, temporary_folder() as second:
        assert first != second
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o700}
        (first / "file").touch()
    assert list(folder.iterdir()) == []


def test_the_next_command_removes_the_folders_of_a_killed_one(folder: Path) -> None:
    """Those of a running command stay."""
    make = "with_folder = temporary.temporary_folder(); printed = with_folder.__enter__(); (printed / 'key').touch()"
    with process(make, folder) as running:
        with process(make, folder) as killed:
            assert (Path(killed) / "key").exists()
        assert len(list(folder.iterdir())) == 2
        assert CliRunner().invoke(app, ["explain", "queue-unknown"]).exit_code == 0
        assert (Path(running) / "key").exists()
        assert list(folder.iterdir()) == [Path(running).parent]
    remove_leftovers()
    assert list(folder.iterdir()) == []


def test_other_folders_stay(folder: Path, tmp_path: Path) -> None:
    """Of another name, open to others, or a link to somebody's folder."""
    (tmp_path / "mine").mkdir()
    (folder / f"{PREFIX}link").symlink_to(tmp_path / "mine")
    (folder / f"{PREFIX}open").mkdir(mode=0o755)
    (folder / f"{PREFIX}file").touch(mode=0o600)
    (folder / "trainstack-other").mkdir(mode=0o700)
    before = sorted(folder.iterdir())
    remove_leftovers()
    assert sorted(folder.iterdir()) == before
    assert (tmp_path / "mine").is_dir()


def test_a_folder_that_is_being_made_is_not_removed() -> None:
    """Other commands remove what is not locked, and a new folder is not locked for a moment."""
    ended = threading.Event()

    def remove() -> None:
        while not ended.is_set():
            remove_leftovers()

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        for _ in range(300):
            with temporary_folder() as made:
                (made / "file").touch()
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_secret_file_is_read_by_programs_of_this_account(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, in_memory: bool
) -> None:
    """By those that this process starts, as often as they want; nobody changes it."""
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    secret = secret_file(b"key\n" * 100_000)
    for _ in range(2):
        assert subprocess.run(["cat", secret.path], capture_output=True, check=True).stdout == b"key\n" * 100_000
    assert secret.path.stat().st_mode & 0o777 == 0o600
    assert (list(folder.iterdir()) == []) == in_memory
    words = ["cat", str(secret.inherited_path)]
    done = subprocess.run(words, capture_output=True, check=True, pass_fds=[secret.descriptor])
    assert done.stdout == b"key\n" * 100_000
    if in_memory:
        with pytest.raises(PermissionError), secret.path.open("ab") as file:
            file.write(b"more")
    secret.close()
    assert not secret.path.exists()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_secret_file_ends_with_its_process(folder: Path, *, in_memory: bool) -> None:
    """In memory at once, else when the next command begins."""
    prepare = "" if in_memory else "del os.memfd_create; "
    with process(f"{prepare}printed = temporary.secret_file(b'key').path", folder) as path:
        assert Path(path).read_text() == "key"
        remove_leftovers()
        assert Path(path).read_text() == "key"
    remove_leftovers()
    assert not Path(path).exists()
    assert list(folder.iterdir()) == []


def test_without_proc_a_secret_file_is_in_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in memory has no other path."""
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    secret = secret_file(b"key")
    assert secret.folder is not None
    assert secret.path.read_text() == "key"
    secret.close()


def test_without_locks_folders_are_made_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody removes them if the process is killed."""

    def refuse(*_: object) -> bool:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("trainstack.files.locks.try_lock", refuse)
    monkeypatch.setattr(temporary, "try_lock", refuse)
    with temporary_folder() as made:
        remove_leftovers()
        assert made.is_dir()
