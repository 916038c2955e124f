"""Two names that are one file on the other side: by a link, or where a file system ignores a difference of names."""

import os
from pathlib import Path

import pytest

from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, transfer_fails, write
from trainstack.transfer import chunks
from trainstack.transfer.fetch import fetch
from trainstack.transfer.upload import upload

SIZES = {"small": "1", "big": "1" * 5000}


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeVolume:
    """Provide a volume; files of 4,000 bytes are big."""
    monkeypatch.setattr(chunks, "BIG_FILE_BYTES", 4000)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2000)
    return make_volume(tmp_path, monkeypatch)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Provide a target with a link between two of its folders."""
    (tmp_path / "target" / "best").mkdir(parents=True)
    (tmp_path / "target" / "last").symlink_to("best")
    return tmp_path / "target"


@pytest.mark.parametrize("last", SIZES)
@pytest.mark.parametrize("best", SIZES)
def test_no_fetched_file_replaces_another_of_the_volume(
    volume: FakeVolume, target: Path, capsys: pytest.CaptureFixture[str], best: str, last: str
) -> None:
    """Neither a small nor a big file does, in any order, nor in a second command."""
    write(volume.root / "data", {"best/model": SIZES[best], "last/model": SIZES[last].replace("1", "2")})
    for _ in range(2):
        with transfer_fails():
            fetch(LOADER, "data", target)
        stderr = capsys.readouterr().err
        assert "is the path of two files of the volume, " in stderr
        assert "'best/model'" in stderr
        assert "'last/model'" in stderr


@pytest.mark.parametrize("size", SIZES)
def test_a_file_that_was_complete_is_not_replaced(
    volume: FakeVolume, target: Path, capsys: pytest.CaptureFixture[str], size: str
) -> None:
    """An earlier command has fetched it, for example when the other file did not exist."""
    write(volume.root / "data", {"best/model": SIZES[size]})
    fetch(LOADER, "data", target)
    write(volume.root / "data", {"last/model": SIZES[size].replace("1", "2")})
    with transfer_fails():
        fetch(LOADER, "data", target)
    assert "is the path of two files" in capsys.readouterr().err
    assert (target / "best" / "model").read_text() == SIZES[size]


@pytest.mark.parametrize("size", SIZES)
def test_two_equal_files_need_two_files_here(
    volume: FakeVolume, target: Path, capsys: pytest.CaptureFixture[str], size: str
) -> None:
    """The totals are those of the disk: a later change of one would change both."""
    write(target, {"best/model": SIZES[size]})
    write(volume.root / "data", {"best/model": SIZES[size], "last/model": SIZES[size]})
    with transfer_fails():
        fetch(LOADER, "data", target)
    assert "is the path of two files" in capsys.readouterr().err


@pytest.mark.parametrize("size", SIZES)
def test_hard_links_here_are_files(tmp_path: Path, volume: FakeVolume, size: str) -> None:
    """Somebody has replaced equal files by hard links to save space; a change is written to a file of its own."""
    write(volume.root / "data", {"best/model": SIZES[size], "last/model": SIZES[size]})
    target = tmp_path / "another"
    fetch(LOADER, "data", target)
    (target / "last" / "model").unlink()
    os.link(target / "best" / "model", target / "last" / "model")
    assert fetch(LOADER, "data", target).sent == 0
    write(volume.root / "data", {"last/model": SIZES[size].replace("1", "2")})
    assert fetch(LOADER, "data", target).sent == 1
    assert (target / "best" / "model").read_text() == SIZES[size]


@pytest.mark.parametrize("size", SIZES)
def test_a_link_to_an_equal_file_here_becomes_a_file(tmp_path: Path, volume: FakeVolume, size: str) -> None:
    """The file that it leads to may change with the next fetch."""
    write(volume.root / "data", {"best": SIZES[size], "last": SIZES[size]})
    target = write(tmp_path / "another", {"best": SIZES[size]})
    (target / "last").symlink_to("best")
    assert fetch(LOADER, "data", target).sent == 1
    assert not (target / "last").is_symlink()


@pytest.mark.parametrize("last", SIZES)
@pytest.mark.parametrize("best", SIZES)
def test_no_uploaded_file_replaces_another_of_the_upload(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str], best: str, last: str
) -> None:
    """The link is on the volume. The file that a run waits for is not sent."""
    files = {"best/model": SIZES[best], "last/model": SIZES[last].replace("1", "2"), "manifest.json": "{}"}
    source = write(tmp_path / "source", files)
    (volume.root / "data" / "best").mkdir(parents=True)
    (volume.root / "data" / "last").symlink_to("best")
    with transfer_fails():
        upload(LOADER, source, "data", last_file="manifest.json")
    assert "'best/model' and 'last/model' are one file in data on the volume" in capsys.readouterr().err
    assert not (volume.root / "data" / "manifest.json").exists()


def test_a_folder_of_the_volume_may_be_a_link(tmp_path: Path, volume: FakeVolume) -> None:
    """One path leads to each file."""
    source = write(tmp_path / "source", {"last/model": "1", "last/big": SIZES["big"], "best": "x"})
    (volume.root / "disk").mkdir()
    (volume.root / "data").mkdir()
    (volume.root / "data" / "last").symlink_to("../disk")
    assert upload(LOADER, source, "data").sent == 3
    assert sorted(path.name for path in (volume.root / "disk").iterdir()) == ["big", "model"]
