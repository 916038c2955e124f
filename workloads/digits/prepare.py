"""Writes scikit-learn's bundled handwritten digits as IDX files with a manifest: no download.

    python -m workloads.digits.prepare FOLDER

The same bytes come out on every machine (plain files: gzip's bytes depend on the zlib). All 1,797 images go into the
training files; the training program splits validation and test off by its seed. `data.json` beside this file is the
committed manifest.
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
MANIFEST = "manifest.json"
SOURCE = "scikit-learn load_digits: UCI Optical Recognition of Handwritten Digits, test part"
GREATEST = 16
"""Pixels of the source are 0..16; files hold 0..255 as MNIST does."""


def digits_files() -> dict[str, bytes]:
    """The data files by name."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 (the names above are used without scikit-learn)

    digits = load_digits()
    count, height, width = (int(n) for n in digits.images.shape)
    pixels = bytes((int(value) * 255 + GREATEST // 2) // GREATEST for value in digits.images.ravel())
    labels = bytes(int(label) for label in digits.target)
    return {
        IMAGES: encode(IdxArray(shape=(count, height, width), data=pixels)),
        LABELS: encode(IdxArray(shape=(count,), data=labels)),
    }


def manifest_text(files: Mapping[str, bytes], source: str, count: int) -> str:
    """The manifest of data files: source, number of images, and size in bytes and sha256 of each file."""
    entries = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()}
    return json.dumps({"source": source, "count": count, "files": entries}, indent=2, sort_keys=True) + "\n"


def write_dataset(folder: Path) -> str:
    """Writes the files into `folder` (made if missing), the manifest last, and returns the manifest's text.

    Each file appears whole or not at all, so a folder with a manifest is complete. Raises OSError.
    """
    files = digits_files()
    count = len(files[LABELS]) - 8  # the labels' header is 8 bytes, and each label is one
    text = manifest_text(files, SOURCE, count)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in {**files, MANIFEST: text.encode()}.items():
        temporary = folder / f".{name}.{os.getpid()}.tmp"
        temporary.write_bytes(data)
        temporary.replace(folder / name)
    return text


def main() -> int:
    """Command line: one argument, the folder."""
    parser = argparse.ArgumentParser(description="Write scikit-learn's handwritten digits as IDX files.")
    parser.add_argument("folder", type=Path, help="where the files go; made if missing")
    folder: Path = parser.parse_args().folder
    try:
        write_dataset(folder)
    except OSError as error:
        print(f"cannot write the data set into {folder}: {error}", file=sys.stderr)
        return 1
    print(f"wrote {IMAGES}, {LABELS} and {MANIFEST} into {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
