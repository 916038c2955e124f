"""The wait for the declared data of a run."""

import hashlib
import json
import signal
from pathlib import Path

from tests.integration.wrapper.pods import DEADLINE_SECONDS, pod, python, read_until, run


def make_manifest(size: int) -> bytes:
    """Return a manifest with one file."""
    return json.dumps({"files": {"images": {"sha256": "-", "size": size}}}).encode()


def data_variables(folder: Path, manifest: bytes) -> dict[str, str]:
    """Return the variables for data in `folder` with this manifest."""
    return {"TRAINSTACK_DATA": json.dumps({"path": str(folder), "manifest": hashlib.sha256(manifest).hexdigest()})}


def test_the_command_starts_when_the_data_is_complete(tmp_path: Path) -> None:
    """The wrapper prints the reason of each wait: no manifest, another one, an incomplete file."""
    folder, manifest = tmp_path / "data", make_manifest(3)
    with pod(tmp_path / "runs", python("print('ran')"), **data_variables(folder, manifest)) as process:
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


def test_missing_data_ends_the_wait(tmp_path: Path) -> None:
    """The exit code is 66, the message has the last state, and the run is not claimed."""
    variables = data_variables(tmp_path / "data", make_manifest(3))
    code, output = run(tmp_path / "runs", python(""), TRAINSTACK_DATA_TIMEOUT="0.1", **variables)
    assert code == 66
    assert "no data after 0.1 s: No such file or directory" in output
    assert not list((tmp_path / "runs").rglob("claims"))


def test_sigterm_ends_the_wait(tmp_path: Path) -> None:
    """The exit code is 143, so that the pod is restarted."""
    with pod(tmp_path / "runs", python(""), **data_variables(tmp_path / "data", b"")) as process:
        read_until(process, "waiting for data")
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_SECONDS) == 143
