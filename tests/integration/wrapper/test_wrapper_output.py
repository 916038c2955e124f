"""What the wrapper publishes of $TRAINSTACK_OUTPUT: regular files and folders, exactly as run.json lists them."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.wrapper.pods import (
    HEAD,
    RUN_ID,
    WRAPPER,
    WRITE_RESULT,
    command,
    published,
    python,
    read_json,
    run,
    tree,
)
from trainstack.runs.wrapper import run as wrapper


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "write(f'{output}/epoch-3.ckpt'); os.symlink('epoch-3.ckpt', f'{output}/last.ckpt')",
            {"epoch-3.ckpt": b"weights", "last.ckpt": b"weights"},
        ),
        (
            "write(f'{checkpoints}/best.pt'); os.symlink(f'{checkpoints}/best.pt', f'{output}/model.pt')",
            {"model.pt": b"weights"},
        ),
        (
            (
                "write(f'{checkpoints}/best.pt'); os.symlink(f'{checkpoints}/best.pt', f'{output}/a');"
                "os.symlink('a', f'{output}/b'); os.symlink(f'{output}/b', f'{output}/c')"
            ),
            {"a": b"weights", "b": b"weights", "c": b"weights"},
        ),
        (
            (
                "write(f'{checkpoints}/3/deep/w'); os.symlink('w', f'{checkpoints}/3/deep/v');"
                "os.symlink(f'{checkpoints}/3', f'{output}/model'); os.mkdir(f'{checkpoints}/3/empty')"
            ),
            {"model/deep/v": b"weights", "model/deep/w": b"weights"},
        ),
        (
            "write(f'{output}/v1/w'); os.symlink('v1', f'{output}/latest')",
            {"latest/w": b"weights", "v1/w": b"weights"},
        ),
        (
            (
                "write(f'{checkpoints}/best.pt'); os.link(f'{checkpoints}/best.pt', f'{output}/model.pt');"
                "os.symlink('model.pt', f'{output}/last.pt')"
            ),
            {"last.pt": b"weights", "model.pt": b"weights"},
        ),
        (
            "write(f'{checkpoints}/3/w'); os.rmdir(output); os.symlink(f'{checkpoints}/3', output)",
            {"w": b"weights"},
        ),
    ],
    ids=["file", "checkpoint", "links to links", "folder", "folder beside it", "hard link", "the output itself"],
)
def test_what_a_link_points_to_is_published(tmp_path: Path, code: str, expected: dict[str, bytes]) -> None:
    """A later change of the checkpoints does not change the result, and the checkpoints remain."""
    assert run(tmp_path, command(code))[0] == 0
    record = tmp_path / RUN_ID
    checkpoints = tree(record / "checkpoints")
    for name in checkpoints:
        (record / "checkpoints" / name).write_text("changed")
    assert published(record) == expected
    assert len(checkpoints) == ("checkpoints" in code) + ("deep/v" in code)
    assert (record / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.symlink('/nowhere/best.pt', f'{output}/odd')", "a link to '/nowhere/best.pt'"),
        ("write(f'{output}/a/b'); os.symlink('../x', f'{output}/a/odd')", "a link to '../x'"),
        ("os.symlink('odd', f'{output}/odd')", "a link to 'odd'"),
        ("os.symlink('.', f'{output}/odd')", "a folder that contains it"),
        ("os.symlink('/', f'{output}/odd')", "a folder that contains it"),
        (
            (
                "os.makedirs(f'{checkpoints}/a/b'); os.symlink('..', f'{checkpoints}/a/b/odd');"
                "os.symlink(f'{checkpoints}/a', f'{output}/a')"
            ),
            "a folder that contains it",
        ),
        ("os.mkfifo(f'{output}/odd')", "a pipe"),
        ("os.mkfifo(f'{checkpoints}/p'); os.symlink(f'{checkpoints}/p', f'{output}/odd')", "a pipe"),
        ("os.chdir(output); socket.socket(socket.AF_UNIX).bind('odd')", "a socket"),
        ("os.symlink('/dev/zero', f'{output}/odd')", "a device"),
        ("os.symlink('/dev/stdout', f'{output}/odd')", "a pipe"),
        ("os.symlink('/nowhere', os.fsencode(output) + b'/\\xff\\nodd')", "\\udcff\\nodd"),
        ("write(f'{output}/.run.json'); odd = 1", "'.run.json': the wrapper writes a file of this name"),
        ("os.rmdir(output); odd = 1", "the folder itself is not readable: No such file"),
        ("os.rmdir(output); write(output); odd = 1", "the folder itself is a file"),
    ],
)
def test_what_is_not_a_file_fails_the_attempt_by_name(tmp_path: Path, code: str, reason: str) -> None:
    """Nothing is published, the failure has the message, and the next attempt does not wait."""
    exit_code, output = run(tmp_path, command(f"print('trained'); {code}"), LC_ALL="C.UTF-8")
    record = tmp_path / RUN_ID
    assert (exit_code, "odd" in output, reason in output) == (65, True, True)
    assert not (record / "result").exists()
    assert not (record / "_SUCCESS").exists()
    failure = read_json(record / "attempts" / "pod-a-1" / "failure.json")
    assert failure["exit_code"] == 65
    assert failure["last_lines"][0] == "trained"
    assert reason in failure["last_lines"][-1]
    assert run(tmp_path, python(WRITE_RESULT), name="pod-b", TRAINSTACK_STALE_SECONDS="1000")[0] == 0


def test_all_that_is_no_file_is_named_at_once(tmp_path: Path) -> None:
    """A user repairs the program once."""
    _, output = run(tmp_path, command("os.mkfifo(f'{output}/first'); os.symlink('x', f'{output}/second')"))
    assert "2 entries" in output
    assert "'first'" in output
    assert "'second'" in output


def test_every_name_and_mode_is_published(tmp_path: Path) -> None:
    """Names may be invalid UTF-8 or have line breaks; closed files and folders are opened for their owner."""
    code = """
for name in (b'\\xff', b'a\\nb', b'n' * 255, b'-'):
    os.makedirs(os.path.join(os.fsencode(output), name))
    open(os.path.join(os.fsencode(output), name, name), 'w').close()
    os.symlink(name, os.path.join(os.fsencode(output), name, b'link'))
write(f'{output}/closed/deep/file')
os.chmod(f'{output}/closed/deep/file', 0)
os.chmod(f'{output}/closed/deep', 0)
os.chmod(f'{output}/closed', 0o111)
write(f'{output}/program')
os.chmod(f'{output}/program', 0o755)
os.symlink('program', f'{output}/run')
os.chmod(output, 0o555)
"""
    exit_code, output = run_as_nobody(tmp_path, code)
    assert exit_code == 0, output
    record = tmp_path / "runs" / RUN_ID
    assert len(published(record)) == 11
    assert os.access(record / "result" / "run", os.X_OK)


def run_as_nobody(folder: Path, code: str) -> tuple[int, str]:
    """Run a wrapper as a user for whom modes count: tests may run as root."""
    interpreter = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if os.getuid() or interpreter is None:
        pytest.skip("needs root, and a Python that other users may run")
    (folder / "runs").mkdir()
    (folder / "runs").chmod(0o777)
    (folder / "run.py").write_bytes(WRAPPER.read_bytes())
    for path in [folder, *folder.parents][: len(folder.relative_to("/tmp").parts)]:
        path.chmod(0o755)
    done = subprocess.run(
        [interpreter, folder / "run.py", "--", interpreter, "-c", HEAD + code],
        env={"TRAINSTACK_RUN_ID": RUN_ID, "TRAINSTACK_RECORD": str(folder / "runs"), "LC_ALL": "C.UTF-8"},
        user="nobody",
        group="nogroup",
        extra_groups=[],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_file_that_changes_while_it_is_hashed_is_hashed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that never stops changing fails the attempt by name; a new time alone changes nothing."""
    output = tmp_path / "output"
    output.mkdir()
    for name in ("quiet", "replaced", "touched"):
        (output / name).write_text("before")
    real, calls = wrapper.hash_file, dict[str, int]()

    def hash_file(path: Path) -> dict[str, Any]:
        found = real(path)
        calls[path.name] = calls.get(path.name, 0) + 1
        if path.name == "touched" and calls[path.name] == 1:
            os.utime(path, (1, 1))
        if path.name == "replaced" and calls[path.name] == 1:
            (output / "new").write_text("after")
            (output / "new").replace(path)
        if path.name == "endless":
            path.write_text(str(calls[path.name]))
        return found

    monkeypatch.setattr(wrapper, "hash_file", hash_file)
    assert wrapper.hash_files(output)["replaced"] == {"sha256": hashlib.sha256(b"after").hexdigest(), "size": 5}
    assert (calls["quiet"], calls["touched"]) == (1, 2)
    (output / "endless").write_text("")
    with pytest.raises(wrapper.WrapperError, match=r"'endless'\] in .* is still being written"):
        wrapper.hash_files(output)
