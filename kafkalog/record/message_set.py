"""Sequences of log entries: `MessageSet`, the base class, and `ByteBufferMessageSet`, in memory.

    entry | entry | ... | end, torn tail or zeroed tail

A message set is iterable and never its own iterator, so several readers can iterate over it at once.
Kafka: `Records` and `MemoryRecords` (before 0.11 `MessageSet` and `ByteBufferMessageSet`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import decompress
from kafkalog._speedups.arguments import BYTES, EPOCH_MS, INT32_MAX, INT64_MAX, flag, instance, member, whole
from kafkalog._speedups.checksum import first_invalid
from kafkalog._speedups.framing import scan_headers
from kafkalog._speedups.record import Record
from kafkalog.attributes import CodecName, CompressionType, TimestampType
from kafkalog.record.batch_validity import ensure_valid, wrong_checksum
from kafkalog.record.decoding import Entries, Reading, pays_in_threads, read_pieces
from kafkalog.record.format_conversion import to_magic, with_offsets, with_timestamps
from kafkalog.record.framing import EndOfData, Stop, end_of
from kafkalog.record.ordered_map import ordered_map
from kafkalog.record.record_batch import RecordBatch, batches_of
from kafkalog.record.record_checks import check_keys, check_magic, check_timestamps
from kafkalog.record.record_columns import RecordColumns
from kafkalog.record.records_builder import BatchSettings, RecordsBuilder
from kafkalog.record.write_to import Target, by_python, write_all

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Entries are read in ranges of about so many bytes and at most so many rows.
RUN_BYTES = 1 << 20
RUN_ROWS = 8192
# Ranges are longer where little is done with each batch, or where each is passed to a thread: what a range costs by
# itself is as much as the work on some batches.
LONG_RUN_BYTES = 4 * RUN_BYTES
THREAD_RUN_BYTES = 2 * RUN_BYTES
# The number of bytes that a thread decodes of a range ahead of the reader. Few ranges reach it, but a range may
# decompress to a gigabyte.
MOST_WAITING_BYTES = 32 << 20
# A range has at most so many times the bytes of the one before it: the reader may need only the first entry.
RUN_GROWTH = 8
INT8_MIN, INT8_MAX = -128, 127
# The size of a producer's batch by default (batch.size).
DEFAULT_BATCH_BYTES = 16 * 1024
_DEFAULT = Reading()


class MessageSet(ABC):
    """A sequence of log entries: `RecordBatch`es of `Record`s.

    Reading yields everything before damage and then raises `CorruptRecordError` (framing, checksum) or
    `InvalidRecordError` (content). A torn or zeroed tail is not damage: reading stops there, and `end_of_data` has its
    kind and position.
    """

    # Smaller in a set that begins at the result of a search, because its reader may need only one record.
    _first_run_bytes = LONG_RUN_BYTES

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @abstractmethod
    def _scan(self, start: int, *, rows: int, span: int, max_size: int = -1) -> tuple[NDArray[np.void], Stop]:
        """Scan the headers of entries.

        Args:
            start: The position of the first entry.
            rows: The most entries to return; -1 = no limit.
            span: The number of bytes after which to stop; -1 = no limit.
            max_size: The largest valid size field; -1 = no limit.
        """

    @abstractmethod
    def _view(self, position: int, length: int) -> memoryview:
        """Return the bytes [position, position + length), which a scan has found."""

    @property
    @abstractmethod
    def _start(self) -> int:
        """The position of the first entry."""

    @property
    @abstractmethod
    def size_in_bytes(self) -> int:
        """The size in bytes, including a torn or zeroed tail."""

    def __bytes__(self) -> bytes:
        """Return all bytes, including a torn or zeroed tail."""
        return bytes(self._view(self._start, self.size_in_bytes))

    def __iter__(self) -> Iterator[Record]:
        """Yield the records in order, without control records; checksums are checked."""
        return chain.from_iterable(chain.from_iterable(each.record_lists() for each in self.columns()))

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the entries in order; nothing is decompressed, no checksum computed."""
        return chain.from_iterable(batches_of(entries, self._reading) for entries in self._loaded_runs())

    def headers(self) -> NDArray[np.void]:
        """Return one row (`HEADER_DTYPE`) per entry, read from the headers alone.

        Raises:
            CorruptRecordError: Damage in the framing.
        """
        rows, stop = self._scan(self._start, rows=-1, span=-1)
        self._check_end(stop)
        return rows

    def header_runs(self) -> Iterator[NDArray[np.void]]:
        """Yield the rows of `headers()` in arrays of bounded size.

        Raises:
            CorruptRecordError: Damage in the framing, after the rows before it.
        """
        return self._runs()

    def columns(self, *, threads: int = 1, check_crcs: bool = True) -> Iterator[RecordColumns]:
        """Yield the records in order as arrays, some thousand at a time, without control records.

        Args:
            threads: The number of threads that decode, a little ahead of the reader. Small compressed batches are
                decoded by the caller's thread, see `decoding.pays_in_threads`.
            check_crcs: False saves about a fifth of the time on uncompressed data, but damaged batches may then yield
                wrong records.

        Raises:
            ValueError: `threads` is less than 1.
        """
        threads = whole("threads", threads, 1, INT32_MAX)
        decode = partial(read_pieces, reading=replace(self._reading, check_crcs=flag("check_crcs", check_crcs)))
        if threads == 1:
            return chain.from_iterable(map(decode, self._loaded_runs()))
        tasks = self._loaded_runs(span=THREAD_RUN_BYTES)
        return ordered_map(decode, tasks, threads, weigh=memory_of, most=MOST_WAITING_BYTES, pays=pays_in_threads)

    def ensure_valid(self) -> None:
        """Check the format and the checksum of every entry; nothing is decompressed.

        Raises:
            CorruptRecordError: An entry is not valid, or damage in the framing.
        """
        for entries in self._loaded_runs():
            ensure_valid(*entries, path=self._reading.path)

    def sound_runs(self) -> Iterator[Entries]:
        """Yield the entries up to the first wrong checksum; nothing is decompressed.

        These are the entries that recovery keeps: it does not check the magic, which no checksum covers.

        Raises:
            CorruptRecordError: A wrong checksum, or damage in the framing, after the entries before it.
        """
        for entries in self._loaded_runs(span=LONG_RUN_BYTES):
            run = entries.rows
            bad, computed = first_invalid(entries.view, run, entries.position)
            if bad:
                yield entries._replace(rows=run[:bad])
            if bad < len(run):
                raise wrong_checksum(run[bad], computed).at(self._reading.path)

    @property
    def end_of_data(self) -> EndOfData:
        """The position and the kind of the end of the complete entries: END, TORN or ZEROED.

        Raises:
            CorruptRecordError: Damage in the framing.
        """
        *_, stop = (stop for _, stop in self._scans())
        return stop.end(self._reading.path)

    @property
    def valid_bytes(self) -> int:
        """The number of bytes from the start to the end of the last complete entry.

        Raises:
            CorruptRecordError: Damage in the framing.
        """
        return self.end_of_data.position - self._start

    def has_matching_magic(self, magic: int) -> bool:
        """Return whether every entry is of format `magic`; True if there is no entry."""
        magic = whole("magic", magic, INT8_MIN, INT8_MAX)
        return all(bool((run["magic"] == magic).all()) for run in self._runs())

    def to_magic(self, magic: int, *, lossy: bool = True, start_offset: int | None = None) -> "ByteBufferMessageSet":
        """Convert the entries to format `magic` in memory. Offsets stay the same, and so do entries of that format.

        To an older format as Kafka converts for old consumers: control batches, headers and producer data are dropped.
        To a newer format, uncompressed messages become v2 batches of about a megabyte at most.

        Args:
            magic: The format.
            lossy: False raises an error instead of dropping anything.
            start_offset: Drop records before it from uncompressed batches; only to an older format.

        Raises:
            UnsupportedForMessageFormatError: With lossy=False, something would be dropped.
            UnsupportedCompressionError: A batch is compressed with zstd, which exists only in format 2.
            ValueError: There is no such format.
        """
        runs = self._loaded_runs(span=LONG_RUN_BYTES)
        return self._like(to_magic(runs, self._reading, magic, lossy=lossy, start_offset=start_offset))

    def write_to(self, file: Target, position: int = 0, size: int | None = None) -> int:
        """Write bytes to a binary file or a socket.

        Args:
            file: The file or socket.
            position: The first byte, counted from this set's start.
            size: The number of bytes; None = all.

        Returns:
            The number of bytes written: less than `size` if this set ends before, or if `file` is non-blocking and
            full.

        Raises:
            ValueError: `position` or `size` is negative, or `position` is after the end.
            OSError: `file` raises it.
            TypeError: `file` is neither a file nor a socket.
        """
        position, size = self._range(position, size, "size")
        return write_all(by_python(self._view, file), self._start + position, size)

    def _range(self, position: int, length: int | None, name: str) -> tuple[int, int]:
        """Check a range of bytes in this set and return its position and length, cut at the end.

        Args:
            position: The first byte, counted from this set's start.
            length: The number of bytes; None = all.
            name: The name of `length` in error messages.

        Raises:
            ValueError: `position` is outside, or `length` negative.
        """
        end = self.size_in_bytes
        position = whole("position", position, 0, end, BYTES)
        left = end - position
        return position, left if length is None else min(left, whole(name, length, 0, INT64_MAX, BYTES))

    def _scans(self, start: int | None = None) -> Iterator[tuple[NDArray[np.void], Stop]]:
        """Yield the header rows of the entries from `start` on, a run at a time, and where the run stopped."""
        position, more = self._start if start is None else start, True
        while more:
            rows, stop = self._scan(position, rows=RUN_ROWS, span=-1)
            position, more = stop.position, stop.more
            yield rows, stop

    def _runs(
        self, start: int | None = None, *, max_size: int = -1, span: int = RUN_BYTES
    ) -> Iterator[NDArray[np.void]]:
        """Yield the headers of the entries, one batch range at a time.

        Args:
            start: The position of the first entry; None = this set's start.
            max_size: The largest valid size field; -1 = no limit.
            span: The approximate number of bytes in a range.

        Raises:
            CorruptRecordError: Damage in the framing, after the rows before it.
        """
        position = self._start if start is None else start
        more, reach = True, self._first_run_bytes
        while more:
            rows, stop = self._scan(
                position, rows=1 if reach == 1 else RUN_ROWS, span=min(span, reach), max_size=max_size
            )
            if len(rows):
                yield rows
            reach = RUN_GROWTH * (stop.position - position)
            position, more = stop.position, stop.more
        self._check_end(stop)

    def _check_end(self, stop: Stop) -> None:
        """Check the reason why a scan stopped.

        Raises:
            CorruptRecordError: It is damage, not an end.
        """
        stop.end(self._reading.path)

    def _loaded_runs(self, start: int | None = None, *, max_size: int = -1, span: int = RUN_BYTES) -> Iterator[Entries]:
        """Yield batch ranges with their bytes; arguments and errors as of `_runs`."""
        return map(self._entries, self._runs(start, max_size=max_size, span=span))

    def _entries(self, run: NDArray[np.void]) -> Entries:
        start = int(run["position"][0])
        return Entries(run, self._view(start, end_of(run) - start), start)

    def _like(self, buffer: "ReadableBuffer") -> "ByteBufferMessageSet":
        return ByteBufferMessageSet(buffer, decompression_limit=self._reading.decompression_limit)


class ByteBufferMessageSet(MessageSet):
    """A message set in memory, over any buffer of bytes, which is not copied.

    As in Kafka's reader of memory, a magic other than 0, 1, 2 is damage, and an incomplete last entry is the end.

    Args:
        buffer: The bytes.
        decompression_limit: The number of bytes that one batch may decompress to.
    """

    def __init__(self, buffer: "ReadableBuffer", *, decompression_limit: int = decompress.DEFAULT_LIMIT) -> None:
        limit = whole("decompression_limit", decompression_limit, 0, INT64_MAX, BYTES)
        super().__init__(_DEFAULT if limit == decompress.DEFAULT_LIMIT else Reading(decompression_limit=limit))
        self._buffer = memoryview(buffer).cast("B").toreadonly()

    @property
    def _start(self) -> int:
        return 0

    @property
    def size_in_bytes(self) -> int:
        """The size of the buffer in bytes, including a torn or zeroed tail."""
        return self._buffer.nbytes

    def _scan(self, start: int, *, rows: int, span: int, max_size: int = -1) -> tuple[NDArray[np.void], Stop]:
        found, *stop = scan_headers(self._buffer, 0, start, rows, strict_magic=True, max_size=max_size, span=span)
        return found, Stop(*stop)

    def _view(self, position: int, length: int) -> memoryview:
        return self._buffer[position : position + length]

    def _whole(self) -> Entries:
        """Return all complete entries."""
        rows, stop = self._scan(0, rows=-1, span=-1)
        self._check_end(stop)
        return Entries(rows, self._buffer[: stop.position], 0)

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        compression_type: CompressionType | CodecName = CompressionType.NONE,
        compression_level: int | None = None,
        magic: int = 2,
        base_offset: int = 0,
        offsets: Iterable[int] | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        timestamp: int | datetime | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        partition_leader_epoch: int = -1,
    ) -> "ByteBufferMessageSet":
        """Write records to one v2 batch, to v0/v1 messages, or to one compressed v0/v1 message.

        The offsets of the records themselves are ignored. Format 0 has no timestamps.

        Args:
            records: The records; none gives an empty set.
            compression_type: The codec.
            compression_level: The compression level; None = the codec's default.
            magic: The format: 0, 1 or 2.
            base_offset: The offset of the first record; the others follow consecutively.
            offsets: The rising offsets of the records, instead of `base_offset`; surplus offsets are ignored.
            timestamp: Milliseconds. With LogAppendTime, the append time. With CreateTime, the timestamp of the batch or
                wrapper instead of the largest of its records; ignored for uncompressed messages.
            timestamp_type: CREATE_TIME (set by the producer) or LOG_APPEND_TIME (set by the broker).
            producer_id: The id of the idempotent producer; -1 = none.
            producer_epoch: The epoch of the idempotent producer; -1 = none.
            base_sequence: The sequence of the first record; -1 = none.
            is_transactional: Whether the batch is part of a transaction.
            is_control: Whether it holds control records.
            partition_leader_epoch: The epoch of the leader; -1 = unknown.

        Raises:
            ValueError: Kafka does not accept the settings or a record.
            TypeError: An item of `records` is not a `Record`.
        """
        timestamp_type = member("timestamp_type", timestamp_type, TimestampType)
        if timestamp is not None:
            timestamp = whole("timestamp", timestamp, -1, INT64_MAX, EPOCH_MS)
        log_append = timestamp_type is TimestampType.LOG_APPEND_TIME
        assigned = None
        if offsets is not None:
            base_offset, assigned = _rising(offsets, base_offset)
        settings = BatchSettings(
            magic=magic,
            compression_type=member("compression_type", compression_type, CompressionType),
            compression_level=compression_level,
            timestamp_type=timestamp_type,
            log_append_time=timestamp if log_append and timestamp is not None else -1,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
            is_control=is_control,
            partition_leader_epoch=partition_leader_epoch,
        )
        builder = RecordsBuilder(settings)
        if assigned is None:
            builder.extend(records)
        else:
            _append_at(builder, records, assigned)
        message_set = cls(builder.build())
        if log_append or timestamp is None or magic == 0 or (magic == 1 and not settings.is_wrapped):
            return message_set
        return message_set.with_timestamps(timestamp_type, timestamp)

    def check_magic(self, magic: int) -> Self:
        """Check that every entry and every message inside a wrapper is of format `magic`; return this set.

        Raises:
            InvalidRecordError: An entry is of another format.
            RecordValidationError: Messages inside an entry are of another format.
        """
        check_magic(self._whole(), self._reading, magic)
        return self

    def check_keys(self) -> Self:
        """Check that every record has a key, as compacted topics require; return this set.

        Raises:
            RecordValidationError: A record has no key.
        """
        check_keys(self._whole(), self._reading)
        return self

    def check_timestamps(self, timestamp_type: TimestampType, now: int, before_max_ms: int, after_max_ms: int) -> Self:
        """Check that a topic accepts all timestamps from a producer; return this set.

        Args:
            timestamp_type: The timestamp type of the topic.
            now: The present time, milliseconds since the epoch.
            before_max_ms: How long before `now` a timestamp may be.
            after_max_ms: How long after `now` a timestamp may be.

        Raises:
            RecordValidationError: A timestamp is outside this range (CreateTime), or a batch claims LogAppendTime.
        """
        limits = {"now": now, "before_max_ms": before_max_ms, "after_max_ms": after_max_ms}
        check_timestamps(self._whole(), self._reading, timestamp_type, **limits)
        return self

    def with_timestamps(self, timestamp_type: TimestampType, timestamp: int) -> "ByteBufferMessageSet":
        """Copy the set with another timestamp type and (largest) timestamp; nothing is decompressed.

        With LogAppendTime it is the timestamp of every record. With CreateTime the records of a batch or wrapper keep
        theirs.

        Raises:
            UnsupportedForMessageFormatError: Format 0 has no timestamps.
            CorruptRecordError: A checksum is wrong.
        """
        return self._like(with_timestamps(self._whole(), timestamp_type, timestamp))

    def with_offsets(self, first_offset: int, *, partition_leader_epoch: int | None = None) -> "ByteBufferMessageSet":
        """Copy the set with the offsets first_offset, first_offset + 1, ...

        Only headers change, except for wrappers whose inner offsets do not fit, and v2 batches with gaps: these are
        rebuilt and compressed again. A batch without records keeps the length of its range.

        Args:
            first_offset: The offset of the first record.
            partition_leader_epoch: The new leader epoch of the v2 batches; None keeps the old ones.

        Raises:
            CorruptRecordError: An entry is shorter than its header, or the checksum of one to be rebuilt is wrong.
            InvalidRecordError: A codec is unknown, or the content of an entry to be rebuilt does not follow the format.
            ValueError: The last offset would exceed 2**63 - 1.
        """
        return self._like(
            with_offsets(self._whole(), self._reading, first_offset, partition_leader_epoch=partition_leader_epoch)
        )

    @property
    def buffer(self) -> memoryview:
        """The bytes, read-only and not copied."""
        # A separate view, which the caller may release.
        return self._buffer.toreadonly()

    def __repr__(self) -> str:
        return f"<ByteBufferMessageSet of {self.size_in_bytes} bytes>"


def batches_of_records(
    records: Iterable[Record],
    settings: BatchSettings | None = None,
    *,
    max_size: int = DEFAULT_BATCH_BYTES,
    default_timestamp: int = -1,
) -> Iterator[ByteBufferMessageSet]:
    """Write records to sets of one batch each (v0/v1: a wrapper, or messages) of at most `max_size` bytes.

    As in a producer, the compression ratio is estimated from the batches before, and a batch that becomes too large is
    split. A record larger than `max_size` gets a batch of its own.

    Args:
        records: The records.
        settings: The settings of the first batch; offsets and sequences of the others continue from it.
        max_size: The largest size of a batch in bytes.
        default_timestamp: The timestamp, ms, of records without one.

    Raises:
        ValueError: Kafka does not accept the settings or a record.
        TypeError: An item of `records` is not a `Record`.
    """
    builder, max_size = RecordsBuilder(settings), whole("max_size", max_size, 1, INT32_MAX, BYTES)
    built = builder.batches_of(records, builder.base_offset, max_size=max_size, default_timestamp=default_timestamp)
    return (ByteBufferMessageSet(batch.data) for batch in built)


def _rising(offsets: Iterable[int], base_offset: int) -> tuple[int, Iterator[int]]:
    """Return the first offset, and an iterator over all of them."""
    if base_offset != 0:
        raise ValueError("base_offset and offsets exclude each other: the base offset is the first of the offsets")
    assigned = iter(offsets)
    first = list(islice(assigned, 1))
    return first[0] if first else 0, chain(first, assigned)


def _append_at(builder: RecordsBuilder, records: Iterable[Record], offsets: Iterator[int]) -> None:
    for record in records:
        instance("a record", record, Record)
        try:
            offset = next(offsets)
        except StopIteration:
            raise ValueError(f"more records than offsets: only {builder.records_count} offsets are given") from None
        offset = whole("an offset", offset, 0, INT64_MAX)
        builder.append(record.value, record.key, record.headers, record.timestamp, offset=offset)


def memory_of(columns: RecordColumns) -> int:
    """Return the size in bytes of the arrays and of the decompressed records."""
    arrays = 8 * columns.offset.nbytes + columns.batch.nbytes
    if not columns.batches["compression_type"].any():
        return arrays
    # Others of the same buffer follow: the last record ends with its headers.
    return arrays + int(columns.headers_start[-1] + columns.headers_length[-1] - columns.key_start[0])
