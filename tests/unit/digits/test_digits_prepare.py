"""MNIST's files from a folder, and digits in MNIST's sizes: verified, plain, and with a manifest."""

import gzip
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from workloads.digits.errors import ProgramError
from workloads.digits.idx import IdxArray, encode, read
from workloads.digits.prepare import IMAGES, LABELS, MANIFEST, TEST_IMAGES, TEST_LABELS, write_files
from workloads.digits.prepare_enlarged import SOURCE, enlarged_files
from workloads.digits.prepare_mnist import NAMES, mnist_files
from workloads.digits.splits import epoch_batches

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "workloads" / "digits" / "enlarged.json"
TRAIN, TEST = 30, 10


@cache
def few() -> dict[str, bytes]:
    """Return small files of MNIST's format."""
    return enlarged_files(TRAIN, TEST)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """Create a folder with small files of MNIST's format, half of them packed, as users have them."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, content in few().items():
        packed = name in (IMAGES, TEST_LABELS)
        file = folder / (f"{name}.gz" if packed else name)
        file.write_bytes(gzip.compress(content) if packed else content)
    return folder


def run_prepare(folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the command that `trainstack up` runs for `prepare`."""
    return subprocess.run(
        [sys.executable, "-m", "workloads.digits.prepare_mnist", str(folder)],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_packed_and_plain_files_give_the_same_data_set(published: Path, tmp_path: Path) -> None:
    """The output is plain files with a manifest: with gzip's bytes each download would be another run."""
    process = run_prepare(tmp_path / "out", MNIST_FOLDER=str(published))
    assert (process.returncode, process.stdout) == (0, f"wrote {TRAIN + TEST} images to {tmp_path / 'out'}\n"), (
        process.stderr
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted((*NAMES, MANIFEST))
    assert {name: (tmp_path / "out" / name).read_bytes() for name in NAMES} == few()
    assert json.loads((tmp_path / "out" / MANIFEST).read_text())["count"] == TRAIN + TEST
    process = run_prepare(tmp_path / "again", MNIST_FOLDER=str(tmp_path / "out"))
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "again" / MANIFEST).read_bytes() == (tmp_path / "out" / MANIFEST).read_bytes()


def test_missing_files_are_named(tmp_path: Path) -> None:
    """The error has the folder, and nothing is written."""
    process = run_prepare(tmp_path / "out", MNIST_FOLDER=str(tmp_path / "none"))
    assert process.returncode == 1
    assert f"{tmp_path / 'none'} lacks {', '.join(NAMES)}" in process.stderr
    assert "MNIST_FOLDER" in process.stderr
    assert not (tmp_path / "out").exists()
    assert "error: data/mnist lacks" in run_prepare(tmp_path / "out").stderr


def small(images: int, labels: int, size: int = 28) -> tuple[bytes, bytes]:
    """Return an image file and a label file with only zeros in these shapes."""
    data = IdxArray(shape=(images, size, size), data=bytes(images * size * size))
    return encode(data), encode(IdxArray(shape=(labels,), data=bytes(labels)))


WRONG = {
    "magic": (IMAGES, b"\x89PNG" + bytes(12), "not an IDX file"),
    "a label file's magic": (IMAGES, small(10, 10)[1], r"train-images-idx3-ubyte has shape \(10,\)"),
    "element type": (LABELS, b"\0\0\x0d\x01" + bytes(8), "element type 0x0d"),
    "truncated": (TEST_IMAGES, small(10, 10)[0][:-1], "7839 bytes of data, but the header specifies 7840"),
    "too long": (TEST_LABELS, small(10, 10)[1] + b"x", "11 bytes of data, but the header specifies 10"),
    "counts": (LABELS, small(10, 29)[1], r"shape \(30, 28, 28\) and train-labels-idx1-ubyte has \(29,\)"),
    "test counts": (TEST_LABELS, small(10, 9)[1], r"t10k-images.* \(10, 28, 28\) and t10k-labels.* has \(9,\)"),
    "sizes": (TEST_IMAGES, small(10, 10, size=8)[0], r"test images are \(8, 8\), but training images are \(28, 28\)"),
    "no images": (TEST_IMAGES, small(0, 0)[0], r"n at least 1"),
}


@pytest.mark.parametrize("fault", WRONG)
@pytest.mark.parametrize("packed", [False, True])
def test_a_bad_file_is_refused(published: Path, fault: str, packed: bool) -> None:
    """The error has the file's name and the fault, for packed and plain files."""
    name, content, message = WRONG[fault]
    for end in ("", ".gz"):
        (published / f"{name}{end}").unlink(missing_ok=True)
    (published / f"{name}{'.gz' if packed else ''}").write_bytes(gzip.compress(content) if packed else content)
    if fault == "no images":
        (published / TEST_LABELS).write_bytes(small(0, 0)[1])
    with pytest.raises(ProgramError, match=message):
        mnist_files(published)


def test_a_page_instead_of_a_packed_file_is_refused(published: Path) -> None:
    """A proxy may answer a download with a page; a packed file may have a changed byte."""
    packed = gzip.compress(few()[IMAGES])
    for content in (b"<html>", packed[:100] + bytes(20) + packed[120:], packed[:-9]):
        (published / f"{IMAGES}.gz").write_bytes(content)
        with pytest.raises(ProgramError, match=f"cannot read {IMAGES} in"):
            mnist_files(published)


def test_the_enlarged_digits_are_images_of_their_labels() -> None:
    """Images are 28x28, grey and all different; training and test files have different digits."""
    files = enlarged_files(1497 * 2, 300)
    assert enlarged_files(1497 * 2, 300) == files
    images, size = files[IMAGES][16:], 28 * 28
    rows = [images[start : start + size] for start in range(0, len(images), size)]
    assert len({*rows}) == len(rows) == 1497 * 2
    assert (min(images), max(images)) == (0, 255)
    labels = files[LABELS][8:]
    # The second pass has the same digits in another place.
    assert labels[:1497] == labels[1497:]
    assert len(files[TEST_LABELS]) - 8 == 300
    blank = images.count(0) / len(images)
    assert 0.2 < blank < 0.8


def test_the_enlarged_digits_fill_batches_as_the_published_ones_do(tmp_path: Path) -> None:
    """There are 60,000 and 10,000 images of 28x28, 938 batches of 64; the bytes are the committed ones everywhere."""
    text = write_files(tmp_path, enlarged_files(), SOURCE, 70_000)
    assert text == COMMITTED.read_text()
    arrays = {name: read(tmp_path, name) for name in NAMES}
    assert {name: array and array.shape for name, array in arrays.items()} == {
        IMAGES: (60_000, 28, 28),
        LABELS: (60_000,),
        TEST_IMAGES: (10_000, 28, 28),
        TEST_LABELS: (10_000,),
    }
    assert {name: entry["size"] for name, entry in json.loads(text)["files"].items()} == {
        IMAGES: 47_040_016,
        LABELS: 60_008,
        TEST_IMAGES: 7_840_016,
        TEST_LABELS: 10_008,
    }
    batches = epoch_batches(range(60_000), seed=1, epoch=0, rank=0, world=1, batch_size=64)
    assert (len(batches), len(batches[0]), len(batches[-1])) == (938, 64, 32)
    assert mnist_files(tmp_path)[1] == 70_000
