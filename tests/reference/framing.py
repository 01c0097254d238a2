"""The header table of a file: one row an entry, from its header alone.

    place   v0 / v1                                   v2
    0       int64  offset                             int64  base offset
    8       int32  size of what follows               int32  size of what follows
    12      uint32 crc                                int32  partition leader epoch
    16      int8   magic                              int8   magic
    17      int8   attributes                         uint32 crc
    18      int64  timestamp (v1 only)
    21                                                int16  attributes
    23                                                int32  last offset delta
    27                                                int64  base timestamp
    35                                                int64  max timestamp
    43                                                int64  producer id
    51                                                int16  producer epoch
    53                                                int32  base sequence
    57                                                int32  records count
    61                                                records

The magic is at the same place in all of them: so it can be read before anything else is known.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.reference.codes import Status
from tests.reference.cursor import wrap

HEADER_DTYPE = np.dtype(
    [
        ("position", np.int64),
        ("base_offset", np.int64),
        ("last_offset", np.int64),
        ("base_timestamp", np.int64),
        ("max_timestamp", np.int64),
        ("producer_id", np.int64),
        ("size_in_bytes", np.int32),
        ("partition_leader_epoch", np.int32),
        ("base_sequence", np.int32),
        ("records_count", np.int32),
        ("checksum", np.uint32),
        ("attributes", np.int16),
        ("producer_epoch", np.int16),
        ("magic", np.int8),
        ("compression_type", np.int8),
        ("timestamp_type", np.int8),
        ("reserved", np.int8),
    ],
    align=True,
)

Headers: TypeAlias = NDArray[Any]
Scan: TypeAlias = tuple[Headers, int, int, int, int]
"""`(rows, status, at, expected, found)`; `at` is an index in the buffer."""

OVERHEAD = 12
UP_TO_MAGIC = 17
SMALLEST_SIZE = 14
V2_HEADER_BYTES = 61
NEWEST_MAGIC = 2

V2_HEADER = struct.Struct(">qiibIhiqqqhii")
V1_HEADER = struct.Struct(">qiIbBq")
V0_HEADER = struct.Struct(">qiIbB")
FRAME = struct.Struct(">qi")

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 3

ABSENT = dict.fromkeys(HEADER_DTYPE.names or (), -1) | {
    "checksum": 0,
    "attributes": 0,
    "compression_type": 0,
    "reserved": 0,
}


def scan_headers(
    buffer: bytes | memoryview,
    position: int = 0,
    start: int = 0,
    limit: int = -1,
    strict_magic: bool = False,
    max_size: int = -1,
    span: int = -1,
) -> Scan:
    """Scan the entries in `buffer[start:]`; `position` is the place of `buffer[0]` in its file."""
    data = bytes(buffer)
    zeros = len(data.rstrip(b"\0"))  # from here on there is nothing else
    rows: list[tuple[int, ...]] = []
    at = start
    while True:
        if len(rows) == limit or 0 <= span <= at - start:
            return _table(rows), Status.LIMIT, at, 0, 0
        if stop := _stop(data, at, zeros, strict_magic, max_size):
            return _table(rows), stop[0], at, stop[1], stop[2]
        rows.append(_row(data, at, position + at))
        at += OVERHEAD + _size(data, at)


def find_entry(
    buffer: bytes | memoryview, start: int, offset: int, timestamp: int, hint: int = -1
) -> tuple[tuple[int, ...] | None, int, int, int, int]:
    """The first entry from `start` on that reaches both, as (position, size, base, last offset, timestamp, magic).

    For an offset alone, as Kafka's `FileRecords.searchForOffsetFromPosition`.
    """
    rows, *end = scan_headers(buffer, start=start)
    for i, row in enumerate(rows):
        begins = _beginning(row)
        if i == 0 and hint >= 0 and not (0 <= row["magic"] <= 2 and 0 <= begins <= hint):
            return None, Status.LIMIT, start, 0, 0
        following = rows[i + 1] if i + 1 < len(rows) else None
        if (
            _holds(row, following, offset)
            if timestamp == -(2**63)
            else (row["last_offset"] >= offset and row["max_timestamp"] >= timestamp)
        ):
            names = ("position", "size_in_bytes", "base_offset", "last_offset", "max_timestamp", "magic")
            return tuple(int(row[name]) for name in names), Status.LIMIT, int(row["position"]), 0, 0
    return None, end[0], end[1], end[2], end[3]


def _beginning(row: np.void) -> int:
    return int(row["last_offset" if row["magic"] < 2 else "base_offset"])


def _holds(row: np.void, following: np.void | None, offset: int) -> bool:
    if _beginning(row) >= offset:
        return True
    return bool(row["last_offset"] >= offset) and (following is None or _beginning(following) > offset)


def _size(data: bytes, at: int) -> int:
    size: int = FRAME.unpack_from(data, at)[1]
    return size


def _magic(data: bytes, at: int) -> int:
    return int.from_bytes(data[at + 16 : at + 17], "big", signed=True)


def _stop(data: bytes, at: int, zeros: int, strict_magic: bool, max_size: int) -> tuple[Status, int, int] | None:
    """What keeps the entry at `at` from being read, as `(status, expected, found)`: the checks in their order."""
    left = len(data) - at
    if left == 0:
        return Status.END, 0, 0
    if at >= zeros:
        return Status.ZEROED, 0, 0
    if left < UP_TO_MAGIC:
        if strict_magic and left >= OVERHEAD and _size(data, at) < SMALLEST_SIZE:
            return Status.SIZE_TOO_SMALL, SMALLEST_SIZE, _size(data, at)
        if strict_magic and left >= OVERHEAD and 0 <= max_size < _size(data, at):
            return Status.SIZE_TOO_LARGE, max_size, _size(data, at)
        return Status.TORN, UP_TO_MAGIC, left
    size, magic = _size(data, at), _magic(data, at)
    if size < SMALLEST_SIZE:
        return Status.SIZE_TOO_SMALL, SMALLEST_SIZE, size
    if strict_magic and not 0 <= magic <= NEWEST_MAGIC:
        return Status.BAD_MAGIC, NEWEST_MAGIC, magic
    if 0 <= max_size < size:
        return Status.SIZE_TOO_LARGE, max_size, size
    if OVERHEAD + size > left:
        return Status.TORN, OVERHEAD + size, left
    return None


def _row(data: bytes, at: int, position: int) -> tuple[int, ...]:
    offset, size = FRAME.unpack_from(data, at)
    fields = ABSENT | {
        "position": position,
        "size_in_bytes": OVERHEAD + size,
        "magic": _magic(data, at),
        "base_offset": offset,
        "last_offset": offset,
    }
    if fields["magic"] < 2:
        fields |= _legacy_fields(data, at)
    elif fields["size_in_bytes"] >= V2_HEADER_BYTES:
        fields |= _v2_fields(data, at)
    return tuple(fields[name] for name in HEADER_DTYPE.names or ())


def _legacy_fields(data: bytes, at: int) -> dict[str, int]:
    """A message or a wrapper. Anything below 2 that is not 1 is read as v0, as Kafka's file reader does."""
    _, _, checksum, magic, attributes = V0_HEADER.unpack_from(data, at)
    fields = {"checksum": checksum, "attributes": attributes, "compression_type": attributes & CODEC_MASK}
    if fields["compression_type"]:
        # The wrapper bears the offset of its last message: the first one's is known only after decompression.
        fields["base_offset"] = -1
    if magic == 1:
        fields["max_timestamp"] = V1_HEADER.unpack_from(data, at)[5]
        fields["timestamp_type"] = attributes >> TIMESTAMP_TYPE_BIT & 1
    return fields


def _v2_fields(data: bytes, at: int) -> dict[str, int]:
    (base_offset, _, leader_epoch, _, checksum, attributes, last_offset_delta, base_timestamp, max_timestamp, *rest) = (
        V2_HEADER.unpack_from(data, at)
    )
    producer_id, producer_epoch, base_sequence, records_count = rest
    return {
        "last_offset": wrap(base_offset + last_offset_delta, 64),
        "base_timestamp": base_timestamp,
        "max_timestamp": max_timestamp,
        "producer_id": producer_id,
        "partition_leader_epoch": leader_epoch,
        "base_sequence": base_sequence,
        "records_count": records_count,
        "checksum": checksum,
        "attributes": attributes,
        "producer_epoch": producer_epoch,
        "compression_type": attributes & CODEC_MASK,
        "timestamp_type": attributes >> TIMESTAMP_TYPE_BIT & 1,
    }


def _table(rows: list[tuple[int, ...]]) -> Headers:
    return np.array(rows, dtype=HEADER_DTYPE)
