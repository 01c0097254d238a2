"""The headers of records, taken apart one by one: what `gather_headers` fills Arrow's buffers with."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.cursor import Cursor


def gather_headers(
    buffer: bytes, starts: Sequence[int], lengths: Sequence[int]
) -> tuple[list[int], list[int], bytes, list[int], bytes, list[int]]:
    """(headers up to each record, key ends, keys, value ends, values, whether each value is there)."""
    ends, key_ends, value_ends, present = [0], [0], [0], []
    keys, values = b"", b""
    for start, length in zip(starts, lengths, strict=True):
        cursor = Cursor(buffer, start, start + max(0, length))
        while cursor.left:
            keys += _piece(cursor, cursor.varint())
            size = cursor.varint()
            values += _piece(cursor, max(0, size))
            key_ends.append(len(keys))
            value_ends.append(len(values))
            present.append(int(size >= 0))
        ends.append(len(present))
    return ends, key_ends, keys, value_ends, values, present


def _piece(cursor: Cursor, size: int) -> bytes:
    """ValueError: no key has a negative length. DamageError: the bytes are not there."""
    if size < 0:
        raise ValueError(size)
    start = cursor.skip(size)
    return bytes(cursor.buffer[start : start + size])
