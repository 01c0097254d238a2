"""Entries rewritten: other offsets, other timestamps, another format.

    place   v2                             v0, v1
    0       base offset int64              offset int64 (of a wrapper: its last message's)
    12      leader epoch int32             crc uint32, over 16 ...
    16      magic                          magic
    17      crc uint32, over 21 ...        attributes int8: codec, v1: timestamp type
    18                                     v1: timestamp int64
    21      attributes int16
    35      largest timestamp int64

Offsets and leader epoch lie outside both CRCs and what is compressed: whole batches get new ones by these few bytes.
Only where the offsets inside do not count 0, 1, 2, ... must records be read and written anew.

No function changes the bytes that a caller gave: the new set lies in a buffer of its own.
Source: clients/.../common/record/{DefaultRecordBatch,AbstractLegacyRecordBatch,RecordsUtil}.java.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from kafkalog._speedups import decode as kernel
from kafkalog._speedups.arguments import EPOCH_MS, INT32_MAX, INT64_MAX, flag, member, whole
from kafkalog._speedups.checksum import crc32, first_invalid
from kafkalog._speedups.framing import scan_headers
from kafkalog._speedups.header_table import first_unreadable
from kafkalog.attributes import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    CompressionType,
    TimestampType,
)
from kafkalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from kafkalog.record import decompress
from kafkalog.record.decoding import Entries, Reading, read_columns, unreadable, wrong_checksum
from kafkalog.record.layout import (
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_CRC_FROM,
    BATCH_LEADER_EPOCH_AT,
    BATCH_MAX_TIMESTAMP_AT,
    CODEC_MASK,
    LOG_OVERHEAD,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_CRC_AT,
    MESSAGE_CRC_FROM,
    MESSAGE_TIMESTAMP_AT,
    RECORD_OVERHEAD_V0,
)
from kafkalog.record.message_set import ByteBufferMessageSet, MessageSet
from kafkalog.record.record_batch import RecordBatch
from kafkalog.record.record_columns import RecordColumns
from kafkalog.record.records_builder import BatchSettings, RecordsBuilder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# What a batch keeps of its attributes when its timestamp type changes: no unused bit.
KEPT_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


# --- a few bytes in place


def set_last_offsets(buffer: bytearray, rows: NDArray[np.void], last_offsets: NDArray[np.int64]) -> None:
    """Let the last record of each entry have this offset; the others of a v2 batch move with it."""
    delta = np.where(rows["magic"] >= 2, rows["last_offset"] - rows["base_offset"], 0)
    _put(buffer, rows["position"], (last_offsets - delta).astype(">i8"))


def set_leader_epoch(buffer: bytearray, rows: NDArray[np.void], epoch: int) -> None:
    """Write the leader epoch into the v2 batches; the other formats have none."""
    batches = rows[rows["magic"] >= 2]
    _put(buffer, batches["position"] + BATCH_LEADER_EPOCH_AT, np.full(len(batches), epoch, ">i4"))


def set_max_timestamps(
    buffer: bytearray, rows: NDArray[np.void], timestamp_type: TimestampType, timestamps: NDArray[np.int64]
) -> None:
    """Give each entry this timestamp type and largest timestamp, and its CRC anew where that changes anything.

    UnsupportedForMessageFormatError: format 0 has no timestamps. ValueError: NO_TIMESTAMP_TYPE.
    """
    if timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        raise ValueError("a timestamp type is needed from magic 1 on")
    if (rows["magic"] == 0).any():
        raise UnsupportedForMessageFormatError("format 0 has no timestamps", expected="magic 1 or 2", found="magic 0")
    changed = (rows["timestamp_type"] != timestamp_type) | (rows["max_timestamp"] != timestamps)
    fields = (rows[name][changed].tolist() for name in ("position", "size_in_bytes", "magic", "attributes"))
    view, bit = memoryview(buffer), _type_bit(timestamp_type)
    for start, size, magic, attributes, timestamp in zip(*fields, timestamps[changed].tolist(), strict=True):
        stamp = stamp_batch if magic >= 2 else _stamp_message
        stamp(view[start : start + size], attributes, bit, timestamp)


def stamp_batch(entry: memoryview, attributes: int, type_bit: int, timestamp: int) -> None:
    """Write type and largest timestamp of a v2 batch, and its CRC."""
    attributes = attributes & KEPT_ATTRIBUTES | type_bit
    entry[BATCH_ATTRIBUTES_AT : BATCH_ATTRIBUTES_AT + 2] = attributes.to_bytes(2, "big")
    entry[BATCH_MAX_TIMESTAMP_AT : BATCH_MAX_TIMESTAMP_AT + 8] = timestamp.to_bytes(8, "big", signed=True)
    entry[BATCH_CRC_AT : BATCH_CRC_AT + 4] = crc32c(entry[BATCH_CRC_FROM:]).to_bytes(4, "big")


def _stamp_message(entry: memoryview, attributes: int, type_bit: int, timestamp: int) -> None:
    entry[MESSAGE_ATTRIBUTES_AT] = attributes & CODEC_MASK | type_bit
    entry[MESSAGE_TIMESTAMP_AT : MESSAGE_TIMESTAMP_AT + 8] = timestamp.to_bytes(8, "big", signed=True)
    entry[MESSAGE_CRC_AT : MESSAGE_CRC_AT + 4] = crc32(entry[MESSAGE_CRC_FROM:]).to_bytes(4, "big")


def _type_bit(timestamp_type: TimestampType) -> int:
    return LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0


def _put(buffer: bytearray, places: NDArray[np.int64], values: NDArray[np.generic]) -> None:
    """Lay the bytes of each value at its place."""
    if len(places):
        width = values.dtype.itemsize
        into = np.frombuffer(buffer, np.uint8)
        into[places[:, None] + np.arange(width)] = values.view(np.uint8).reshape(-1, width)


# --- what a wrapper holds


def inner_messages(row: np.void, entry: memoryview, limit: int = decompress.DEFAULT_LIMIT) -> Entries:
    """The messages in a compressed v0/v1 message, as they lie there: their own offsets and timestamps.

    CorruptRecordError: a message smaller than any can be. InvalidRecordError: no value, no messages, or not to be
    decompressed. A message cut short at the end is left out.
    """
    value = _value_of(row, entry)
    region = memoryview(
        decompress.decompress(int(row["compression_type"]), value, limit=limit, magic=int(row["magic"]))
    )
    rows, _, at, *_ = scan_headers(region)
    ensure_end(region, at)
    if not len(rows):
        raise InvalidRecordError("a compressed message holds no message", expected="at least 1 message", found=0)
    return Entries(rows, region, 0)


def nested_set(batch: RecordBatch) -> ByteBufferMessageSet:
    """The set of messages inside a v0/v1 wrapper; in format 1 their offsets there count from 0.

    ValueError: it is no wrapper. CorruptRecordError, InvalidRecordError: as `inner_messages`.
    """
    if batch.magic >= 2 or not batch.is_compressed:
        raise ValueError(f"{batch!r} is no compressed message of format 0 or 1")
    limit = batch._reading.decompression_limit
    inner = inner_messages(batch._row[0], batch._view, limit)
    return ByteBufferMessageSet(inner.view, decompression_limit=limit)


def ensure_end(view: memoryview, at: int) -> None:
    """CorruptRecordError: the bytes from `at` on begin an entry of a size that cannot be, zeros too."""
    size = int.from_bytes(view[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
    if len(view) - at >= LOG_OVERHEAD and size < RECORD_OVERHEAD_V0:
        message = "the size field is less than the smallest record's"
        raise CorruptRecordError(message, None, at, RECORD_OVERHEAD_V0, size)


def _value_of(row: np.void, entry: memoryview) -> memoryview:
    """The value of one v0/v1 message, whatever its codec."""
    plain = np.array([row])
    plain["compression_type"] = 0
    block, _, count, _ = kernel.decode_batches(entry, plain, np.zeros(1, np.int64), np.array([len(entry)], np.int64))
    start, length = (int(block[4, 0]), int(block[5, 0])) if count else (0, -1)
    if length < 0:
        raise InvalidRecordError("a compressed message has no value, or one that overruns it")
    return entry[start : start + length]


# --- steps


def with_timestamps(message_set: MessageSet, timestamp_type: TimestampType, timestamp: int) -> ByteBufferMessageSet:
    """Every entry with this timestamp type and (largest) timestamp; what is compressed stays as it is."""
    timestamp_type = member("timestamp_type", timestamp_type, TimestampType)
    least = 0 if timestamp_type is TimestampType.LOG_APPEND_TIME else -1
    timestamp = whole("timestamp", timestamp, least, INT64_MAX, EPOCH_MS)
    rows, buffer = copied(message_set)
    ensure_checksums(rows, buffer, message_set._reading.path)
    set_max_timestamps(buffer, rows, timestamp_type, np.full(len(rows), timestamp, np.int64))
    return _set_like(message_set, buffer)


def with_offsets(
    message_set: MessageSet, first_offset: int, *, partition_leader_epoch: int | None = None
) -> ByteBufferMessageSet:
    """The records numbered first_offset, first_offset + 1, ...; entries rebuilt only where they leave no other way."""
    first_offset = whole("first_offset", first_offset, 0, INT64_MAX)
    if partition_leader_epoch is not None:
        partition_leader_epoch = whole("partition_leader_epoch", partition_leader_epoch, -INT32_MAX - 1, INT32_MAX)
    rows, buffer = copied(message_set)
    lengths, pieces = _numbered(rows, memoryview(buffer), first_offset, message_set._reading)
    ensure_offsets(first_offset, int(lengths.sum()))
    if pieces:
        buffer = _replaced(rows, buffer, pieces)
        rows = scan_headers(buffer)[0]
    set_last_offsets(buffer, rows, first_offset - 1 + np.cumsum(lengths, dtype=np.int64))
    if partition_leader_epoch is not None:
        set_leader_epoch(buffer, rows, partition_leader_epoch)
    return _set_like(message_set, buffer)


def ensure_offsets(first_offset: int, count: int) -> int:
    """The last of so many offsets. ValueError: there are not as many."""
    last = first_offset + count - 1
    if last > INT64_MAX:
        raise ValueError(f"{count} records from offset {first_offset} on: the largest offset is 2**63 - 1")
    return last


def copied(message_set: MessageSet) -> tuple[NDArray[np.void], bytearray]:
    """The header table of the whole entries, and their bytes to be changed; positions count from the first.

    CorruptRecordError: damage in the framing, or an entry too short for its header.
    """
    rows = message_set.headers()
    if not len(rows):
        return rows, bytearray()
    ensure_readable(rows, message_set._reading.path)
    entries = message_set._entries(rows)
    rows["position"] -= entries.position
    return rows, bytearray(entries.view)


def ensure_readable(rows: NDArray[np.void], path: str | None = None) -> None:
    """CorruptRecordError: an entry too short for its header. InvalidRecordError: a codec that does not exist."""
    bad = first_unreadable(rows)
    unknown = rows["compression_type"][:bad] > CompressionType.ZSTD
    if unknown.any():
        row = rows[unknown.argmax()]
        raise InvalidRecordError("unknown codec", path, int(row["position"]), "0..4", int(row["compression_type"]))
    if bad < len(rows):
        raise unreadable(rows[bad]).at(path)


def ensure_checksums(rows: NDArray[np.void], view: "ReadableBuffer", path: str | None = None) -> None:
    """CorruptRecordError: the stored checksum of an entry is not that of its bytes."""
    bad, computed = first_invalid(view, rows)
    if bad < len(rows):
        raise wrong_checksum(rows[bad], computed).at(path)


def _set_like(message_set: MessageSet, buffer: "ReadableBuffer") -> ByteBufferMessageSet:
    return ByteBufferMessageSet(buffer, decompression_limit=message_set._reading.decompression_limit)


def _numbered(
    rows: NDArray[np.void], view: memoryview, offset: int, reading: Reading
) -> tuple[NDArray[np.int64], dict[int, bytearray]]:
    """How many offsets each entry takes, and those entries that had to be rebuilt, by their row."""
    lengths = np.where(rows["magic"] >= 2, np.maximum(rows["last_offset"] - rows["base_offset"] + 1, 0), 1)
    rebuilt, done = {}, 0
    for i in np.flatnonzero(_may_not_fit(rows)).tolist():
        offset += int(lengths[done:i].sum())
        done = i
        lengths[i], piece = _renumbered(entry_of(rows[i : i + 1], view), offset, reading)
        if piece is not None:
            rebuilt[i] = piece
    return lengths, rebuilt


def _may_not_fit(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    """Entries whose records may not be numbered one after the other.

    A v2 batch tells by its count; one without records stands for the range it has, and a control batch for itself.
    """
    batch = rows["magic"] >= 2
    gaps = (rows["records_count"] != rows["last_offset"] - rows["base_offset"] + 1) & (rows["records_count"] > 0)
    result: NDArray[np.bool_] = np.where(
        batch, gaps & (rows["attributes"] & CONTROL_BIT == 0), rows["compression_type"] != 0
    )
    return result


def _renumbered(entries: Entries, offset: int, reading: Reading) -> tuple[int, bytearray | None]:
    """How many records an entry holds, and the entry anew where its inner offsets do not fit."""
    row = entries.rows[0]
    if row["magic"] < 2:
        inner = inner_messages(row, entries.view, reading.decompression_limit).rows
        first = 0 if row["magic"] == 1 else offset
        if (inner["last_offset"] == first + np.arange(len(inner))).all():
            return len(inner), None
    columns = _columns(entries, reading)
    ensure_offsets(offset, len(columns))
    return len(columns), rebuild(columns, replace(settings_of(row, int(row["magic"])), base_offset=offset))


def _replaced(rows: NDArray[np.void], buffer: bytearray, pieces: dict[int, bytearray]) -> bytearray:
    view = memoryview(buffer)
    return bytearray(b"".join(pieces.get(i, entry_of(rows[i : i + 1], view).view) for i in range(len(rows))))


def entry_of(rows: NDArray[np.void], view: memoryview, position: int = 0) -> Entries:
    """These entries alone, which lie one after the other; view[0] is at `position`."""
    start, end = int(rows["position"][0]), int(rows["position"][-1] + rows["size_in_bytes"][-1])
    return Entries(rows, view[start - position : end - position], start)


def _columns(entries: Entries, reading: Reading) -> RecordColumns:
    found = list(read_columns(entries, replace(reading, control=True)))
    return found[0] if found else RecordColumns.empty()


# --- records written anew


def settings_of(row: np.void, magic: int) -> BatchSettings:
    """What the entry of this row says besides its records, for one of format `magic`; producer data only from v2 to v2.

    InvalidRecordError: it contradicts itself.
    """
    timestamp_type = TimestampType(max(0, int(row["timestamp_type"])))
    log_append = timestamp_type is TimestampType.LOG_APPEND_TIME
    try:
        settings = BatchSettings(
            magic=magic,
            compression_type=CompressionType(int(row["compression_type"])),
            timestamp_type=timestamp_type,
            log_append_time=int(row["max_timestamp"]) if log_append else -1,
        )
        return settings if magic < 2 or row["magic"] < 2 else replace(settings, **_batch_fields(row))
    except ValueError as error:
        raise InvalidRecordError(f"the entry contradicts itself: {error}", None, int(row["position"])) from None


def _batch_fields(row: np.void) -> dict[str, Any]:
    attributes = int(row["attributes"])
    return {
        "producer_id": int(row["producer_id"]),
        "producer_epoch": int(row["producer_epoch"]),
        "base_sequence": int(row["base_sequence"]),
        "is_transactional": bool(attributes & TRANSACTIONAL_BIT),
        "is_control": bool(attributes & CONTROL_BIT),
        "partition_leader_epoch": int(row["partition_leader_epoch"]),
        "delete_horizon_ms": int(row["base_timestamp"]) if attributes & DELETE_HORIZON_BIT else None,
    }


def rebuild(columns: RecordColumns, settings: BatchSettings, *, keep_offsets: bool = False) -> bytearray:
    """The records in a batch of these settings, numbered from its base offset or by their own offsets.

    InvalidTimestampError, UnsupportedForMessageFormatError: a record that cannot be written there.
    """
    ensure_writable(columns, settings.magic)
    builder = RecordsBuilder(settings)
    try:
        for records in columns.record_lists():
            builder.extend(records, keep_offsets)
    except ValueError as error:
        raise InvalidRecordError(f"the records cannot be written: {error}") from None
    return builder.build()


def unwritable(columns: RecordColumns, magic: int) -> int:
    """The first record that cannot be written in format `magic`: a negative timestamp, headers; or how many there are.

    Formats 0 and 1 have no headers.
    """
    bad = columns.timestamp < -1
    if magic < 2:
        bad |= columns.headers_length > 0
    return int(bad.argmax()) if bad.any() else len(columns)


def ensure_writable(columns: RecordColumns, magic: int) -> None:
    """InvalidTimestampError, UnsupportedForMessageFormatError: one of the records cannot be written."""
    i = unwritable(columns, magic)
    if i == len(columns):
        return
    timestamp = int(columns.timestamp[i])
    if timestamp < -1:
        message = f"record {i} has a negative timestamp"
        raise InvalidTimestampError(message, expected="at least 0, or -1 for none", found=timestamp)
    raise UnsupportedForMessageFormatError(f"record {i} has headers", expected="magic 2", found=f"magic {magic}")


# --- formats


def to_magic(
    message_set: MessageSet, magic: int, *, lossy: bool = True, start_offset: int | None = None
) -> ByteBufferMessageSet:
    """See `MessageSet.to_magic`."""
    magic, lossy = whole("magic", magic, 0, 2), flag("lossy", lossy)
    if start_offset is not None:
        start_offset = whole("start_offset", start_offset, 0, INT64_MAX)
    parts: list[ReadableBuffer] = []
    for run in message_set.header_runs():
        entries = message_set._entries(run)
        for rows in _alike(run, magic):
            part = entry_of(rows, entries.view, entries.position)
            same = rows["magic"][0] == magic
            parts.append(part.view if same else _converted(part, magic, message_set._reading, lossy, start_offset))
    return _set_like(message_set, b"".join(parts))


def _alike(rows: NDArray[np.void], magic: int) -> Iterator[NDArray[np.void]]:
    """Cut rows into those that need nothing, messages that may share an entry, and single batches and wrappers."""
    same = rows["magic"] == magic
    loose = (rows["magic"] < 2) & (rows["compression_type"] == 0) & ~same
    joined = (same[1:] & same[:-1]) | (loose[1:] & loose[:-1] & _may_share(rows[:-1], rows[1:]))
    cuts = [0, *(np.flatnonzero(~joined) + 1).tolist(), len(rows)]
    return (rows[start:end] for start, end in pairwise(cuts))


def _may_share(left: NDArray[np.void], right: NDArray[np.void]) -> NDArray[np.bool_]:
    """Whether two messages fit into one batch: one type, one append time, offsets that rise by no more than 2**31."""
    alike = (left["magic"] == right["magic"]) & (left["timestamp_type"] == right["timestamp_type"])
    own_time = left["timestamp_type"] != TimestampType.LOG_APPEND_TIME
    one_time = own_time | (left["max_timestamp"] == right["max_timestamp"])
    before, after = left["last_offset"], right["last_offset"]
    result: NDArray[np.bool_] = alike & one_time & (before < after) & (before >> 31 == after >> 31)
    return result


def _converted(
    entries: Entries, magic: int, reading: Reading, lossy: bool, start_offset: int | None
) -> "ReadableBuffer":
    row = entries.rows[0]
    batch = row["magic"] >= 2
    if batch and row["attributes"] & CONTROL_BIT and lossy:
        return b""
    if magic < 2 and row["compression_type"] == CompressionType.ZSTD:
        message = "zstd exists only in format 2"
        raise UnsupportedCompressionError(message, reading.path, int(row["position"]), "magic 2", f"magic {magic}")
    columns = _columns(entries, reading)
    if magic < row["magic"] and start_offset is not None and not row["compression_type"]:
        columns = columns.between(start_offset, 2**63 - 1)
    if batch and not lossy:
        _refuse_loss(row, columns, reading.path)
    return _build_converted(columns, settings_of(row, magic))


def _refuse_loss(row: np.void, columns: RecordColumns, path: str | None) -> None:
    lost = {
        "control records": row["attributes"] & CONTROL_BIT,
        "transactional records": row["attributes"] & TRANSACTIONAL_BIT,
        "an idempotent producer": row["producer_id"] != -1,
        "record headers": (columns.headers_length > 0).any(),
    }
    for what, present in lost.items():
        if present:
            message = f"the format does not support {what}"
            raise UnsupportedForMessageFormatError(message, path, int(row["position"]), "magic 2")


def _build_converted(columns: RecordColumns, settings: BatchSettings) -> bytearray:
    if not len(columns):
        return bytearray()
    first = int(columns.offset[0])
    if first < 0:
        raise InvalidRecordError("a record has a negative offset", expected="at least 0", found=first)
    settings = replace(settings, base_offset=first)
    return rebuild(without_headers(columns) if settings.magic < 2 else columns, settings, keep_offsets=True)


def without_headers(columns: RecordColumns) -> RecordColumns:
    """The same records, their headers left out."""
    block = columns._block.copy()
    block[7] = 0
    return RecordColumns(columns.buffer, block, columns.batch, columns.batches)
