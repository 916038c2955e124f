"""Settings files are regular and small; any other type of file is a fault and never blocks."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.special_files import make_socket, make_sparse_file
from trainstack.files.regular import MAX_BYTES, FileError, read_bytes
from trainstack.settings.errors import SettingsError, SettingsFinding
from trainstack.settings.loading import yaml_reader
from trainstack.settings.loading.load import load
from trainstack.settings.loading.merge import to_plain
from trainstack.settings.loading.yaml_reader import read_map
from trainstack.settings.sections.workloads import Image

STRANGE: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a socket": make_socket,
    "leads out of the project, to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "larger than": make_sparse_file,
    os.strerror(errno.ELOOP): lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("name", ["Pulumi.test.yaml", "defaults.yaml", "pins/test.yaml", "sweeps/a/space.yaml"])
def test_a_settings_file_of_another_type_is_a_fault(tmp_path: Path, what: str, name: str) -> None:
    """The fault is reported at once; the file neither blocks nor is read completely."""
    own = "config:\n  trainstack:sweeps:\n    sweeps: [{name: a}]\n"
    (tmp_path / "Pulumi.test.yaml").write_text(own, encoding="utf-8")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    STRANGE[what](path)
    start = time.process_time()
    with pytest.raises(SettingsError) as error:
        load(tmp_path, "test")
    assert time.process_time() - start < 1
    findings = error.value.findings
    (finding,) = [item for item in findings if item.where.file == name and "cannot be read" in item.message]
    assert (finding.where.line, bool(finding.remedy)) == (1, True)
    assert what in finding.message


def test_a_device_is_not_read() -> None:
    """Its content would never end."""
    with pytest.raises(FileError, match="is a character device, not a regular file"):
        read_bytes(Path("/dev/zero"))


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    """A file with one more byte is refused."""
    file = tmp_path / "f"
    file.write_bytes(b"x" * MAX_BYTES)
    assert len(read_bytes(file)) == MAX_BYTES
    file.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(FileError, match="is larger than 2 MiB"):
        read_bytes(file)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(
            "a: [" + "1," * 251_000 + "1]", "the file has more than 250000 values", id="values", marks=pytest.mark.slow
        ),
        ("a: 1" + "_" * 500_000, "the number has 500001 characters"),
        ("a: 1" + "_" * 500_000 + "x", None),
        ("a: " + "-" * 400_000 + "1", "the number has 400001 characters"),
        ("a: '" + ":" * 400_000 + "'", None),
    ],
)
def test_long_values_take_little_time(tmp_path: Path, text: str, fault: str | None) -> None:
    """Neither the regular expressions for numbers nor the YAML parser is slow for a small file."""
    (tmp_path / "f.yaml").write_text(text, encoding="utf-8")
    findings: list[SettingsFinding] = []
    start = time.process_time()
    to_plain(read_map(tmp_path, "f.yaml", findings))
    assert time.process_time() - start < 10
    assert [fault in item.message for item in findings] == ([True] if fault else []) if fault else findings == []


def test_the_number_of_values_of_a_file_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with one more value is refused while it is read."""
    monkeypatch.setattr(yaml_reader, "_MAX_VALUES", 1000)
    for values, refused in ((996, False), (997, True)):
        (tmp_path / "f.yaml").write_text(f"a: [{'1,' * values}1]", encoding="utf-8")
        findings: list[SettingsFinding] = []
        read_map(tmp_path, "f.yaml", findings)
        assert ["the file has more than 1000 values" in item.message for item in findings] == [True] * refused


@pytest.mark.parametrize("path", ["x" * 256, "a/" + "ü" * 128, "a/" * 600])
def test_a_path_that_no_file_can_have_is_refused(path: str) -> None:
    """The system call would fail."""
    with pytest.raises(ValidationError, match="a path has at most 1024 bytes, and each name in it at most 255"):
        Image(build=path)
