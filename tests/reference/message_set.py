"""The messages of a v0 or v1 entry, and the decoder of entries of every format.

    int64   offset
    int32   size of what follows
    uint32  crc
    int8    magic
    int8    attributes: bits 0-2 codec, bit 3 (v1) timestamp type
    int64   timestamp (v1 only)
    int32   key length, any negative number = null;    then the key
    int32   value length, any negative number = null;  then the value

An entry is one message, or a wrapper: a message whose value is a compressed run of such entries. A wrapper bears the
offset of its last message, and in v1 the messages inside are numbered from the wrapper's first: with IO an inner
offset, RO = IO - IO of the last, AO = wrapper's offset + RO.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.reference.codes import DamageError, Fault, FaultCode
from tests.reference.cursor import Cursor, wrap
from tests.reference.framing import CODEC_MASK, OVERHEAD, SMALLEST_SIZE, V2_HEADER_BYTES, Headers
from tests.reference.records import LOG_APPEND_TIME, Place, decode_v2

Decoded: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], int, Fault | None]
"""`(block, batch, count, fault)`."""


def decode_batches(
    buffer: bytes | memoryview,
    rows: Headers,
    starts: NDArray[np.int64] | None = None,
    ends: NDArray[np.int64] | None = None,
    position: int = 0,
) -> Decoded:
    """The records of every row's region `buffer[start:end]`, up to the first damage.

    Without starts and ends the regions are where the rows are stored, `position` being that of `buffer[0]`.
    """
    data = bytes(buffer)
    if starts is None or ends is None:
        starts = rows["position"] - position
        ends = starts + rows["size_in_bytes"]
        starts = starts + np.where(rows["magic"] >= 2, V2_HEADER_BYTES, 0)
    places: list[Place] = []
    owners: list[int] = []
    fault: Fault | None = None
    for index, (row, start, end) in enumerate(zip(rows, starts.tolist(), ends.tolist(), strict=True)):
        decode = decode_v2 if row["magic"] >= 2 else decode_legacy
        try:
            decode(places, data, row, start, end)
        except DamageError as damage:
            fault = (int(damage.code), index, damage.at, damage.expected, damage.found)
        owners += [index] * (len(places) - len(owners))
        if fault:
            break
    block = np.array(places, dtype=np.int64).reshape(-1, len(Place._fields)).T
    return block, np.array(owners, dtype=np.int32), len(places), fault


def find_record(
    buffer: bytes | memoryview,
    rows: Headers,
    starts: NDArray[np.int64] | None,
    ends: NDArray[np.int64] | None,
    position: int,
    offset: int,
    timestamp: int,
) -> tuple[tuple[int, int, int] | None, Fault | None]:
    """The first of these records that reaches both: its offset, timestamp and row; and how decoding them ended."""
    block, batch, _, fault = decode_batches(buffer, rows, starts, ends, position)
    for each, row in zip(block.T.tolist(), batch.tolist(), strict=True):
        place = Place(*each)
        if place.offset >= offset and place.timestamp >= timestamp:
            return (place.offset, place.timestamp, row), fault
    return None, fault


class Message(NamedTuple):
    """A message as it lies in its region, its offset and timestamp not yet made absolute."""

    offset: int
    magic: int
    timestamp: int
    key: tuple[int, int]
    value: tuple[int, int]


def decode_legacy(places: list[Place], buffer: bytes, row: Any, start: int, end: int) -> None:
    """Appends the messages of `buffer[start:end]` to `places`: all of them or none."""
    messages = _messages(buffer, row, start, end)
    if row["compression_type"] and not messages:
        raise DamageError(FaultCode.EMPTY_WRAPPER, start, 1, 0)
    base = _absolute_base(messages, row, start)
    places += [
        Place(
            wrap(base + message.offset, 64),
            _timestamp(message, row),
            *message.key,
            *message.value,
            message.value[0] + max(message.value[1], 0),
            0,
        )
        for message in messages
    ]


def _messages(buffer: bytes, row: Any, start: int, end: int) -> list[Message]:
    messages = []
    region = Cursor(buffer, start, end)
    while region.left >= OVERHEAD:
        at = region.at
        offset, size = region.int64(), region.int32()
        if size < SMALLEST_SIZE:
            raise DamageError(FaultCode.MESSAGE_SIZE, at, SMALLEST_SIZE, size)
        if size > region.left:
            # Old clients cut the run inside a wrapper wherever their buffer was full: the rest is nobody's loss.
            break
        body = Cursor(buffer, region.skip(size), region.at)
        messages.append(_message(body, row, at, offset))
    return messages


def _message(body: Cursor, row: Any, at: int, offset: int) -> Message:
    body.int32()
    magic, attributes = body.int8(), body.int8()
    if magic not in (0, 1):
        raise DamageError(FaultCode.MESSAGE_MAGIC, at, int(row["magic"]), magic)
    if row["compression_type"] and attributes & CODEC_MASK:
        raise DamageError(FaultCode.NESTED_WRAPPER, at, 0, attributes & CODEC_MASK)
    timestamp = body.int64() if magic == 1 else -1
    return Message(offset, magic, timestamp, _nullable(body), _nullable(body))


def _nullable(body: Cursor) -> tuple[int, int]:
    length = body.int32()
    if length < 0:
        return body.at, -1
    return body.skip(length), length


def _absolute_base(messages: list[Message], row: Any, start: int) -> int:
    """What is added to an inner offset. Only a v1 wrapper numbers its messages from itself."""
    wrapper_offset = int(row["last_offset"])
    if row["magic"] != 1 or not row["compression_type"] or wrapper_offset == 0:
        # An old client left the wrapper's offset 0: it says nothing, so the inner ones stand as they are.
        return 0
    last = messages[-1].offset
    if wrapper_offset < last:
        raise DamageError(FaultCode.WRAPPER_OFFSET, start, last, wrapper_offset)
    return wrap(wrapper_offset - last, 64)


def _timestamp(message: Message, row: Any) -> int:
    if message.magic == 0:
        return -1
    if row["magic"] == 1 and row["compression_type"] and row["timestamp_type"] == LOG_APPEND_TIME:
        return int(row["max_timestamp"])
    return message.timestamp
