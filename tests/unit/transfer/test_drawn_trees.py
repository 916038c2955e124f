"""Drawn folders, with names that a shell, a protocol or a person might misread."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, transfer_fails
from trainstack.transfer import chunks as parts
from trainstack.transfer.fetch import fetch
from trainstack.transfer.local_files import PARTIAL
from trainstack.transfer.upload import upload
from trainstack.transfer.volume_files import list_files

WORDS = [
    *("list of folders", "log files", " files\n", " folders\n", " others", " parts\n", " end\n", "end", "0", "1\n2"),
    *(
        "\n",
        "a\n",
        "\nb",
        "\\",
        "\\n",
        "\\\n",
        "-rf",
        "--",
        "-",
        "~",
        "*",
        "?",
        "[a]",
        "$(x)",
        "`x`",
        "'",
        '"',
        "'\n\"",
    ),
    *(" ", "\t", "\r", "a\rb", "\u2028", "\x7f", "\x01", "...", "..a", "lost+found", "_SUCCESS", "taken", "whole"),
    *(os.fsdecode(b"\xff\n"), os.fsdecode(b"caf\xe9"), "é", "small", PARTIAL, f"{PARTIAL}-", "n" * 255, "-n\n" * 60),
    *(f"{'0' * 32}-{'1' * 32}", "12 3,4,5 .", f"{'0' * 64}  .", "find: x: Permission denied"),
    *("command terminated with exit code 200", "x: No such file or directory"),
]
NAME = st.one_of(
    st.sampled_from(WORDS),
    st.binary(min_size=1, max_size=20)
    .map(lambda name: name.replace(b"/", b"").replace(b"\0", b""))
    .filter(lambda name: name not in (b"", b".", b".."))
    .map(os.fsdecode),
)
CONTENT = st.one_of(st.binary(max_size=40), st.sampled_from([b"3\0end\0", b"b" * 5000, b"c" * 20_000]))
Drawn = dict[str, "bytes | Drawn"]
TREE = st.dictionaries(
    NAME,
    st.one_of(CONTENT, st.recursive(CONTENT, lambda below: st.dictionaries(NAME, below, max_size=3), max_leaves=6)),
    min_size=3,
    max_size=9,
)
BIG = 16_000
"""The size from which a file is transferred in chunks, in these tests; chunks are a quarter of it."""


def make(folder: Path, drawn: Drawn) -> None:
    """Create the files and folders of a drawn tree."""
    folder.mkdir()
    for name, below in drawn.items():
        if isinstance(below, bytes):
            (folder / name).write_bytes(below)
        else:
            make(folder / name, below)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return everything below a folder by path: the content of files, None for folders."""
    entries: dict[str, bytes | None] = {}
    for place, folders, files in os.walk(folder):
        entries.update({os.path.relpath(Path(place, name), folder): None for name in folders})
        entries.update({os.path.relpath(Path(place, name), folder): Path(place, name).read_bytes() for name in files})
    return entries


@pytest.mark.parametrize("image", ["busybox", "gnu"])
@hypothesis_settings(
    max_examples=hypothesis_settings().max_examples // 5, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=TREE, place=st.sampled_from(["data", ".", "deep/data/"]))
def test_an_upload_is_fetched_bit_equal_or_the_command_fails(
    tmp_path: Path, image: str, drawn: Drawn, place: str
) -> None:
    """It fails for a tree without files and for the reserved name, before it sends anything."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        patch.setattr(parts, "BIG_FILE_BYTES", BIG)
        patch.setattr(parts, "CHUNK_BYTES", BIG // 4)
        volume = make_volume(Path(folder), patch, image)
        make(Path(folder, "source"), drawn)
        check_round_trip(volume, Path(folder), place)


def check_round_trip(volume: FakeVolume, folder: Path, place: str) -> None:
    """Transfer the source to the volume and back, or expect its refusal."""
    expected = contents(folder / "source")
    files = {name: content for name, content in expected.items() if content is not None}
    if not files or any(PARTIAL in name.split("/") for name in expected):
        with transfer_fails():
            upload(LOADER, folder / "source", place)
        assert contents(volume.root) == {}
        return
    assert upload(LOADER, folder / "source", place).files == len(files)
    assert contents(volume.root / place) == expected
    assert list_files(LOADER, place).keys() == files.keys()
    fetched = fetch(LOADER, place, folder / "target")
    assert (fetched.sent, fetched.changed) == (len(files), ())
    assert contents(folder / "target") == expected
    shutil.rmtree(folder / "target")
