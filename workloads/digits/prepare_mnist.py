"""Verify the four files of MNIST, FashionMNIST or another data set of that format, and write them with a manifest.

    MNIST_FOLDER=~/mnist python -m workloads.digits.prepare_mnist FOLDER

Nothing is downloaded: MNIST_FOLDER (default: `data/mnist`) must contain the files with their published names,
uncompressed or with `.gz`. The files in FOLDER are uncompressed, because gzip files differ between downloads.
"""

import argparse
import os
import sys
from pathlib import Path

from . import idx
from .errors import ProgramError
from .prepare import IMAGES, LABELS, TEST_IMAGES, TEST_LABELS, write_files

VARIABLE, DEFAULT = "MNIST_FOLDER", "data/mnist"
NAMES = (IMAGES, LABELS, TEST_IMAGES, TEST_LABELS)
SOURCE = "IDX files under MNIST's published names"


def mnist_files(folder: Path) -> tuple[dict[str, bytes], int]:
    """Return the uncompressed data files by name, and the number of images.

    Raises ProgramError if a file is missing, damaged or of another format, or if the files do not match.
    """
    missing = [name for name in NAMES if not any((folder / f"{name}{end}").exists() for end in ("", ".gz"))]
    if missing:
        raise ProgramError(
            f"{folder} lacks {', '.join(missing)} (each plain or with .gz); copy the published files there, or set "
            f"{VARIABLE} to their folder"
        )
    train, test = idx.read_pair(folder, "train"), idx.read_pair(folder, "t10k")
    if train is None or test is None:
        raise AssertionError
    idx.check_sizes(folder, train[0], test[0])
    files = {name: idx.encode(array) for name, array in zip(NAMES, (*train, *test), strict=True)}
    return files, train[0].shape[0] + test[0].shape[0]


def main() -> int:
    """Run the command line, and return the exit code."""
    parser = argparse.ArgumentParser(description="Verify the files of MNIST, and write them with a manifest.")
    parser.add_argument("folder", type=Path, help="the target folder, which is created if necessary")
    folder: Path = parser.parse_args().folder
    try:
        files, count = mnist_files(Path(os.environ.get(VARIABLE) or DEFAULT).expanduser())
        write_files(folder, files, SOURCE, count)
    except ProgramError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: cannot write the data set to {folder}: {error}", file=sys.stderr)
        return 1
    print(f"wrote {count} images to {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
