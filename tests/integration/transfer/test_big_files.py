"""Big files to a volume and back: in verified chunks, resumed after the last complete one."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.filesize import decimal

from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, transfer_fails, write
from trainstack.cli.output import progress
from trainstack.transfer import attempts as tries
from trainstack.transfer import chunks as parts
from trainstack.transfer.fetch import fetch
from trainstack.transfer.local_files import PARTIAL
from trainstack.transfer.upload import upload
from trainstack.transfer.volume_files import list_files

CHUNK = 2 << 20
"""Bytes of a chunk in these tests."""
SIZE = 3 * CHUNK + 7
NAME = os.fsdecode(b"-a b/caf\xe9.pt")

DAMAGE = "import os; all(os.write(1, data.replace(b'x', b'y')) for data in iter(lambda: os.read(0, 1 << 16), b''))"
"""A program that passes bytes on, with every x replaced by y."""


@pytest.fixture(autouse=True)
def _small_is_big(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "BIG_FILE_BYTES", CHUNK)
    monkeypatch.setattr(parts, "CHUNK_BYTES", CHUNK)


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeVolume:
    """Provide a volume behind a loader of our helper image."""
    return make_volume(tmp_path, monkeypatch)


def make_big(folder: Path) -> Path:
    """Create a big file of this name in a folder."""
    path = folder / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(SIZE))
    return path


def cut_once(volume: FakeVolume, tmp_path: Path, script: str, how: str) -> None:
    """Break the first connection that runs this script."""
    once = tmp_path / "cut"
    volume.kubectl_does(f'case "$*" in *{script}*) [ -e {once} ] || {{ : > {once}; {how}; exit 1; }};; esac; pod "$@"')


def cut_upload(volume: FakeVolume, tmp_path: Path) -> None:
    """Break the first upload after two and a half chunks."""
    cut_once(volume, tmp_path, "truncate", f'head -c {5 * CHUNK // 2} | pod "$@"')


def cut_fetch(volume: FakeVolume, tmp_path: Path) -> None:
    """Break the first fetch after two and a half chunks."""
    cut_once(volume, tmp_path, '"digest &"', f'pod "$@" | head -c {5 * CHUNK // 2}')


@pytest.mark.parametrize("image", ["busybox", "gnu"])
def test_a_big_file_survives_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    """Its time and any name are kept, no other file remains, and an existing file is replaced."""
    volume = make_volume(tmp_path, monkeypatch, image)
    source = make_big(tmp_path / "source")
    os.utime(source, (1_000_000_000, 1_000_000_000))
    write(volume.root / "data", {NAME: "before"})
    uploaded = upload(LOADER, tmp_path / "source", "data")
    assert (uploaded.sent, uploaded.sent_bytes, uploaded.resumed_bytes) == (1, SIZE, 0)
    assert (volume.root / "data" / NAME).read_bytes() == source.read_bytes()
    assert (volume.root / "data" / NAME).stat().st_mtime == 1_000_000_000
    assert upload(LOADER, tmp_path / "source", "data").sent == 0

    target = tmp_path / "target"
    fetched = fetch(LOADER, "data", target)
    assert (fetched.sent, fetched.sent_bytes, fetched.changed) == (1, SIZE, ())
    assert (target / NAME).read_bytes() == source.read_bytes()
    assert fetch(LOADER, "data", target).sent == 0
    assert not (target / PARTIAL).exists()
    assert not (volume.root / "data" / PARTIAL).exists()


def test_a_cut_connection_is_made_anew(tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]) -> None:
    """The command reconnects and reports it."""
    source = make_big(tmp_path / "source")
    cut_upload(volume, tmp_path)
    uploaded = upload(LOADER, tmp_path / "source", "data")
    assert (volume.root / "data" / NAME).read_bytes() == source.read_bytes()
    assert uploaded.sent_bytes <= SIZE + 2 * CHUNK
    assert "the upload was interrupted" in capsys.readouterr().err

    (tmp_path / "cut").unlink()
    cut_fetch(volume, tmp_path)
    fetched = fetch(LOADER, "data", tmp_path / "target")
    assert (tmp_path / "target" / NAME).read_bytes() == source.read_bytes()
    assert fetched.sent_bytes == SIZE + CHUNK // 2


def test_the_next_command_resumes(tmp_path: Path, volume: FakeVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    """It resumes after the last complete chunk of the first command."""
    monkeypatch.setattr(tries, "PAUSES_SECONDS", ())
    source = make_big(tmp_path / "source")
    cut_upload(volume, tmp_path)
    with transfer_fails():
        upload(LOADER, tmp_path / "source", "data")
    assert not (volume.root / "data" / NAME).exists()
    uploaded = upload(LOADER, tmp_path / "source", "data")
    assert (uploaded.resumed_bytes, uploaded.sent_bytes) == (2 * CHUNK, SIZE - 2 * CHUNK)
    assert (volume.root / "data" / NAME).read_bytes() == source.read_bytes()

    (tmp_path / "cut").unlink()
    cut_fetch(volume, tmp_path)
    with transfer_fails():
        fetch(LOADER, "data", tmp_path / "target")
    assert not (tmp_path / "target" / NAME).exists()
    fetched = fetch(LOADER, "data", tmp_path / "target")
    assert (fetched.resumed_bytes, fetched.sent_bytes) == (2 * CHUNK, SIZE - 2 * CHUNK)
    assert (tmp_path / "target" / NAME).read_bytes() == source.read_bytes()


@pytest.mark.parametrize("way", ["upload", "fetch"])
def test_what_is_there_already_is_seen_chunk_by_chunk(
    tmp_path: Path, volume: FakeVolume, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    """Progress is reported during the comparison, which takes minutes for a file of many chunks."""
    monkeypatch.setattr(tries, "PAUSES_SECONDS", ())
    monkeypatch.setattr(progress, "LINE_SECONDS", 0)
    monkeypatch.setattr(progress, "UPDATE_SECONDS", 0)
    make_big(tmp_path / "source" if way == "upload" else volume.root / "data")

    def repeat_fetch() -> None:
        upload(LOADER, tmp_path / "source", "data") if way == "upload" else fetch(LOADER, "data", tmp_path / "target")

    (cut_upload if way == "upload" else cut_fetch)(volume, tmp_path)
    with transfer_fails():
        repeat_fetch()
    capsys.readouterr()
    repeat_fetch()
    stderr = capsys.readouterr().err
    assert f"big files: {decimal(CHUNK)} of" in stderr if way == "upload" else f"1 files: {decimal(CHUNK)} of" in stderr


@pytest.mark.parametrize("what", ["the source", "the part"])
def test_only_the_same_bytes_are_resumed(
    tmp_path: Path, volume: FakeVolume, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The remains of another state of the file are not used, nor those damaged on the volume."""
    monkeypatch.setattr(tries, "PAUSES_SECONDS", ())
    source = make_big(tmp_path / "source")
    cut_upload(volume, tmp_path)
    with transfer_fails():
        upload(LOADER, tmp_path / "source", "data")
    if what == "the source":
        make_big(tmp_path / "source")
    else:
        (part,) = (volume.root / "data" / PARTIAL).iterdir()
        with part.open("r+b") as file:
            file.write(b"damaged")
    uploaded = upload(LOADER, tmp_path / "source", "data")
    assert (uploaded.resumed_bytes, uploaded.sent_bytes) == (0, SIZE)
    assert (volume.root / "data" / NAME).read_bytes() == source.read_bytes()


def test_what_is_damaged_on_its_way_to_the_volume_never_gets_its_name(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """The upload is retried, and then fails."""
    make_big(tmp_path / "source").write_bytes(b"x" * SIZE)
    volume.set_stderr_timeout(0.05)
    volume.kubectl_does(f'case "$*" in *truncate*) {sys.executable} -c "{DAMAGE}" | pod "$@"; exit;; esac; pod "$@"')
    with transfer_fails():
        upload(LOADER, tmp_path / "source", "data")
    assert "was damaged in transit" in capsys.readouterr().err
    assert not (volume.root / "data" / NAME).exists()


def test_what_is_damaged_on_its_way_here_never_gets_its_name(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fetch is retried, and then fails."""
    make_big(volume.root / "data").write_bytes(b"x" * SIZE)
    volume.kubectl_does('case "$*" in *"digest &"*) pod "$@" | tr x y; exit;; esac; pod "$@"')
    with transfer_fails():
        fetch(LOADER, "data", tmp_path / "target")
    assert "was damaged in transit" in capsys.readouterr().err
    assert not (tmp_path / "target" / NAME).exists()


def test_a_full_volume_is_reported_at_once(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """A retry would not help."""
    make_big(tmp_path / "source")
    tries = tmp_path / "tries"
    words = "dd: error writing: No space left on device\\ncommand terminated with exit code 1"
    volume.kubectl_does(f'case "$*" in *truncate*) echo >> {tries}; printf "{words}" >&2; exit 1;; esac; pod "$@"')
    with transfer_fails():
        upload(LOADER, tmp_path / "source", "data")
    stderr = capsys.readouterr().err
    assert "No space left on device" in stderr
    assert "run the same command again to resume" in stderr
    assert tries.read_text() == "\n"


def test_a_file_that_grows_is_fetched_as_it_was(tmp_path: Path, volume: FakeVolume) -> None:
    """The log of an active run is fetched up to its size at the start, with a note."""
    log = make_big(volume.root / "run")
    before = log.read_bytes()
    volume.kubectl_does(
        f'case "$*" in *"digest &"*) for file in "{log.parent}/"*; do echo more >> "$file"; done;; esac; pod "$@"'
    )
    fetched_log = fetch(LOADER, "run", tmp_path / "target")
    assert fetched_log.changed == (NAME,)
    assert (tmp_path / "target" / NAME).read_bytes() == before


def test_a_source_that_is_written_to_is_reported(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mixture of two states is not renamed to the file."""
    source = make_big(tmp_path / "source")
    volume.kubectl_does(f'case "$*" in *truncate*) touch -d @1 "{source.parent}/"*;; esac; pod "$@"')
    with transfer_fails():
        upload(LOADER, tmp_path / "source", "data")
    assert "changed during the upload" in capsys.readouterr().err
    assert not (volume.root / "data" / NAME).exists()


def test_a_folder_that_appears_at_the_files_name_is_reported(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is not moved into it."""
    make_big(tmp_path / "source").rename(tmp_path / "source" / "model.pt")
    folder = volume.root / "data" / "model.pt"
    volume.kubectl_does(f'case "$*" in *truncate*) mkdir -p {folder};; esac; pod "$@"')
    with transfer_fails():
        upload(LOADER, tmp_path / "source", "data")
    assert "is a folder on the volume" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_two_that_send_the_same_file_at_once_do_not_share_a_part(tmp_path: Path, volume: FakeVolume) -> None:
    """Each sends the whole file, neither truncates confirmed bytes of the other, and both succeed at once."""
    source = make_big(tmp_path / "source")
    first, reached, proceed = tmp_path / "first", tmp_path / "going", tmp_path / "go"
    halt = f"head -c {5 * CHUNK // 2}; : > {reached}; while [ ! -e {proceed} ]; do sleep 0.05; done; cat"
    halted = f'[ -e {first} ] || {{ : > {first}; {{ {halt}; }} | pod "$@"; exit; }}'
    volume.kubectl_does(f'case "$*" in *truncate*) {halted};; esac; pod "$@"')
    with ThreadPoolExecutor(1) as pool:
        one = pool.submit(upload, LOADER, tmp_path / "source", "data")
        deadline = time.monotonic() + 60
        while not reached.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        try:
            other = upload(LOADER, tmp_path / "source", "data")
        finally:
            proceed.touch()
        assert (other.resumed_bytes, other.sent_bytes) == (0, SIZE)
        assert (one.result().resumed_bytes, one.result().sent_bytes) == (0, SIZE)
    assert (volume.root / "data" / NAME).read_bytes() == source.read_bytes()
    assert not (volume.root / "data" / PARTIAL).exists()


@pytest.mark.parametrize("image", ["busybox", "gnu"])
@pytest.mark.parametrize("minutes", [0, 5], ids=["alive", "dead"])
def test_a_part_is_taken_from_the_dead_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: int, image: str
) -> None:
    """A command that was killed with its loader did not release its part."""
    volume = make_volume(tmp_path, monkeypatch, image)
    monkeypatch.setattr(tries, "PAUSES_SECONDS", ())
    source = make_big(tmp_path / "source")
    cut_upload(volume, tmp_path)
    with transfer_fails():
        upload(LOADER, tmp_path / "source", "data")
    (part,) = (volume.root / "data" / PARTIAL).iterdir()
    taken_over = part.rename(f"{part}.0a1b2c3d-1")
    os.utime(taken_over, (time.time() - 60 * minutes,) * 2)
    uploaded = upload(LOADER, tmp_path / "source", "data")
    assert uploaded.resumed_bytes == (2 * CHUNK if minutes else 0)
    assert (volume.root / "data" / NAME).read_bytes() == source.read_bytes()
    assert taken_over.exists() == (not minutes)


def test_a_part_that_another_takes_is_not_written_on(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its writer notices and starts another part: the file has no hole."""
    source = make_big(tmp_path / "source")
    partial = volume.root / "data" / PARTIAL
    volume.set_stderr_timeout(0.05)
    take = f'for each in {partial}/*; do mv "$each" {tmp_path}/taken; done'
    first_bytes, total_bytes = 5 * CHUNK // 2, SIZE + len(os.fsencode(f"./{NAME}\n"))
    # kubectl exits with the script, and does not wait for more input.
    steps = f"head -c {first_bytes}; {take}; head -c {total_bytes - first_bytes}"
    cut_once(volume, tmp_path, "truncate", f'{{ {steps}; }} | pod "$@"; exit')
    upload(LOADER, tmp_path / "source", "data")
    assert "the upload was interrupted" in capsys.readouterr().err
    assert (volume.root / "data" / NAME).read_bytes() == source.read_bytes()


@pytest.mark.parametrize("image", ["busybox", "gnu"])
def test_parts_of_a_file_are_removed_when_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], image: str
) -> None:
    """Parts of other states of the file and of killed commands are removed; those of other files or in use are kept."""
    volume = make_volume(tmp_path, monkeypatch, image)
    monkeypatch.setattr(tries, "PAUSES_SECONDS", ())
    make_big(tmp_path / "source")
    cut_upload(volume, tmp_path)
    with transfer_fails():
        upload(LOADER, tmp_path / "source", "data")
    (part,) = (volume.root / "data" / PARTIAL).iterdir()
    size = part.stat().st_size
    list_files(LOADER, ".")
    assert f"{decimal(size)} of incomplete uploads exist, for example in ./data/{PARTIAL};" in capsys.readouterr().err

    another = part.with_name(f"{'0' * 32}-{'0' * 32}")
    dead, alive = (part.with_name(f"{part.name}.0a1b2c3d-{number}") for number in (1, 2))
    for path in (another, dead, alive):
        path.write_bytes(b"begun")
    for path in (another, dead):
        os.utime(path, (time.time() - 300,) * 2)
    make_big(tmp_path / "source")
    upload(LOADER, tmp_path / "source", "data")
    assert sorted(part.parent.iterdir()) == sorted([another, alive])
