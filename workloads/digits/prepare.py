"""Writes scikit-learn's bundled handwritten digits as IDX files with a manifest: no download.

    python -m workloads.digits.prepare FOLDER

The same bytes come out on every machine (plain files: gzip's bytes depend on the zlib). All 1,797 images go into the
training files, and the training program splits validation and test off by its seed; or the last of them go into test
files, as MNIST has them (`--test-images`). `data.json` beside this file is the committed manifest of the former.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from .idx import IdxArray, encode

IMAGES = "train-images-idx3-ubyte"
LABELS = "train-labels-idx1-ubyte"
TEST_IMAGES = "t10k-images-idx3-ubyte"
TEST_LABELS = "t10k-labels-idx1-ubyte"
MANIFEST = "manifest.json"
SOURCE = "scikit-learn load_digits: UCI Optical Recognition of Handwritten Digits, test part"
GREATEST = 16
"""Pixels of the source are 0..16; files hold 0..255 as MNIST does."""
ALL = 1797
"""How many images there are."""


def digits_files(test_images: int = 0) -> dict[str, bytes]:
    """The data files by name; the last `test_images` images are in test files."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 (the names above are used without scikit-learn)

    digits = load_digits()
    count, height, width = (int(n) for n in digits.images.shape)
    pixels = bytes((int(value) * 255 + GREATEST // 2) // GREATEST for value in digits.images.ravel())
    labels = bytes(int(label) for label in digits.target)
    size, train = height * width, count - test_images
    files = {
        IMAGES: encode(IdxArray(shape=(train, height, width), data=pixels[: train * size])),
        LABELS: encode(IdxArray(shape=(train,), data=labels[:train])),
    }
    if test_images:
        files |= {
            TEST_IMAGES: encode(IdxArray(shape=(test_images, height, width), data=pixels[train * size :])),
            TEST_LABELS: encode(IdxArray(shape=(test_images,), data=labels[train:])),
        }
    return files


def manifest_text(files: Mapping[str, bytes], source: str, count: int) -> str:
    """The manifest of data files: source, number of images, and size in bytes and sha256 of each file."""
    entries = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()}
    return json.dumps({"source": source, "count": count, "files": entries}, indent=2, sort_keys=True) + "\n"


def write_dataset(folder: Path, test_images: int = 0) -> str:
    """Writes the digits into `folder` as `write_files` does."""
    files = digits_files(test_images)
    # The labels' header is 8 bytes, and each label is one.
    count = sum(len(files[name]) - 8 for name in (LABELS, TEST_LABELS) if name in files)
    return write_files(folder, files, SOURCE, count)


def write_files(folder: Path, files: Mapping[str, bytes], source: str, count: int) -> str:
    """Writes data files into `folder` (made if missing), the manifest last, and returns the manifest's text.

    Each file appears whole or not at all, so a folder with a manifest is complete. Raises OSError.
    """
    text = manifest_text(files, source, count)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in {**files, MANIFEST: text.encode()}.items():
        temporary = folder / f".{name}.{os.getpid()}.tmp"
        temporary.write_bytes(data)
        temporary.replace(folder / name)
    return text


def main() -> int:
    """Command line: the folder, and how many images are for the test."""
    parser = argparse.ArgumentParser(description="Write scikit-learn's handwritten digits as IDX files.")
    parser.add_argument("folder", type=Path, help="where the files go; made if missing")
    parser.add_argument("--test-images", type=int, default=0, help="how many of them go into test files; default: none")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if not 0 <= arguments.test_images < ALL:
        parser.error(f"--test-images is {arguments.test_images}: it must be from 0 to {ALL - 1}")
    try:
        write_dataset(folder, arguments.test_images)
    except OSError as error:
        print(f"cannot write the data set into {folder}: {error}", file=sys.stderr)
        return 1
    print(f"wrote {', '.join(sorted(path.name for path in folder.iterdir()))} into {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
