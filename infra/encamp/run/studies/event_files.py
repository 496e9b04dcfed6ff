"""TensorFlow's event files, read while they are written: the values of one scalar, and nothing else of them.

TensorBoard's own reader would bring 60 MB along and cannot go on in the middle of an object of Cloud Storage, so the
two formats are read here: records (length, its checksum, the record, its checksum;
https://www.tensorflow.org/tutorials/load_data/tfrecord) that hold the messages of TensorFlow's ``util/event.proto``.
"""

from __future__ import annotations

import struct
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING

from encamp.tuning.model import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator

#: In the name of every event file.
EVENT_FILE = "tfevents"
#: A record that is longer is passed over: no scalar is, but graphs and pictures are.
_LONGEST_RECORD = 4 * 1024 * 1024
_LENGTH, _CHECK = 8, 4
_HEAD = _LENGTH + _CHECK
_CASTAGNOLI, _MASK_DELTA, _WORD = 0x82F63B78, 0xA282EAD8, 0xFFFFFFFF
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BITS = 64
_SIGN = 1 << 63

#: Fields of the messages.
_EVENT_WALL_TIME, _EVENT_STEP, _EVENT_SUMMARY = 1, 2, 5
_SUMMARY_VALUE = 1
_VALUE_TAG, _VALUE_SIMPLE, _VALUE_TENSOR = 1, 2, 8
_TENSOR_TYPE, _TENSOR_CONTENT = 1, 4
#: By a tensor's type, how one number of its content is packed, and the field where it may stand instead.
_FLOAT, _DOUBLE, _INT32, _INT64 = 1, 2, 3, 9
_PACKED = {_FLOAT: "<f", _DOUBLE: "<d", _INT32: "<i", _INT64: "<q"}
_APART = {_FLOAT: 5, _DOUBLE: 6, _INT32: 7, _INT64: 10}

Field = tuple[int, int, int | bytes]


class EventFile:
    """One event file that is being read.

    Args:
        tags: names of the scalar, each of which counts.

    Attributes:
        offset: how many bytes were taken.
        broken: it is no event file, or damaged; nothing more is taken of it.
        unusable: how many values were no finite numbers.
    """

    def __init__(self, tags: frozenset[str]) -> None:
        self._tags = {tag.encode() for tag in tags}
        self._held = bytearray()
        self._skip = 0
        self.offset = 0
        self.broken = False
        self.unusable = 0

    def feed(self, piece: bytes) -> list[Measurement]:
        """Take the bytes that follow; gives what is whole by them, in the order of the file."""
        self.offset += len(piece)
        over = min(self._skip, len(piece))
        self._skip -= over
        held = self._held
        held += piece[over:]
        found: list[Measurement] = []
        at = 0
        while not self.broken and len(held) - at >= _HEAD:
            length, check = struct.unpack_from("<QI", held, at)
            self.broken = _masked(bytes(held[at : at + _LENGTH])) != check
            end = at + _HEAD + length
            if self.broken or (end + _CHECK > len(held) and length <= _LONGEST_RECORD):
                break
            if length > _LONGEST_RECORD:
                self._skip = max(0, end + _CHECK - len(held))
            else:
                found += self._measured(bytes(held[at + _HEAD : end]), bytes(held[end : end + _CHECK]))
            at = min(end + _CHECK, len(held))
        del held[:at]
        if self.broken:
            held.clear()
        return found

    def _measured(self, record: bytes, check: bytes) -> list[Measurement]:
        # Most records are of other scalars: looking for the name is a hundred times as fast as reading them.
        if not any(tag in record for tag in self._tags) or struct.pack("<I", _masked(record)) != check:
            return []
        try:
            measured = list(_scalars(record, self._tags))
        except (ValueError, struct.error, IndexError):
            return []
        usable = [one for one in measured if isfinite(one.value)]
        self.unusable += len(measured) - len(usable)
        return usable


def _scalars(record: bytes, tags: set[bytes]) -> Iterator[Measurement]:
    """Yield the values of an Event that has them."""
    at, step = 0.0, 0
    summaries: list[bytes] = []
    for number, wire, value in _fields(record):
        if (number, wire) == (_EVENT_WALL_TIME, _FIXED64) and isinstance(value, bytes):
            (at,) = struct.unpack("<d", value)
        elif (number, wire) == (_EVENT_STEP, _VARINT) and isinstance(value, int):
            step = value - 2 * _SIGN if value >= _SIGN else value
        elif (number, wire) == (_EVENT_SUMMARY, _BYTES) and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, _, value in _fields(summary):
            scalar = _scalar(value, tags) if number == _SUMMARY_VALUE and isinstance(value, bytes) else None
            if scalar is not None:
                yield Measurement(step, scalar, at if isfinite(at) else 0.0)


def _scalar(message: bytes, tags: set[bytes]) -> float | None:
    """Return the number of a Summary.Value, None if it is of another tag or no single number."""
    found: float | None = None
    tag: int | bytes = b""
    for number, wire, value in _fields(message):
        if number == _VALUE_TAG:
            tag = value
        elif (number, wire) == (_VALUE_SIMPLE, _FIXED32) and isinstance(value, bytes):
            (found,) = struct.unpack("<f", value)
        elif (number, wire) == (_VALUE_TENSOR, _BYTES) and isinstance(value, bytes):
            found = _single(value)
    return found if tag in tags else None


def _single(tensor: bytes) -> float | None:
    """Return the one number of a TensorProto."""
    fields = list(_fields(tensor))
    kind = next((value for number, _, value in fields if number == _TENSOR_TYPE), None)
    if not isinstance(kind, int) or kind not in _PACKED:
        return None
    for number, _, value in fields:
        if number == _TENSOR_CONTENT and isinstance(value, bytes) and value:
            return (
                float(struct.unpack(_PACKED[kind], value)[0]) if len(value) == struct.calcsize(_PACKED[kind]) else None
            )
        if number == _APART[kind]:
            return _apart(kind, value)
    return 0.0


def _apart(kind: int, value: int | bytes) -> float:
    """Return a number that stands in the field of its type, packed or not."""
    if isinstance(value, int) or kind in {_INT32, _INT64}:
        whole = value if isinstance(value, int) else _varint(value, 0)[0]
        return float(whole - 2 * _SIGN if whole >= _SIGN else whole)
    return float(struct.unpack_from(_PACKED[kind], value)[0])


def _fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a protobuf message: number, wire type, and the number or bytes.

    Raises:
        ValueError, IndexError: it is malformed.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > len(message):
            raise ValueError("a field ends behind its message")
        yield number, wire, message[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where what follows it begins."""
    value = 0
    for shift in range(0, _VARINT_BITS + 6, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            return value & (2 * _SIGN - 1), at
    raise ValueError("a number without end")


@cache
def _table() -> tuple[int, ...]:
    """Return the table of CRC-32C, one entry for each byte."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        table.append(value)
    return tuple(table)


def _masked(data: bytes) -> int:
    """Return the checksum of a record as it is stored.

    A CRC-32C, turned so that a checksum of checksums is still one.
    """
    table, value = _table(), _WORD
    for byte in data:
        value = value >> 8 ^ table[(value ^ byte) & 0xFF]
    value ^= _WORD
    return ((value >> 15 | value << 17) + _MASK_DELTA) & _WORD
