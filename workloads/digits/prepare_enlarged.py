"""Writes scikit-learn's handwritten digits in MNIST's sizes: 60,000 and 10,000 images of 28x28. No download.

    python -m workloads.digits.prepare_enlarged FOLDER

It stands in for MNIST where that cannot be downloaded: the same files, steps and progress, other images. Each image is
a digit of 8x8, three times as large, shifted and with noise. The images of training and test files come from different
digits, so a test tells what a network has learnt. The same bytes come out on every machine.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from .idx import IdxArray, encode
from .prepare import ALL, GREATEST, IMAGES, LABELS, TEST_IMAGES, TEST_LABELS, write_files

TRAIN, TEST = 60_000, 10_000
TEST_DIGITS = 300
"""The last digits of the source, which only the test files show."""
SIZE, FACTOR = 28, 3
SHIFT = 2
"""Pixels to each side, as many as there is room for."""
NOISE = 24
"""Of 255, added or taken away."""
SEED = 1
_ROWS_AT_ONCE = 2_000
SOURCE = "scikit-learn load_digits, enlarged to 28x28, shifted, with noise (seed 1)"


def enlarged_files(train: int = TRAIN, test: int = TEST) -> dict[str, bytes]:
    """The four data files by name, with so many images."""
    import numpy as np  # noqa: PLC0415 (the program's image has no scikit-learn)
    from sklearn.datasets import load_digits  # noqa: PLC0415

    digits = load_digits()
    # Integers and RandomState alone, whose numbers are the same in every version of numpy.
    pixels = (digits.images.astype(np.int16) * 255 + GREATEST // 2) // GREATEST
    large = np.pad(pixels.repeat(FACTOR, axis=1).repeat(FACTOR, axis=2), ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
    labels = digits.target.astype(np.uint8)
    random = np.random.RandomState(SEED)
    files = {}
    for names, count, first, last in (
        ((IMAGES, LABELS), train, 0, ALL - TEST_DIGITS),
        ((TEST_IMAGES, TEST_LABELS), test, ALL - TEST_DIGITS, ALL),
    ):
        chosen = first + np.arange(count) % (last - first)
        parts = [chosen[start : start + _ROWS_AT_ONCE] for start in range(0, count, _ROWS_AT_ONCE)]
        data = b"".join(_varied(large[part], random).tobytes() for part in parts)
        files[names[0]] = encode(IdxArray(shape=(count, SIZE, SIZE), data=data))
        files[names[1]] = encode(IdxArray(shape=(count,), data=labels[chosen].tobytes()))
    return files


def _varied(images: Any, random: Any) -> Any:
    """Each image shifted by up to SHIFT pixels both ways, with noise of up to NOISE in each pixel."""
    import numpy as np  # noqa: PLC0415

    shifts = random.randint(-SHIFT, SHIFT + 1, size=(2, len(images), 1))
    # The margin is as wide as the greatest shift, so what leaves on one side is empty, and so is what enters.
    rows, columns = ((shift + np.arange(SIZE)) % SIZE for shift in shifts)
    number = np.arange(len(images))[:, None, None]
    varied = random.randint(-NOISE, NOISE + 1, size=images.shape, dtype=np.int16)
    varied += images[number, rows[:, :, None], columns[:, None, :]]
    return varied.clip(0, 255).astype(np.uint8)


def main() -> int:
    """Command line: the folder to write."""
    parser = argparse.ArgumentParser(description="Write scikit-learn's digits in MNIST's sizes.")
    parser.add_argument("folder", type=Path, help="where the files go; made if missing")
    folder: Path = parser.parse_args().folder
    try:
        write_files(folder, enlarged_files(), SOURCE, TRAIN + TEST)
    except OSError as error:
        print(f"error: cannot write the data set into {folder}: {error}", file=sys.stderr)
        return 1
    print(f"wrote {TRAIN + TEST} images into {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
