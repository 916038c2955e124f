"""The data set's files: the same bytes on every machine, read from MNIST's format."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from workloads.digits.errors import ProgramError
from workloads.digits.idx import IdxArray, decode, encode, read
from workloads.digits.prepare import IMAGES, LABELS, MANIFEST, TEST_IMAGES, TEST_LABELS, write_dataset

COMMITTED = Path(__file__).parents[3] / "workloads" / "digits" / "data.json"


def test_the_committed_manifest_is_current(tmp_path: Path) -> None:
    """data.json is byte for byte the manifest that prepare writes: run `python -m workloads.digits.prepare` if not."""
    assert write_dataset(tmp_path) == COMMITTED.read_text()
    assert (tmp_path / MANIFEST).read_bytes() == COMMITTED.read_bytes()


def test_the_manifest_describes_the_files(tmp_path: Path) -> None:
    """It has size and sha256 of each, and the folder has no other file."""
    manifest = json.loads(write_dataset(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*manifest["files"], MANIFEST])
    for name, entry in manifest["files"].items():
        content = (tmp_path / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}


def test_the_digits_are_grey_images_and_their_labels(tmp_path: Path) -> None:
    """They are 1,797 images of 8x8, pixels over the whole range of a byte, labels 0 to 9."""
    assert json.loads(write_dataset(tmp_path))["count"] == 1797
    images, labels = read(tmp_path, IMAGES), read(tmp_path, LABELS)
    assert images is not None
    assert labels is not None
    assert (images.shape, labels.shape) == ((1797, 8, 8), (1797,))
    assert (min(images.data), max(images.data)) == (0, 255)
    assert set(labels.data) == set(range(10))


def test_the_last_images_may_be_test_files(tmp_path: Path) -> None:
    """The images and their order are the same, and each is in one file, as in MNIST."""
    assert json.loads(write_dataset(tmp_path / "split", test_images=197))["count"] == 1797
    write_dataset(tmp_path / "whole")
    for training, test in ((IMAGES, TEST_IMAGES), (LABELS, TEST_LABELS)):
        parts = [read(tmp_path / "split", name) for name in (training, test)]
        everything = read(tmp_path / "whole", training)
        assert everything is not None
        assert [part.shape[0] for part in parts if part] == [1600, 197]
        assert b"".join(part.data for part in parts if part) == everything.data


def test_idx_is_the_published_format() -> None:
    """Two zero bytes, type 8, number of dimensions, big-endian sizes, then the bytes."""
    array = IdxArray(shape=(2, 1, 3), data=b"abcdef")
    assert encode(array) == b"\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03abcdef"
    assert decode(encode(array), "here") == array


def test_packed_files_are_read_and_plain_ones_preferred(tmp_path: Path) -> None:
    """MNIST is distributed as .gz."""
    packed, plain = IdxArray(shape=(1,), data=b"a"), IdxArray(shape=(1,), data=b"b")
    assert read(tmp_path, "x") is None
    (tmp_path / "x.gz").write_bytes(gzip.compress(encode(packed)))
    assert read(tmp_path, "x") == packed
    (tmp_path / "x").write_bytes(encode(plain))
    assert read(tmp_path, "x") == plain


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file"),
        (b"PNG!", "not an IDX file"),
        (b"\0\0\x0d\x01\0\0\0\x01", "element type 0x0d"),
        (b"\0\0\x08\x02\0\0\0\x01", "header is truncated"),
        (b"\0\0\x08\x01\0\0\0\x05abc", "3 bytes of data, but the header specifies 5"),
    ],
)
def test_a_damaged_file_is_refused(content: bytes, message: str) -> None:
    """The error has the file and the fault."""
    with pytest.raises(ProgramError, match=f"^here: .*{message}"):
        decode(content, "here")


def test_a_damaged_gzip_is_refused(tmp_path: Path) -> None:
    """An example is an interrupted download."""
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"abc")[:-4])
    with pytest.raises(ProgramError, match="cannot read x in"):
        read(tmp_path, "x")
