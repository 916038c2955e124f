"""IDX files, the format of MNIST and FashionMNIST: unsigned bytes in up to four dimensions, plain or gzip."""

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from .errors import ProgramError

UNSIGNED_BYTE = 0x08
"""Element type 8 of the IDX format; the only one that image sets use."""


@dataclass(frozen=True, kw_only=True)
class IdxArray:
    """An array of bytes: `shape`, outermost dimension first, and the elements row by row."""

    shape: tuple[int, ...]
    data: bytes


def encode(array: IdxArray) -> bytes:
    """The bytes of an IDX file; the same array gives the same bytes."""
    header = struct.pack(">HBB", 0, UNSIGNED_BYTE, len(array.shape))
    return header + struct.pack(f">{len(array.shape)}I", *array.shape) + array.data


def decode(content: bytes, where: str) -> IdxArray:
    """Parses an IDX file that was read from `where` (used in errors).

    Raises ProgramError when it is no IDX file of unsigned bytes or is longer or shorter than its header says.
    """
    if len(content) < 4 or content[:2] != b"\0\0":
        raise ProgramError(f"{where}: not an IDX file (it must begin with two zero bytes)")
    if content[2] != UNSIGNED_BYTE:
        raise ProgramError(f"{where}: IDX element type 0x{content[2]:02x}; only unsigned bytes (0x08) are read")
    end = 4 + 4 * content[3]
    if len(content) < end:
        raise ProgramError(f"{where}: the IDX header is cut off; copy the file again")
    shape = struct.unpack(f">{content[3]}I", content[4:end])
    if len(content) - end != math.prod(shape):
        raise ProgramError(
            f"{where}: {len(content) - end} bytes of data where the header says {math.prod(shape)}; copy the file again"
        )
    return IdxArray(shape=shape, data=content[end:])


def read(folder: Path, name: str) -> IdxArray | None:
    """Reads `name`, else `name.gz`, from a folder; None when neither is there."""
    plain, packed = folder / name, folder / f"{name}.gz"
    try:
        if plain.exists():
            return decode(plain.read_bytes(), str(plain))
        if packed.exists():
            return decode(gzip.decompress(packed.read_bytes()), str(packed))
    except (OSError, EOFError, zlib.error) as error:
        raise ProgramError(f"cannot read {name} in {folder}: {error}") from error
    return None


def read_pair(folder: Path, prefix: str) -> tuple[IdxArray, IdxArray] | None:
    """The images and labels of `train` or `t10k`, checked against each other; None when both are missing."""
    names = f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"
    images, labels = (read(folder, name) for name in names)
    if images is None and labels is None:
        return None
    if images is None or labels is None:
        raise ProgramError(f"{folder} has only one of {names[0]} and {names[1]}: both are needed")
    if len(images.shape) != 3 or len(labels.shape) != 1 or images.shape[0] != labels.shape[0] or not labels.data:
        raise ProgramError(
            f"{folder}: {names[0]} has shape {images.shape}, {names[1]} {labels.shape}: "
            "there must be (n, height, width) and (n), n at least 1"
        )
    return images, labels


def check_sizes(folder: Path, train: IdxArray, test: IdxArray) -> None:
    """Raises ProgramError when training and test images differ in height or width."""
    if test.shape[1:] != train.shape[1:]:
        raise ProgramError(f"{folder}: test images are {test.shape[1:]}, training images {train.shape[1:]}")
