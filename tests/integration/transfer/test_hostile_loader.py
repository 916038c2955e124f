"""What a data loader prints is input: somebody else may run in its pod. Each answer ends in one clear error."""

import os
import shlex
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, transfer_fails, write
from trainstack.transfer import attempts
from trainstack.transfer.fetch import fetch
from trainstack.transfer.trial_records import read_records
from trainstack.transfer.upload import upload
from trainstack.transfer.volume_files import list_files


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeVolume:
    """Provide a volume with one file and one record; a broken connection is not retried."""
    volume = make_volume(tmp_path, monkeypatch)
    monkeypatch.setattr(attempts, "PAUSES_SECONDS", ())
    volume.set_stderr_timeout(0.05)
    write(volume.root / "data", {"a": "x"})
    write(volume.root / "runs" / "digits-1", {"_SUCCESS": "{}", "run.json": "{}"})
    return volume


def frames(*found: list[str]) -> str:
    """Return these frames, and the last one, as a command that prints them."""
    fields = [text for frame in (*found, ["end"]) for text in (str(len(frame)), *frame)]
    return "printf " + shlex.quote("".join(f"{field}\\000" for field in fields))


def answer(volume: FakeVolume, word: str, script: str) -> None:
    """Answer the script with this word by the output of another one."""
    volume.kubectl_does(f'case "$*" in *{shlex.quote(word)}*) cat >/dev/null; {script}; exit;; esac; pod "$@"')


MANY = "9" * 5000
STAMP = "1,1,1"


@pytest.mark.parametrize(
    ("word", "script"),
    [
        ("frame files", frames(["folder"], ["files", f"{MANY} {STAMP}", "./a"])),
        ("frame files", frames(["folder"], ["files", f"{10**19 - 1} {STAMP}", "./a"])),
        ("frame files", frames(["folder"], ["files"])),
        ("frame files", frames(["folder"], ["files", "1 1,1,1"])),
        ("frame files", frames(["folder"], ["files", f"-1 {STAMP}", "./a"])),
        ("frame files", frames(["folder"], ["files", f"1e400 {STAMP}", "./a"])),
        ("frame files", frames(["folder"], ["files", f"1 {STAMP}", "./../../a"])),
        ("frame files", frames(["folder"], ["files", f"1 {STAMP}", "/etc/a"])),
        ("frame files", frames(["folder"], ["files", f"1 {STAMP}", ""])),
        ("frame files", frames(["folder"], ["files", f"1 {STAMP}", "./" + "n" * 300])),
        ("frame files", frames(["folder"], ["folders", "./../x"])),
        ("frame files", frames(["folder"], ["folders", "./a"], ["files", f"1 {STAMP}", "./a"])),
        ("frame files", frames(["other"])),
        ("frame files", f"printf '{MANY}\\000'"),
        ("frame files", "printf '\\000\\000'"),
        ("sha256sum", frames([f"{'0' * 64}  ./b", "./b"])),
        ("sha256sum", frames(["0  ./a", "./a"])),
        ("wc -c", f"printf '3\\000end\\000{MANY}\\000{MANY}\\000'"),
        ("wc -c", "printf '3\\000end\\000-1\\000one\\000'"),
    ],
)
def test_lists_of_any_content(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str], word: str, script: str
) -> None:
    """Sizes may have 5,000 digits, and names may lead anywhere; nothing is written outside the target."""
    answer(volume, word, script)
    with transfer_fails():
        fetch(LOADER, "data", tmp_path / "parent" / "target")
    assert len(capsys.readouterr().err) < 1000
    assert {path.name for path in tmp_path.glob("parent/*")} <= {"target"}


@pytest.mark.parametrize(
    "found",
    [
        [["finished", "digits-1", "two"]],
        [["finished", "digits-1", MANY]],
        [["begun", "another", "1"]],
        [["facts", "e30=", "0"]],
        [["finished", "digits-1", "0"], ["facts", "no base64!", "0"]],
        [["finished", "digits-1", "0"], ["facts", "\xff", "0"]],
        [["finished", "digits-1", "0"], ["other", "e30=", "0"]],
        [["finished"]],
    ],
)
def test_records_of_any_content(volume: FakeVolume, found: list[list[str]]) -> None:
    """The error names the reading, and no record is made up."""
    answer(volume, "newest()", frames(*found))
    with transfer_fails():
        read_records(LOADER, "runs", ["digits-1"])


def member(**fields: object) -> bytes:
    """Return an archive with one member of these fields, whose content is an x."""
    info = tarfile.TarInfo("./a")
    for name, value in fields.items():
        setattr(info, name, value)
    return info.tobuf(tarfile.PAX_FORMAT) + b"x".ljust(tarfile.BLOCKSIZE, b"\0") + bytes(2 * tarfile.BLOCKSIZE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: member(type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        lambda: member(type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        lambda: member(type=tarfile.LNKTYPE, linkname="old"),
        lambda: member(type=tarfile.FIFOTYPE),
        lambda: member(type=b"?", size=1 << 60),
        lambda: member(name="../b", size=1),
        lambda: member(size=1, pax_headers={"GNU.sparse.map": "0,x", "GNU.sparse.size": "1", "GNU.sparse.name": "a"}),
        lambda: b"\0" * 10240,
        lambda: os.urandom(10240),
    ],
    ids=["link", "hard link", "hard link to another file", "pipe", "unknown", "outside", "sparse", "zeros", "noise"],
)
def test_archives_of_any_content(tmp_path: Path, volume: FakeVolume, make: Callable[[], bytes]) -> None:
    """Nothing but the file that was requested is written, and no file of this machine is read for it."""
    (tmp_path / "archive").write_bytes(make())
    write(tmp_path / "target", {"old": "y"})
    answer(volume, "-cf -", f"cat {tmp_path}/archive")
    with transfer_fails():
        fetch(LOADER, "data", tmp_path / "target")
    assert not (tmp_path / "target" / "a").exists()
    assert not (tmp_path / "b").exists()


def test_lists_of_links_and_contents_of_any_content(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """The content of a record is compared with its hash; `ls` and `upload` read the same lists."""
    answer(volume, "base64", frames(["./_SUCCESS", "no base64!", "0"]))
    with transfer_fails():
        fetch(LOADER, "runs/digits-1", tmp_path / "target")
    answer(volume, "base64", frames(["./other", "e30=", "0"]))
    with transfer_fails():
        fetch(LOADER, "runs/digits-1", tmp_path / "target")
    answer(volume, "base64", frames(["./_SUCCESS", "e30x", "0"]).replace("1\\000end", "2\\000end\\0002"))
    with transfer_fails():
        fetch(LOADER, "runs/digits-1", tmp_path / "target")
    assert "damaged in transit" in capsys.readouterr().err
    answer(volume, "frame files", frames(["folder"], ["files", f"{MANY} {STAMP}", "./a"]))
    with transfer_fails():
        list_files(LOADER, "data")
    with transfer_fails():
        upload(LOADER, write(tmp_path / "source", {"a": "y"}), "data")
