"""A run of log entries, whatever holds it: `MessageSet`; and the one in memory: `ByteBufferMessageSet`.

A message set is iterable and never its own iterator, so that any number of walks may be under way at once.
Kafka: `Records` and `MemoryRecords` (before 0.11 `MessageSet` and `ByteBufferMessageSet`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import BYTES, EPOCH_MS, INT32_MAX, INT64_MAX, flag, instance, member, whole
from kafkalog._speedups.checksum import first_invalid
from kafkalog._speedups.framing import scan_headers
from kafkalog._speedups.record import Record
from kafkalog.attributes import CompressionType, TimestampType
from kafkalog.record import decompress
from kafkalog.record.batch_validity import ensure_valid, wrong_checksum
from kafkalog.record.decoding import Entries, Reading, pieces, read_columns
from kafkalog.record.framing import EndOfData, Stop
from kafkalog.record.ordered_map import ordered_map
from kafkalog.record.record_batch import RecordBatch, batches_of
from kafkalog.record.record_columns import RecordColumns

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from kafkalog.record.records_builder import BatchSettings, RecordsBuilder
    from kafkalog.record.write_to import Target

# Entries are handed on in runs of about so many bytes and at most so many rows.
RUN_BYTES = 1 << 20
RUN_ROWS = 8192
# With threads, runs are longer where nothing is compressed: handing one over costs as much as decoding some batches.
THREAD_RUN_BYTES = 4 * RUN_BYTES
# What a thread decodes of a run ahead of the reader: more than most runs take, for one may stand for a gigabyte.
MOST_WAITING_BYTES = 32 << 20
# Where the first run is but one entry, the next has at most so many times its bytes, and so on.
RUN_GROWTH = 8
INT8_MIN, INT8_MAX = -128, 127
# What a producer's batch may have, unless told otherwise (batch.size).
DEFAULT_BATCH_BYTES = 16 * 1024


class MessageSet(ABC):
    """Log entries one after the other: `RecordBatch`es of `Record`s.

    Reading gives everything before damage and then raises `CorruptRecordError` (framing, checksum) or
    `InvalidRecordError` (content). A torn or zeroed tail is no damage: reading ends there, and `end_of_data` tells.
    """

    # Less in a set that begins where somebody seeks: who seeks may want no more than a record.
    _first_run_bytes = THREAD_RUN_BYTES

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @abstractmethod
    def _scan(self, start: int, *, rows: int, span: int, max_size: int = -1) -> tuple[NDArray[np.void], Stop]:
        """The entries from position `start` on: at most `rows`, until `span` bytes are covered (-1: no limit).

        A size field greater than `max_size` (-1: none is) is damage.
        """

    @abstractmethod
    def _view(self, position: int, length: int) -> memoryview:
        """The bytes [position, position + length), which a scan has found to be there."""

    @property
    @abstractmethod
    def _start(self) -> int:
        """The position of the first entry."""

    @property
    @abstractmethod
    def size_in_bytes(self) -> int:
        """Bytes, a torn or zeroed tail included."""

    def __iter__(self) -> Iterator[Record]:
        """The records in order, control records left out as for a consumer; batches are checked against their CRC."""
        return chain.from_iterable(chain.from_iterable(each.record_lists() for each in self.columns()))

    def batches(self) -> Iterator[RecordBatch]:
        """The entries in order; nothing is decompressed, no CRC computed."""
        return chain.from_iterable(batches_of(self._entries(run), self._reading) for run in self._runs())

    def headers(self) -> NDArray[np.void]:
        """One row (`HEADER_DTYPE`) an entry, from the headers alone. CorruptRecordError: damage in the framing."""
        rows, stop = self._scan(self._start, rows=-1, span=-1)
        self._check_end(stop)
        return rows

    def header_runs(self) -> Iterator[NDArray[np.void]]:
        """The rows of `headers()` piece by piece, in bounded memory.

        CorruptRecordError: damage, after the rows before it.
        """
        return self._runs()

    def columns(self, *, threads: int = 1, check_crcs: bool = True) -> Iterator[RecordColumns]:
        """The records as arrays, some thousand at a time, in order; control records left out.

        threads: so many threads decode at once, a few pieces ahead of the reader. check_crcs: False saves about a
        fifth of the time on uncompressed data and hands out what a damaged batch decodes to. ValueError: threads < 1.
        """
        threads = whole("threads", threads, 1, INT32_MAX)
        decode = partial(self._decoded, self._reading_as(check_crcs))
        if threads == 1:
            return chain.from_iterable(map(decode, self._runs()))
        return ordered_map(decode, self._units(), threads, _memory_of, MOST_WAITING_BYTES)

    def _reading_as(self, check_crcs: bool) -> Reading:
        reading = self._reading
        return (
            reading if flag("check_crcs", check_crcs) == reading.check_crcs else replace(reading, check_crcs=check_crcs)
        )

    def _decoded(self, reading: Reading, rows: NDArray[np.void]) -> Iterator[RecordColumns]:
        return chain.from_iterable(read_columns(self._entries(piece), reading) for piece in pieces(rows))

    def ensure_valid(self) -> None:
        """Check the format and the CRC of every entry; nothing is decompressed.

        CorruptRecordError: the first that is not valid, or damage in the framing.
        """
        for run in self._runs():
            ensure_valid(*self._entries(run), path=self._reading.path)

    def sound_runs(self) -> Iterator[Entries]:
        """The entries, run after run, as far as the checksums hold; nothing is decompressed.

        As recovery sees them: the magic is not looked at, the checksum does not cover it. CorruptRecordError: the first
        whose checksum does not hold, or damage in the framing, after the entries before it.
        """
        for entries in self._loaded_runs():
            run = entries.rows
            bad, computed = first_invalid(entries.view, run, entries.position)
            if bad:
                yield entries._replace(rows=run[:bad])
            if bad < len(run):
                raise wrong_checksum(run[bad], computed).at(self._reading.path)

    @property
    def end_of_data(self) -> EndOfData:
        """Where the whole entries end, and how: END, TORN or ZEROED. CorruptRecordError: in damage."""
        *_, stop = self._stops()
        return stop.end(self._reading.path)

    @property
    def valid_bytes(self) -> int:
        """Bytes of whole entries, from the start. CorruptRecordError: damage in the framing."""
        return self.end_of_data.position - self._start

    def has_matching_magic(self, magic: int) -> bool:
        """Whether every entry is of format `magic` (also where there is none)."""
        magic = whole("magic", magic, INT8_MIN, INT8_MAX)
        return all(bool((run["magic"] == magic).all()) for run in self._runs())

    def to_magic(self, magic: int, *, lossy: bool = True, start_offset: int | None = None) -> "ByteBufferMessageSet":
        """The records in format `magic`, in memory, with the offsets they have; entries that have it stay as they are.

        Downward as Kafka converted for old consumers: control batches, headers and producer data fall away
        (lossy=False: UnsupportedForMessageFormatError), and so do records before `start_offset` where nothing is
        compressed. Upward, messages that are not compressed become v2 batches of about a megabyte at most.

        UnsupportedCompressionError: zstd exists only in format 2. ValueError: no such format.
        """
        from kafkalog.record.format_conversion import to_magic

        return self._like(to_magic(self._loaded_runs(), self._reading, magic, lossy=lossy, start_offset=start_offset))

    def write_to(self, file: "Target", position: int = 0, size: int | None = None) -> int:
        """Write `size` bytes from `position` on (None: all of them) to a binary file or a socket. Returns how many.

        position counts from this set's start. Fewer than asked for are written where this set ends before, or `file`
        does not wait and takes no more. ValueError: position or size negative, or position after the end. OSError:
        as `file` raises it. TypeError: neither a file nor a socket.
        """
        from kafkalog.record.write_to import by_python, write_all

        position, size = self._range(position, size, "size")
        return write_all(by_python(self._view, file), self._start + position, size)

    def _range(self, position: int, length: int | None, name: str) -> tuple[int, int]:
        """A place in this set, and how many of the bytes there are meant (None: all).

        ValueError: the place is outside, or `length`, which the caller knows as `name`, negative.
        """
        end = self.size_in_bytes
        position = whole("position", position, 0, end, BYTES)
        left = end - position
        return position, left if length is None else min(left, whole(name, length, 0, INT64_MAX, BYTES))

    def _stops(self) -> Iterator[Stop]:
        start, more = self._start, True
        while more:
            _, stop = self._scan(start, rows=RUN_ROWS, span=-1)
            start, more = stop.position, stop.more
            yield stop

    def _runs(
        self, start: int | None = None, *, max_size: int = -1, span: int = RUN_BYTES
    ) -> Iterator[NDArray[np.void]]:
        """Rows of the header table, run after run.

        CorruptRecordError: the framing is damaged, after the rows before it.
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
        """CorruptRecordError: the walk did not end where this set of messages may end."""
        stop.end(self._reading.path)

    def _loaded_runs(self) -> Iterator[Entries]:
        """As `_runs`, with the bytes of all entries."""
        return map(self._entries, self._runs())

    def _entries(self, run: NDArray[np.void]) -> Entries:
        start = int(run["position"][0])
        end = int(run["position"][-1]) + int(run["size_in_bytes"][-1])
        return Entries(run, self._view(start, end - start), start)

    def _like(self, buffer: "ReadableBuffer") -> "ByteBufferMessageSet":
        return ByteBufferMessageSet(buffer, decompression_limit=self._reading.decompression_limit)

    def _units(self) -> Iterator[NDArray[np.void]]:
        """What one thread does at a time: enough to be worth the handing over, not more than memory should hold."""
        for run in self._runs(span=THREAD_RUN_BYTES):
            if run["compression_type"].any():
                yield from pieces(run)
            else:
                yield run


class ByteBufferMessageSet(MessageSet):
    """A message set in memory, over any buffer of bytes, which is not copied.

    As Kafka's reader of memory: a magic other than 0, 1, 2 is damage at once; bytes that are too few for the next
    entry are the end. `decompression_limit`: bytes that one batch may decompress to.
    """

    def __init__(self, buffer: "ReadableBuffer", *, decompression_limit: int = decompress.DEFAULT_LIMIT) -> None:
        limit = whole("decompression_limit", decompression_limit, 0, INT64_MAX, BYTES)
        super().__init__(Reading(decompression_limit=limit))
        self._buffer = memoryview(buffer).cast("B").toreadonly()

    @property
    def _start(self) -> int:
        return 0

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the buffer, a torn or zeroed tail included."""
        return self._buffer.nbytes

    def _scan(self, start: int, *, rows: int, span: int, max_size: int = -1) -> tuple[NDArray[np.void], Stop]:
        found, *stop = scan_headers(self._buffer, 0, start, rows, strict_magic=True, max_size=max_size, span=span)
        return found, Stop(*stop)

    def _view(self, position: int, length: int) -> memoryview:
        return self._buffer[position : position + length]

    def _whole(self) -> Entries:
        """All entries, without a torn tail."""
        rows, stop = self._scan(0, rows=-1, span=-1)
        self._check_end(stop)
        return Entries(rows, self._buffer[: stop.position], 0)

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        compression_type: CompressionType = CompressionType.NONE,
        compression_level: int | None = None,
        magic: int = 2,
        base_offset: int = 0,
        offsets: Iterable[int] | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        timestamp: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        partition_leader_epoch: int = -1,
    ) -> "ByteBufferMessageSet":
        """The records as one v2 batch, as v0/v1 messages, or compressed in one v0/v1 message; none: an empty set.

        base_offset: the first record's; the others count on. offsets: what assigns them instead, one a record, rising;
        base_offset is then the first, and what is left over is of no use. timestamp: ms; the append time of
        LogAppendTime; with CreateTime the batch's or wrapper's timestamp in place of the largest of its records, and of
        no use to messages without either. A record's own offset is not looked at. Format 0 has no timestamps.

        ValueError: settings or records that Kafka refuses. TypeError: not records.
        """
        from kafkalog.record.records_builder import BatchSettings, RecordsBuilder

        timestamp_type = member("timestamp_type", timestamp_type, TimestampType)
        if timestamp is not None:
            timestamp = whole("timestamp", timestamp, -1, INT64_MAX, EPOCH_MS)
        log_append = timestamp_type is TimestampType.LOG_APPEND_TIME
        assigned = None
        if offsets is not None:
            base_offset, assigned = _rising(offsets, base_offset)
        settings = BatchSettings(
            magic=magic,
            compression_type=compression_type,
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
        """This set, every entry and every message inside a wrapper being of format `magic`.

        InvalidRecordError: an entry is not. RecordValidationError: messages inside are not.
        """
        from kafkalog.record.record_checks import check_magic

        check_magic(self._whole(), self._reading, magic)
        return self

    def check_keys(self) -> Self:
        """This set, every record having a key, as a compacted topic wants it. RecordValidationError: some have none."""
        from kafkalog.record.record_checks import check_keys

        check_keys(self._whole(), self._reading)
        return self

    def check_timestamps(self, timestamp_type: TimestampType, now: int, before_max_ms: int, after_max_ms: int) -> Self:
        """This set, its timestamps being what a topic of `timestamp_type` takes from a producer at `now`, all in ms.

        RecordValidationError: a timestamp more than before_max_ms before now or after_max_ms after it (CreateTime), or
        a batch that claims LogAppendTime.
        """
        from kafkalog.record.record_checks import check_timestamps

        limits = {"now": now, "before_max_ms": before_max_ms, "after_max_ms": after_max_ms}
        check_timestamps(self._whole(), self._reading, timestamp_type, **limits)
        return self

    def with_timestamps(self, timestamp_type: TimestampType, timestamp: int) -> "ByteBufferMessageSet":
        """A copy whose entries have this timestamp type and (largest) timestamp; nothing is decompressed.

        With LogAppendTime that is every record's timestamp; with CreateTime the records of a batch or wrapper keep
        their own. UnsupportedForMessageFormatError: format 0 has none. CorruptRecordError: a checksum does not hold.
        """
        from kafkalog.record.format_conversion import with_timestamps

        return self._like(with_timestamps(self._whole(), timestamp_type, timestamp))

    def with_offsets(self, first_offset: int, *, partition_leader_epoch: int | None = None) -> "ByteBufferMessageSet":
        """A copy whose records have the offsets first_offset, first_offset + 1, ...

        Entries get them by their headers. Rebuilt, and compressed again, are wrappers whose inner offsets do not fit,
        and v2 batches with gaps; a batch without records keeps the length of its range. partition_leader_epoch: for
        the v2 batches, if not None.
        """
        from kafkalog.record.format_conversion import with_offsets

        return self._like(
            with_offsets(self._whole(), self._reading, first_offset, partition_leader_epoch=partition_leader_epoch)
        )

    @property
    def buffer(self) -> memoryview:
        """The bytes, read-only. They are those that the set was made of: who changes those changes the set."""
        # A view of the caller's own, who may release it.
        return self._buffer.toreadonly()

    def __repr__(self) -> str:
        return f"<ByteBufferMessageSet of {self.size_in_bytes} bytes>"


def batches_of_records(
    records: Iterable[Record],
    settings: "BatchSettings | None" = None,
    *,
    max_size: int = DEFAULT_BATCH_BYTES,
    default_timestamp: int = -1,
) -> Iterator[ByteBufferMessageSet]:
    """The records in as many sets as it takes for none to exceed `max_size` bytes, each one batch (v0/v1: a wrapper, or
    messages); a record too large for that gets a batch of its own.

    As a producer does: how well the records compress is guessed from the batches before; one that turns out too large
    is split. Offsets and sequences run on from those of `settings`. default_timestamp: ms, for records that have none.
    ValueError, TypeError: as `from_records`.
    """
    from kafkalog.record.records_builder import built_batches

    built = built_batches(records, settings, max_size=max_size, default_timestamp=default_timestamp)
    return (ByteBufferMessageSet(batch.data) for batch in built)


def _rising(offsets: Iterable[int], base_offset: int) -> tuple[int, Iterator[int]]:
    """The first offset that is assigned, and all of them."""
    if base_offset != 0:
        raise ValueError("base_offset and offsets exclude each other: the base offset is the first one assigned")
    assigned = iter(offsets)
    first = list(islice(assigned, 1))
    return first[0] if first else 0, chain(first, assigned)


def _append_at(builder: "RecordsBuilder", records: Iterable[Record], offsets: Iterator[int]) -> None:
    for record in records:
        instance("a record", record, Record)
        try:
            offset = next(offsets)
        except StopIteration:
            raise ValueError(f"{builder.records_count} offsets are assigned, and there are more records") from None
        offset = whole("an offset", offset, 0, INT64_MAX)
        builder.append(record.value, record.key, record.headers, record.timestamp, offset=offset)


def _memory_of(columns: RecordColumns) -> int:
    """Bytes that a piece holds: its arrays, and what was decompressed for it."""
    is_compressed = bool(columns.batches["compression_type"].any())
    return 8 * columns.offset.nbytes + columns.batch.nbytes + is_compressed * columns.buffer.nbytes
