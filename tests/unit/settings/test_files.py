"""Files of settings are regular and small; whatever else has their name is a fault, and blocks nobody."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.odd_files import make_huge, make_socket
from trainstack.settings.errors import Finding, SettingsError
from trainstack.settings.loading import source
from trainstack.settings.loading.files import MAX_BYTES, FileError, read_bytes
from trainstack.settings.loading.load import load
from trainstack.settings.loading.merge import plain
from trainstack.settings.loading.source import read
from trainstack.settings.sections.workloads import Image

STRANGE: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a socket": make_socket,
    "a character device": lambda path: path.symlink_to("/dev/zero"),
    "larger than": make_huge,
    os.strerror(errno.ELOOP): lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("name", ["Pulumi.test.yaml", "defaults.yaml", "pins/test.yaml", "sweeps/a/space.yaml"])
def test_no_file_of_settings_has_to_be_a_file(tmp_path: Path, what: str, name: str) -> None:
    """Each is named, at once, and none of them is waited for or read whole."""
    own = "config:\n  trainstack:sweeps:\n    sweeps: [{name: a}]\n"
    (tmp_path / "Pulumi.test.yaml").write_text(own, encoding="utf-8")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    STRANGE[what](path)
    began = time.process_time()
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, "test")
    assert time.process_time() - began < 1
    (told,) = [each for each in caught.value.findings if each.where.file == name and "cannot be read" in each.message]
    assert (told.where.line, bool(told.remedy)) == (1, True)
    assert what in told.message


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    """And not a byte more."""
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
    """Neither expressions that look for numbers nor the reader of YAML takes more than a moment for a small file."""
    (tmp_path / "f.yaml").write_text(text, encoding="utf-8")
    findings: list[Finding] = []
    began = time.process_time()
    plain(read(tmp_path, "f.yaml", findings))
    assert time.process_time() - began < 10
    assert [fault in each.message for each in findings] == ([True] if fault else []) if fault else findings == []


def test_a_file_has_so_many_values_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused, while the file is read."""
    monkeypatch.setattr(source, "_MAX_VALUES", 1000)
    for values, refused in ((996, False), (997, True)):
        (tmp_path / "f.yaml").write_text(f"a: [{'1,' * values}1]", encoding="utf-8")
        findings: list[Finding] = []
        read(tmp_path, "f.yaml", findings)
        assert ["the file has more than 1000 values" in each.message for each in findings] == [True] * refused


@pytest.mark.parametrize("path", ["x" * 256, "a/" + "ü" * 128, "a/" * 600])
def test_a_path_that_no_file_can_have_is_refused(path: str) -> None:
    """To look for the file would fail."""
    with pytest.raises(ValidationError, match="a path has at most 1024 bytes, and each name in it at most 255"):
        Image(build=path)
