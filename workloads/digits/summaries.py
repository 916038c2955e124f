"""TensorBoard event files with scalars, without the package tensorboard, on which Debian's torch does not depend.

A file is a sequence of records: length, checksum, data, checksum. The data is a protobuf message `Event`.
"""

import os
import struct
import time
from pathlib import Path

from .errors import ProgramError

_CRC32C = 0x82F63B78
"""The Castagnoli polynomial with its bits reversed."""


class SummaryWriter:
    """A new event file in a folder; TensorBoard combines the files of a folder."""

    def __init__(self, folder: Path) -> None:
        """Create the folder and the file. Raises ProgramError."""
        self._path = folder / f"events.out.tfevents.{int(time.time())}.{os.uname().nodename}.{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ProgramError(f"cannot create --dir {folder}: {error}") from error
        self._append(_field(3, b"brain.Event:2"), 0)

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Append a value. Raises ProgramError."""
        point = _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
        self._append(_field(5, _field(1, point)), step)

    def _append(self, content: bytes, step: int) -> None:
        event = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step) + content
        try:
            with self._path.open("ab") as file:
                file.write(record(event))
        except OSError as error:
            raise ProgramError(f"cannot write summaries to {self._path}: {error}") from error


def record(data: bytes) -> bytes:
    """Return a record with the data, its length and the checksums."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C, rotated and offset as the record format requires."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CRC32C if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content
