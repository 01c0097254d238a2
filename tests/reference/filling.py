"""Records into a batch until it is full, in plain Python: which of them go in, and what the v2 header says of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from crc32c import crc32c

from tests.reference.encode import LegacyMessage, PlainRecord, v2_record

LOG_APPEND_TIME = 1


def encoded(record: PlainRecord, magic: int, base_offset: int, base_timestamp: int, timestamp_type: int) -> bytes:
    """One record as it lies in a batch of this format."""
    if magic == 2:
        return v2_record(record, base_offset, base_timestamp)
    return LegacyMessage(record, magic, timestamp_type=timestamp_type if magic else 0).encoded()


def filled(
    records: Sequence[PlainRecord], magic: int, room: int, *, ratio: float, default_timestamp: int, base_offset: int
) -> tuple[int, bytes]:
    """How many of the records are in the batch once the next has no room in `room` bytes, and their bytes."""
    data, count, base_timestamp = b"", 0, -1
    for record in records:
        timestamp = default_timestamp if record.timestamp == -1 else record.timestamp
        base_timestamp = base_timestamp if count else timestamp
        numbered = replace(record, offset=base_offset + count, timestamp=timestamp)
        more = encoded(numbered, magic, base_offset, base_timestamp, 0)
        if count and int(len(data) * ratio) + len(more) > room:
            break
        data, count = data + more, count + 1
    return count, data


def batch(header: bytes, base_offset: int, timestamps: Sequence[int], base_sequence: int, payload: bytes) -> bytes:
    """The v2 batch of records with these timestamps: `header` with the fields that they decide, then the payload."""
    filled_header = bytearray(header)
    struct.pack_into(">qi", filled_header, 0, base_offset, len(header) - 12 + len(payload))
    struct.pack_into(">iqq", filled_header, 23, len(timestamps) - 1, timestamps[0], max(timestamps))
    struct.pack_into(">ii", filled_header, 53, base_sequence, len(timestamps))
    whole = bytes(filled_header) + payload
    return whole[:17] + struct.pack(">I", crc32c(whole[21:])) + whole[21:]
