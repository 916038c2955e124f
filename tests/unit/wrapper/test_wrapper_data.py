"""Waiting for the data that a run was declared with."""

import hashlib
import json
import signal
from pathlib import Path

from tests.unit.wrapper.pods import DEADLINE_SECONDS, pod, python, read_until, run


def make_manifest(size: int) -> bytes:
    """A manifest of one file."""
    return json.dumps({"files": {"images": {"sha256": "-", "size": size}}}).encode()


def asked(folder: Path, manifest: bytes) -> dict[str, str]:
    """The variables for data in `folder` with that manifest."""
    return {"TRAINSTACK_DATA": json.dumps({"path": str(folder), "manifest": hashlib.sha256(manifest).hexdigest()})}


def test_the_command_starts_when_the_data_is_complete(tmp_path: Path) -> None:
    """It says what it waits for at each step: no manifest, another one, a file that is still growing."""
    folder, manifest = tmp_path / "data", make_manifest(3)
    with pod(tmp_path / "runs", python("print('ran')"), **asked(folder, manifest)) as process:
        read_until(process, f"waiting for data (0 of 1800 s): No such file or directory: {folder / 'manifest.json'}")
        folder.mkdir()
        (folder / "manifest.json").write_bytes(make_manifest(4))
        read_until(process, f"this run needs {hashlib.sha256(manifest).hexdigest()[:12]}")
        (folder / "images").write_bytes(b"12")
        (folder / "manifest.json").write_bytes(manifest)
        read_until(process, "images has 2 of 3 bytes")
        (folder / "images").write_bytes(b"123")
        read_until(process, "ran")
        assert process.wait(DEADLINE_SECONDS) == 0


def test_data_that_does_not_come_ends_the_wait(tmp_path: Path) -> None:
    """66 with the last state; the run is not claimed."""
    wanted = asked(tmp_path / "data", make_manifest(3))
    code, output = run(tmp_path / "runs", python(""), TRAINSTACK_DATA_TIMEOUT="0.1", **wanted)
    assert code == 66
    assert "no data after 0.1 s: No such file or directory" in output
    assert not list((tmp_path / "runs").rglob("claims"))


def test_sigterm_ends_the_wait(tmp_path: Path) -> None:
    """143, so that the pod is started again."""
    with pod(tmp_path / "runs", python(""), **asked(tmp_path / "data", b"")) as process:
        read_until(process, "waiting for data")
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_SECONDS) == 143
