"""Functions that overwrite offsets, leader epoch and timestamps of entries in place.

    place   v2                             v0, v1
    0       base offset int64              offset int64 (of a wrapper: its last message's)
    12      leader epoch int32             crc uint32, over 16 ...
    16      magic                          magic
    17      crc uint32, over 21 ...        attributes int8: codec, v1: timestamp type
    18                                     v1: timestamp int64
    21      attributes int16
    35      largest timestamp int64

Neither CRC covers offsets and leader epoch, and they are never compressed, so changing them takes these few bytes per
batch. Source: clients/.../common/record/{DefaultRecordBatch,AbstractLegacyRecordBatch}.java.
"""

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog._speedups.checksum import crc32
from kafkalog.attributes import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
)
from kafkalog.errors import UnsupportedForMessageFormatError
from kafkalog.record import layout

# The attributes that remain when the timestamp type changes: Kafka clears the unused bits.
KEPT_ATTRIBUTES = layout.CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


def ensure_offsets(first_offset: int, count: int) -> int:
    """Return the last of `count` offsets that begin with `first_offset`.

    Raises:
        ValueError: It exceeds 2**63 - 1.
    """
    last = first_offset + count - 1
    if last > INT64_MAX:
        raise ValueError(f"{count} records from offset {first_offset} on exceed the largest offset, 2**63 - 1")
    return last


def set_last_offsets(buffer: bytearray, rows: NDArray[np.void], last_offsets: NDArray[np.int64]) -> None:
    """Set the offset of each entry's last record; a v2 batch keeps its offset deltas."""
    delta = np.where(rows["magic"] >= 2, rows["last_offset"] - rows["base_offset"], 0)
    _put(buffer, rows["position"], (last_offsets - delta).astype(">i8"))


def set_leader_epoch(buffer: bytearray, rows: NDArray[np.void], epoch: int) -> None:
    """Set the leader epoch of the v2 batches; the other formats have none."""
    batches = rows[rows["magic"] >= 2]
    _put(buffer, batches["position"] + layout.BATCH_LEADER_EPOCH_AT, np.full(len(batches), epoch, ">i4"))


def set_max_timestamps(
    buffer: bytearray, rows: NDArray[np.void], timestamp_type: TimestampType, timestamps: NDArray[np.int64]
) -> None:
    """Set the timestamp type and the largest timestamp of each entry, and update the CRC of those that change.

    Raises:
        UnsupportedForMessageFormatError: Format 0 has no timestamps.
        ValueError: `timestamp_type` is NO_TIMESTAMP_TYPE.
    """
    if timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        raise ValueError("a timestamp type is needed from magic 1 on")
    if (rows["magic"] == 0).any():
        raise UnsupportedForMessageFormatError("format 0 has no timestamps", expected="magic 1 or 2", found="magic 0")
    changed = (rows["timestamp_type"] != timestamp_type) | (rows["max_timestamp"] != timestamps)
    fields = (rows[name][changed].tolist() for name in ("position", "size_in_bytes", "magic", "attributes"))
    view = memoryview(buffer)
    bit = LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    for start, size, magic, attributes, timestamp in zip(*fields, timestamps[changed].tolist(), strict=True):
        stamp = stamp_batch if magic >= 2 else _stamp_message
        stamp(view[start : start + size], attributes, bit, timestamp)


def stamp_batch(entry: memoryview, attributes: int, type_bit: int, timestamp: int) -> None:
    """Write the timestamp type and the largest timestamp of a v2 batch, and its CRC."""
    attributes = attributes & KEPT_ATTRIBUTES | type_bit
    entry[layout.BATCH_ATTRIBUTES_AT : layout.BATCH_ATTRIBUTES_AT + 2] = attributes.to_bytes(2, "big")
    entry[layout.BATCH_MAX_TIMESTAMP_AT : layout.BATCH_MAX_TIMESTAMP_AT + 8] = timestamp.to_bytes(8, "big", signed=True)
    entry[layout.BATCH_CRC_AT : layout.BATCH_CRC_AT + 4] = crc32c(entry[layout.BATCH_CRC_FROM :]).to_bytes(4, "big")


def _stamp_message(entry: memoryview, attributes: int, type_bit: int, timestamp: int) -> None:
    entry[layout.MESSAGE_ATTRIBUTES_AT] = attributes & layout.CODEC_MASK | type_bit
    entry[layout.MESSAGE_TIMESTAMP_AT : layout.MESSAGE_TIMESTAMP_AT + 8] = timestamp.to_bytes(8, "big", signed=True)
    checksum = crc32(entry[layout.MESSAGE_CRC_FROM :])
    entry[layout.MESSAGE_CRC_AT : layout.MESSAGE_CRC_AT + 4] = checksum.to_bytes(4, "big")


def _put(buffer: bytearray, places: NDArray[np.int64], values: NDArray[np.generic]) -> None:
    """Write each value at its index in `buffer`."""
    if len(places):
        width = values.dtype.itemsize
        into = np.frombuffer(buffer, np.uint8)
        into[places[:, None] + np.arange(width)] = values.view(np.uint8).reshape(-1, width)
