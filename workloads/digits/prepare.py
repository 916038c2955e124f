"""Write the handwritten digits of scikit-learn as IDX files with a manifest. Nothing is downloaded.

    python -m workloads.digits.prepare FOLDER

The files are equal on every machine. They are not compressed, because gzip's output depends on the version of zlib. All
1,797 images are in the training files, which the training program splits into training, validation and test by its
seed; with `--test-images`, the last images are in test files, as in MNIST. `data.json` in this folder is the committed
manifest of the files without test images.
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
"""The maximum value of a pixel in the source; the files have values from 0 to 255, as MNIST."""
ALL = 1797
"""The number of images."""


def digits_files(test_images: int = 0) -> dict[str, bytes]:
    """Return the data files by name; the last `test_images` images are in test files."""
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
    """Return the manifest: source, number of images, and the size in bytes and sha256 of each file."""
    entries = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()}
    return json.dumps({"source": source, "count": count, "files": entries}, indent=2, sort_keys=True) + "\n"


def write_dataset(folder: Path, test_images: int = 0) -> str:
    """Write the digits, like `write_files`."""
    files = digits_files(test_images)
    # A file of labels has a header of 8 bytes and one byte per label.
    count = sum(len(files[name]) - 8 for name in (LABELS, TEST_LABELS) if name in files)
    return write_files(folder, files, SOURCE, count)


def write_files(folder: Path, files: Mapping[str, bytes], source: str, count: int) -> str:
    """Write data files into `folder`, which is created if necessary, and return the manifest.

    Files are written atomically and the manifest last, so a folder with a manifest is complete. Raises OSError.
    """
    text = manifest_text(files, source, count)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in {**files, MANIFEST: text.encode()}.items():
        temporary = folder / f".{name}.{os.getpid()}.tmp"
        temporary.write_bytes(data)
        temporary.replace(folder / name)
    return text


def main() -> int:
    """Run the command line, and return the exit code."""
    parser = argparse.ArgumentParser(description="Write scikit-learn's handwritten digits as IDX files.")
    parser.add_argument("folder", type=Path, help="the target folder, which is created if necessary")
    parser.add_argument("--test-images", type=int, default=0, help="number of images in test files; default: none")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if not 0 <= arguments.test_images < ALL:
        parser.error(f"--test-images is {arguments.test_images}; it must be between 0 and {ALL - 1}")
    try:
        write_dataset(folder, arguments.test_images)
    except OSError as error:
        print(f"error: cannot write the data set to {folder}: {error}", file=sys.stderr)
        return 1
    print(f"wrote {', '.join(sorted(path.name for path in folder.iterdir()))} to {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
