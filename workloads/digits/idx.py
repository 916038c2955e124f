"""IDX, the file format of MNIST and FashionMNIST: arrays of unsigned bytes, uncompressed or gzip."""

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from .errors import ProgramError

UNSIGNED_BYTE = 0x08
"""The element type of unsigned bytes, the only supported one: image sets use no other."""


@dataclass(frozen=True, kw_only=True)
class IdxArray:
    """An array of bytes in row-major order; `shape` begins with the outermost dimension."""

    shape: tuple[int, ...]
    data: bytes


def encode(array: IdxArray) -> bytes:
    """Return the content of an IDX file; it depends on the array alone."""
    header = struct.pack(">HBB", 0, UNSIGNED_BYTE, len(array.shape))
    return header + struct.pack(f">{len(array.shape)}I", *array.shape) + array.data


def decode(content: bytes, where: str) -> IdxArray:
    """Parse an IDX file; errors contain `where`.

    Raises ProgramError if the content is not an IDX file of unsigned bytes, or if its size differs from the header's.
    """
    if len(content) < 4 or content[:2] != b"\0\0":
        raise ProgramError(f"{where}: not an IDX file: it does not start with two zero bytes")
    if content[2] != UNSIGNED_BYTE:
        raise ProgramError(f"{where}: IDX element type 0x{content[2]:02x}; only unsigned bytes (0x08) are supported")
    end = 4 + 4 * content[3]
    if len(content) < end:
        raise ProgramError(f"{where}: the IDX header is truncated; copy the file again")
    shape = struct.unpack(f">{content[3]}I", content[4:end])
    if len(content) - end != math.prod(shape):
        raise ProgramError(
            f"{where}: {len(content) - end} bytes of data, but the header specifies {math.prod(shape)}; copy the file "
            "again"
        )
    return IdxArray(shape=shape, data=content[end:])


def read(folder: Path, name: str) -> IdxArray | None:
    """Read `name`, or else `name.gz`, from a folder. Return None if neither exists. Raises ProgramError."""
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
    """Return matching images and labels (`prefix`: `train` or `t10k`), or None without both. Raises ProgramError."""
    names = f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"
    images, labels = (read(folder, name) for name in names)
    if images is None and labels is None:
        return None
    if images is None or labels is None:
        raise ProgramError(f"{folder} has only one of {names[0]} and {names[1]}; both are required")
    if len(images.shape) != 3 or len(labels.shape) != 1 or images.shape[0] != labels.shape[0] or not labels.data:
        raise ProgramError(
            f"{folder}: {names[0]} has shape {images.shape} and {names[1]} has {labels.shape}; the shapes must be "
            "(n, height, width) and (n), with n at least 1"
        )
    return images, labels


def check_sizes(folder: Path, train: IdxArray, test: IdxArray) -> None:
    """Raise ProgramError if training and test images differ in height or width."""
    if test.shape[1:] != train.shape[1:]:
        raise ProgramError(f"{folder}: test images are {test.shape[1:]}, but training images are {train.shape[1:]}")
