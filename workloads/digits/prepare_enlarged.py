"""Write the handwritten digits of scikit-learn with the sizes of MNIST: 60,000 and 10,000 images of 28x28 pixels.

    python -m workloads.digits.prepare_enlarged FOLDER

The data set replaces MNIST where it cannot be downloaded: files, steps and progress are the same, the images differ.
Nothing is downloaded. Each image is an 8x8 digit, enlarged by three, shifted, and with noise. Training and test files
show different digits, so the test measures generalization. The files are equal on every machine.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from .idx import IdxArray, encode
from .prepare import ALL, GREATEST, IMAGES, LABELS, TEST_IMAGES, TEST_LABELS, write_files

TRAIN, TEST = 60_000, 10_000
TEST_DIGITS = 300
"""The number of digits, the last ones of the source, that only the test files show."""
SIZE, FACTOR = 28, 3
SHIFT = 2
"""The maximum shift in pixels: the width of the margin."""
NOISE = 24
"""The maximum change of a pixel, whose value is at most 255."""
SEED = 1
_ROWS_AT_ONCE = 2_000
SOURCE = "scikit-learn load_digits, enlarged to 28x28, shifted, with noise (seed 1)"


def enlarged_files(train: int = TRAIN, test: int = TEST) -> dict[str, bytes]:
    """Return the four data files by name, with these numbers of images."""
    import numpy as np  # noqa: PLC0415 (the program's image has no scikit-learn)
    from sklearn.datasets import load_digits  # noqa: PLC0415

    digits = load_digits()
    # Only integers, and RandomState, whose sequence is the same in every version of numpy.
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
    """Return each image shifted by at most SHIFT pixels in both directions, with noise of at most NOISE per pixel."""
    import numpy as np  # noqa: PLC0415

    shifts = random.randint(-SHIFT, SHIFT + 1, size=(2, len(images), 1))
    # The margin is as wide as the maximum shift, so the pixels that wrap around are empty.
    rows, columns = ((shift + np.arange(SIZE)) % SIZE for shift in shifts)
    number = np.arange(len(images))[:, None, None]
    varied = random.randint(-NOISE, NOISE + 1, size=images.shape, dtype=np.int16)
    varied += images[number, rows[:, :, None], columns[:, None, :]]
    return varied.clip(0, 255).astype(np.uint8)


def main() -> int:
    """Run the command line, and return the exit code."""
    parser = argparse.ArgumentParser(description="Write the digits of scikit-learn with the sizes of MNIST.")
    parser.add_argument("folder", type=Path, help="the target folder, which is created if necessary")
    folder: Path = parser.parse_args().folder
    try:
        write_files(folder, enlarged_files(), SOURCE, TRAIN + TEST)
    except OSError as error:
        print(f"error: cannot write the data set to {folder}: {error}", file=sys.stderr)
        return 1
    print(f"wrote {TRAIN + TEST} images to {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
