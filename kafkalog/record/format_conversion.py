"""Conversion of entries to other offsets, other timestamps or another format.

    change                                       how
    offsets, leader epoch, timestamps            a few bytes of the header, see `batch_headers`
    inner offsets that do not count 0, 1, 2...   the records are read and written again
    the format                                   the records are read and written again

The functions take entries and return new bytes; they do not change their arguments. The methods of `MessageSet` wrap
them.
Source: clients/.../common/record/RecordsUtil.java.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import EPOCH_MS, INT32_MAX, INT64_MAX, flag, member, whole
from kafkalog._speedups.framing import scan_headers
from kafkalog.attributes import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
    CompressionType,
    TimestampType,
)
from kafkalog.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from kafkalog.record.batch_headers import ensure_offsets, set_last_offsets, set_leader_epoch, set_max_timestamps
from kafkalog.record.batch_validity import ensure_readable, ensure_valid
from kafkalog.record.decoding import Entries, Reading, read_whole
from kafkalog.record.layout import NO_TIMESTAMP
from kafkalog.record.record_columns import RecordColumns
from kafkalog.record.records_builder import BatchSettings, RecordsBuilder
from kafkalog.record.wrapper import inner_messages

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def with_timestamps(entries: Entries, timestamp_type: TimestampType, timestamp: int) -> bytearray:
    """Copy the entries with another timestamp type and (largest) timestamp; nothing is decompressed.

    Args:
        entries: All entries of a set in memory.
        timestamp_type: Their new timestamp type.
        timestamp: Their new (largest) timestamp, ms.

    Raises:
        CorruptRecordError: An entry is shorter than its header, or its checksum is wrong.
        InvalidRecordError: The codec of an entry is unknown.
        UnsupportedForMessageFormatError: Format 0 has no timestamps.
    """
    timestamp_type = member("timestamp_type", timestamp_type, TimestampType)
    least = 0 if timestamp_type is TimestampType.LOG_APPEND_TIME else NO_TIMESTAMP
    timestamp = whole("timestamp", timestamp, least, INT64_MAX, EPOCH_MS)
    rows, view, _ = entries
    ensure_readable(rows)
    ensure_valid(rows, view)
    buffer = bytearray(view)
    set_max_timestamps(buffer, rows, timestamp_type, np.full(len(rows), timestamp, np.int64))
    return buffer


def with_offsets(
    entries: Entries, reading: Reading, first_offset: int, *, partition_leader_epoch: int | None = None
) -> bytearray:
    """Copy the entries with their records numbered first_offset, first_offset + 1, ...

    Args:
        entries: All entries of a set in memory.
        reading: How to read those that have to be rebuilt: wrappers whose inner offsets do not fit, and v2 batches with
            gaps.
        first_offset: The offset of the first record.
        partition_leader_epoch: The new leader epoch of the v2 batches; None keeps the old ones.

    Raises:
        CorruptRecordError: An entry is shorter than its header, or the checksum of one to be rebuilt is wrong.
        InvalidRecordError: A codec is unknown, or the content of an entry to be rebuilt does not follow the format.
        ValueError: The last offset would exceed 2**63 - 1.
    """
    first_offset = whole("first_offset", first_offset, 0, INT64_MAX)
    if partition_leader_epoch is not None:
        partition_leader_epoch = whole("partition_leader_epoch", partition_leader_epoch, -INT32_MAX - 1, INT32_MAX)
    rows = entries.rows
    ensure_readable(rows)
    lengths, rebuilt = _count_offsets(entries, first_offset, reading)
    ensure_offsets(first_offset, int(lengths.sum()))
    buffer = _with_rebuilt(entries, rebuilt)
    if rebuilt:
        rows = scan_headers(buffer)[0]
    set_last_offsets(buffer, rows, first_offset - 1 + np.cumsum(lengths, dtype=np.int64))
    if partition_leader_epoch is not None:
        set_leader_epoch(buffer, rows, partition_leader_epoch)
    return buffer


def _count_offsets(entries: Entries, offset: int, reading: Reading) -> tuple[NDArray[np.int64], dict[int, bytearray]]:
    """Return the number of offsets of each entry, and the entries that had to be rebuilt, by the index of their row."""
    rows = entries.rows
    lengths = np.where(rows["magic"] >= 2, np.maximum(rows["last_offset"] - rows["base_offset"] + 1, 0), 1)
    rebuilt, done = {}, 0
    for i in np.flatnonzero(_may_not_fit(rows)).tolist():
        offset += int(lengths[done:i].sum())
        done = i
        lengths[i], entry = _renumbered(entries.only(rows[i : i + 1]), offset, reading)
        if entry is not None:
            rebuilt[i] = entry
    return lengths, rebuilt


def _may_not_fit(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which entries may hold records that are not numbered consecutively.

    The header of a v2 batch shows it by its count. Batches without records and control batches keep their range.
    """
    batch = rows["magic"] >= 2
    gaps = (rows["records_count"] != rows["last_offset"] - rows["base_offset"] + 1) & (rows["records_count"] > 0)
    result: NDArray[np.bool_] = np.where(
        batch, gaps & (rows["attributes"] & CONTROL_BIT == 0), rows["compression_type"] != 0
    )
    return result


def _renumbered(entry: Entries, offset: int, reading: Reading) -> tuple[int, bytearray | None]:
    """Return the number of records in an entry, and the rebuilt entry if its inner offsets do not fit."""
    row = entry.rows[0]
    if row["magic"] < 2:
        inner, _ = inner_messages(entry.rows, entry.view, reading.decompression_limit)
        ensure_offsets(offset, len(inner))
        first = 0 if row["magic"] == 1 else offset
        if (inner["last_offset"] == first + np.arange(len(inner))).all():
            return len(inner), None
    columns = read_whole(entry, reading, check_crcs=True)
    ensure_offsets(offset, len(columns))
    return len(columns), rebuild(columns, replace(settings_of(row, int(row["magic"])), base_offset=offset))


def _with_rebuilt(entries: Entries, rebuilt: dict[int, bytearray]) -> bytearray:
    """Copy the entries with the rebuilt ones in place of the old ones."""
    if not rebuilt:
        return bytearray(entries.view)
    rows = entries.rows
    return bytearray(b"".join(rebuilt.get(i, entries.only(rows[i : i + 1]).view) for i in range(len(rows))))


# --- rebuilding


def settings_of(row: np.void, magic: int) -> BatchSettings:
    """Return the settings to write an entry in format `magic`; producer data only from v2 to v2.

    Raises:
        InvalidRecordError: The fields of the entry contradict each other.
    """
    timestamp_type = TimestampType(max(0, int(row["timestamp_type"])))
    log_append = timestamp_type is TimestampType.LOG_APPEND_TIME
    try:
        settings = BatchSettings(
            magic=magic,
            compression_type=CompressionType(int(row["compression_type"])),
            timestamp_type=timestamp_type,
            log_append_time=int(row["max_timestamp"]) if log_append else NO_TIMESTAMP,
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
    """Write records to one batch.

    Args:
        columns: The records.
        settings: The settings of the batch.
        keep_offsets: Whether records keep their offsets; else they are numbered from the base offset.

    Raises:
        InvalidTimestampError: A record has a negative timestamp.
        UnsupportedForMessageFormatError: A record has headers, and the format is 0 or 1.
        InvalidRecordError: The records do not fit into a batch for another reason.
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
    """Return the index of the first record with a negative timestamp or, below magic 2, with headers.

    Returns:
        The index; len(columns) if there is no such record.
    """
    bad = columns.timestamp < NO_TIMESTAMP
    if magic < 2:
        bad |= columns.headers_length > 0
    return int(bad.argmax()) if bad.any() else len(columns)


def ensure_writable(columns: RecordColumns, magic: int) -> None:
    """Check that every record can be written in format `magic`.

    Raises:
        InvalidTimestampError: A record has a negative timestamp.
        UnsupportedForMessageFormatError: A record has headers, and the format is 0 or 1.
    """
    i = unwritable(columns, magic)
    if i == len(columns):
        return
    timestamp = int(columns.timestamp[i])
    if timestamp < NO_TIMESTAMP:
        message = f"record {i} has a negative timestamp"
        raise InvalidTimestampError(message, expected="at least 0, or -1 for none", found=timestamp)
    raise UnsupportedForMessageFormatError(f"record {i} has headers", expected="magic 2", found=f"magic {magic}")


# --- formats


def to_magic(
    runs: Iterable[Entries], reading: Reading, magic: int, *, lossy: bool = True, start_offset: int | None = None
) -> bytes:
    """Convert entries to another format; see `MessageSet.to_magic`.

    Args:
        runs: The entries, in batch ranges.
        reading: How to read those that are converted.
        magic: The format.
        lossy: Whether to drop what the format does not support; else it is an error.
        start_offset: Records before it may be dropped; None drops none.
    """
    magic, lossy = whole("magic", magic, 0, 2), flag("lossy", lossy)
    if start_offset is not None:
        start_offset = whole("start_offset", start_offset, 0, INT64_MAX)
    parts: list[ReadableBuffer] = []
    for entries in runs:
        for rows in _ranges_to_convert(entries.rows, magic):
            part = entries.only(rows)
            same = rows["magic"][0] == magic
            parts.append(part.view if same else _converted(part, magic, reading, lossy, start_offset))
    return b"".join(parts)


def _ranges_to_convert(rows: NDArray[np.void], magic: int) -> Iterator[NDArray[np.void]]:
    """Cut rows into ranges to copy, ranges of messages that become one batch, and single batches or wrappers."""
    same = rows["magic"] == magic
    loose = (rows["magic"] < 2) & (rows["compression_type"] == 0) & ~same
    joined = (same[1:] & same[:-1]) | (loose[1:] & loose[:-1] & _fit_into_one_batch(rows[:-1], rows[1:]))
    cuts = [0, *(np.flatnonzero(~joined) + 1).tolist(), len(rows)]
    return (rows[start:end] for start, end in pairwise(cuts))


def _fit_into_one_batch(left: NDArray[np.void], right: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which neighbours fit into one batch: same magic, timestamp type and append time, and rising offsets.

    Offsets of one batch must not cross a multiple of 2**31, so that offset deltas fit into an int32.
    """
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
    columns = read_whole(entries, reading, check_crcs=True)
    if magic < row["magic"] and start_offset is not None and not row["compression_type"]:
        columns = columns.between(start_offset, INT64_MAX)
    if batch and not lossy:
        _check_nothing_is_lost(row, columns, reading.path)
    settings = settings_of(row, magic)
    if not len(columns):
        return b""
    first = int(columns.offset[0])
    if first < 0:
        raise InvalidRecordError("a record has a negative offset", expected="at least 0", found=first)
    if magic < 2:
        columns = _without_headers(columns)
    return rebuild(columns, replace(settings, base_offset=first), keep_offsets=True)


def _check_nothing_is_lost(row: np.void, columns: RecordColumns, path: str | None) -> None:
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


def _without_headers(columns: RecordColumns) -> RecordColumns:
    """Return the records without their headers."""
    block = columns._block.copy()
    block[7] = 0
    return RecordColumns(columns.buffer, block, columns.batch, columns.batches)
