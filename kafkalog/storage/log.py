"""`Log`: the log in a partition directory, whose segments form one range of offsets.

    log start offset          segment | segment | active segment          log end offset
    (records before it are deleted, though perhaps still in the file)    (the offset of the next record)

    Log            the abstract base: all reading, over the segments and watermarks that a subclass provides
    ReadOnlyLog    reads, while another process may write (read_only_log.py)
    WritableLog    reads and appends (unified_log.py)

Source: `UnifiedLog` in storage/.../internals/log/UnifiedLog.java.
"""

import operator
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime
from io import UnsupportedOperation
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, TypeAlias, TypeVar, get_args, overload

from kafkalog._speedups.arguments import BYTES, EPOCH_MS, INT32_MAX, flag, member, whole
from kafkalog._speedups.record import Record
from kafkalog.errors import LogStateError, OffsetOutOfRangeError
from kafkalog.record.record_batch import RecordBatch
from kafkalog.record.record_columns import RecordColumns
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.fetch_data_info import FetchDataInfo, IsolationLevel, IsolationName
from kafkalog.storage.file_names import (
    TopicPartition,
    parse_partition_dir,
    real_path,
)
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.read import fetch, follow, list_offsets
from kafkalog.storage.read.aborted_transactions import AbortedBatches
from kafkalog.storage.read.consumer import Consumer
from kafkalog.storage.read.count_records import count_in_segments
from kafkalog.storage.read.fetch import Fetch
from kafkalog.storage.read.follow import Poll
from kafkalog.storage.read.log_scan import NO_END, Walk
from kafkalog.storage.read.retry import retry
from kafkalog.storage.segment.file_message_set import TimestampAndOffset
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.record.serialization import DecodedRecord, Deserializer, Key, Value

# What to do if the first offset wanted is before the log start or after the log end.
OnOutOfRange: TypeAlias = Literal["raise", "earliest", "latest"]
_CHOICES = get_args(OnOutOfRange)
# The first record of each part is built alone: after a seek, callers often want no more.
_lists_of = methodcaller("record_lists", first=1)
_Part = TypeVar("_Part", RecordColumns, RecordBatch)


class Log(ABC):
    """The log of one partition. Iterating over it gives the records from the log start offset on.

    The log may change while an iterator (`records`, `columns`, `batches`) reads it. Its offsets rise, and each batch is
    as it was at one moment. It ends before `end`, or at the log end; not before the end that the log had when reading
    began, or, if it began within a segment, when the second batch was requested. If the log is truncated so that it
    ends earlier, or that a batch which was read is cut off, it raises LogTruncatedError, even if the log has been
    appended to again. This is noticed by the header of the last batch that was read, which includes the checksum. It
    is not noticed if an equal batch has the same offsets again; nor if the log was deleted and begun anew (as by
    `truncate_fully_and_start_at`) after the last offset read, which looks like retention.

    Attributes:
        directory: The absolute path of the partition.
        topic_partition: Topic and number; None if the directory does not have the name of a partition.
        config: The settings of the topic.

    Raises:
        LogStateError: From all methods and iterators, after the log has been closed.
    """

    directory: Path
    topic_partition: TopicPartition | None
    config: LogConfig

    def _attach(self, directory: Path, config: LogConfig) -> None:
        """Set the directory and the config."""
        # Absolute: the process may change its working directory.
        self.directory = directory.absolute()
        self.topic_partition = parse_partition_dir(real_path(directory).name)
        self.config = config

    # --- provided by subclasses

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the log has been closed."""

    @property
    @abstractmethod
    def log_start_offset(self) -> int:
        """The first offset that consumers get."""

    @property
    @abstractmethod
    def high_watermark(self) -> int:
        """The offset up to which all replicas have the log."""

    @property
    @abstractmethod
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is completed; at most the high watermark.

        A log that is only read has the high watermark of the data directory's checkpoint, which a broker writes every
        few seconds: the offset may be less than the broker's. Without a checkpoint it is the log end.
        """

    @property
    @abstractmethod
    def recovery_point(self) -> int:
        """The offset up to which all records are flushed to disk."""

    @property
    @abstractmethod
    def leader_epochs(self) -> LeaderEpochCache:
        """The start offset of each leader epoch."""

    @property
    @abstractmethod
    def producer_state(self) -> ProducerStateManager:
        """The state of the idempotent producers at the log end."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""

    @abstractmethod
    def _segments_now(self) -> LogSegments:
        """Return the current segments."""

    @abstractmethod
    def _log_end(self) -> LogOffsetMetadata:
        """Return the log end offset and its place."""

    def _end_to_reach(self) -> LogOffsetMetadata | None:
        """Return the log end and its place as quickly as possible.

        None if a reader is not to reach it: in a store, where it costs requests, and after a failed change.
        """
        return self._log_end()

    def _ensure_durable(self, offset: int) -> None:  # noqa: B027 # nothing to do for a log that is only read
        """Sync the records before an offset to disk, if this object has written them."""

    @abstractmethod
    def _high_watermark(self) -> LogOffsetMetadata:
        """Return the high watermark and the place of its batch."""

    @abstractmethod
    def _last_stable(self) -> LogOffsetMetadata:
        """Return the last stable offset and the place of its batch."""

    # --- offsets and size

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments, by base offset; the last one is the active segment."""
        return self._segments_now().values

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment; the log start offset if there is no segment."""
        bases = self._segments_now().base_offsets
        return bases[0] if bases else self.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record.

        It follows the last complete batch of the active segment, or the last batch before damage.
        """
        return retry(self._log_end).message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark and the place of its batch."""
        found = retry(self._high_watermark)
        return found._replace(message_offset=max(found.message_offset, self.log_start_offset))

    @property
    def size_in_bytes(self) -> int:
        """The bytes of all segments."""
        return retry(lambda: sum(segment.size for segment in self.segments))

    # --- reading

    def read(
        self,
        start_offset: int,
        max_length: int,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        min_one_message: bool = False,
    ) -> FetchDataInfo:
        """Return stored batches of one segment, from the batch that contains `start_offset` on.

        The first batch may contain records before `start_offset`. The last one may be cut off.

        Args:
            start_offset: The first offset wanted.
            max_length: The most bytes to return.
            isolation: The end of the read.
            min_one_message: Return the first batch completely, even if it is larger than `max_length`.

        Raises:
            OffsetOutOfRangeError: `start_offset` is before the log start or after the log end.
            ValueError: `max_length` is negative.
            TypeError, ValueError: `isolation` is not an `IsolationLevel`, or the name of one.
            CorruptRecordError: The log is damaged on the way to the batch.
        """
        at = whole("start_offset", start_offset, -NO_END - 1, NO_END)
        isolation = member("isolation", isolation, IsolationLevel)
        max_length = whole("max_length", max_length, 0, NO_END, BYTES)
        return retry(lambda: self._fetched(at, max_length, isolation, min_one_message))

    def _fetched(self, at: int, max_length: int, isolation: IsolationLevel, min_one_message: bool) -> FetchDataInfo:
        if at < self.log_start_offset:
            expected = f"{self.log_start_offset}..{self.log_end_offset}"
            raise OffsetOutOfRangeError(
                "the offset is before the log start offset", str(self.directory), None, expected, at
            )
        committed = isolation is IsolationLevel.TXN_COMMITTED
        asked = Fetch(at, max_length, min_one_message, self._bound(isolation), committed)
        try:
            return fetch.fetch(self._segments_now(), self._log_end(), asked)
        except OffsetOutOfRangeError as error:
            error.at(str(self.directory))
            raise

    def _bound(self, isolation: IsolationLevel) -> LogOffsetMetadata:
        """Return the end of what an isolation level may read."""
        if isolation is IsolationLevel.LOG_END:
            return self._log_end()
        return self._high_watermark() if isolation is IsolationLevel.HIGH_WATERMARK else self._last_stable()

    def offset_for_timestamp(self, timestamp: int | datetime) -> TimestampAndOffset | None:
        """Return the first record whose timestamp is `timestamp` or later; None if there is none.

        A broker finds none if the first segment with such a timestamp has them all before the log start offset; here
        later segments are searched then. A broker also answers only up to the high watermark, or for readers of
        committed records the last stable offset; here all up to the log end is searched.

        Args:
            timestamp: Milliseconds, a datetime with a time zone, or one of Kafka's special values: -2 and -4 give the
                log start offset, -1 the log end offset (both with timestamp -1), -3 the first record with the largest
                timestamp. -5 and -6 ask for remote storage, which is not supported: they give offset -1.

        Raises:
            ValueError: Another negative value.
        """
        wanted = whole("timestamp", timestamp, -NO_END - 1, NO_END, EPOCH_MS)
        if wanted < 0 and isinstance(timestamp, datetime):
            raise ValueError(f"timestamp is {timestamp}, before 1970")
        return retry(lambda: self._found_by_time(wanted))

    def _found_by_time(self, timestamp: int) -> TimestampAndOffset | None:
        """Return the result of `offset_for_timestamp`, without retries."""
        if timestamp >= 0:
            return list_offsets.offset_for_timestamp(self._segments_now(), self.log_start_offset, timestamp)
        start, end = self.log_start_offset, self.log_end_offset
        return list_offsets.special_offset(self._segments_now(), start, end, self.leader_epochs, timestamp)

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    @overload
    def __getitem__(self, index: SupportsIndex) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Iterator[Record]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Record | Iterator[Record]:
        """Return the record with an offset; for `log[start:end]` what `records(start, end)` does.

        Raises:
            IndexError: No record has the offset: it was removed by compaction, is that of a control record, or is the
                log end offset.
            ValueError: A slice has a step.
            OffsetOutOfRangeError, CorruptRecordError, InvalidRecordError: As `records`.
        """
        if isinstance(index, slice):
            if index.step is not None:
                raise ValueError(f"a slice of a log has no step, not {index.step!r}")
            return self.records(index.start, index.stop)
        offset = operator.index(index)
        record = next(self.records(offset, offset + 1), None)
        if record is None:
            raise IndexError(f"{self.directory}: no record has offset {offset}")
        return record

    @overload
    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
    ) -> Iterator[Record]: ...
    @overload
    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
        key_deserializer: "Deserializer[Key]",
        value_deserializer: "Deserializer[Value]",
    ) -> "Iterator[DecodedRecord[Key, Value]]": ...
    @overload
    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
        key_deserializer: "Deserializer[Key]",
        value_deserializer: None = None,
    ) -> "Iterator[DecodedRecord[Key, bytes | None]]": ...
    @overload
    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
        key_deserializer: None = None,
        value_deserializer: "Deserializer[Value]",
    ) -> "Iterator[DecodedRecord[bytes | None, Value]]": ...
    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
        key_deserializer: "Deserializer[Any] | None" = None,
        value_deserializer: "Deserializer[Any] | None" = None,
    ) -> "Iterator[Record] | Iterator[DecodedRecord[Any, Any]]":
        """Yield the records with start <= offset < end, without control records.

        Args:
            start: The first offset; None: the log start offset.
            end: The offset after the last; None: the log end offset.
            isolation: The end of the read. TXN_COMMITTED also leaves out the records of aborted transactions.
            on_out_of_range: What to do if `start` is before the log start offset or after the log end offset: "raise"
                an error, or read from the "earliest" offset, or from the "latest" one, where nothing is yet.
            key_deserializer: With either deserializer, the iterator gives `DecodedRecord`s.
            value_deserializer: The default, if only the other one is given, keeps bytes.

        Raises:
            TypeError, ValueError: `isolation` is not an `IsolationLevel`, or the name of one.
            CorruptRecordError, InvalidRecordError: The log is damaged (see `MessageSet`), a sealed segment ends within
                a batch, or a segment contains an offset outside its range.
            OffsetOutOfRangeError: `start` is before the log start offset or after the log end offset, or `end` is
                negative.
            ValueError: `on_out_of_range` is something else.
            FileNotFoundError, OffsetOutOfRangeError: Retention deleted a segment before it was read.
            LogTruncatedError: The log was truncated while it was read (see `Log`).
            SerializationError: A deserializer failed.
        """
        columns = self.columns(start, end, isolation=isolation, on_out_of_range=on_out_of_range)
        found = chain.from_iterable(chain.from_iterable(map(_lists_of, columns)))
        if key_deserializer is None and value_deserializer is None:
            return found
        # Late, because it imports msgspec, which takes 20 ms.
        from kafkalog.record.serialization import decode, deserialize_bytes

        return decode(found, key_deserializer or deserialize_bytes, value_deserializer or deserialize_bytes)

    def columns(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
        threads: int = 1,
        check_crcs: bool = True,
    ) -> Iterator[RecordColumns]:
        """Yield the records as arrays, some thousand at a time. Raise errors as `records`.

        Args:
            start: As `records`.
            end: As `records`.
            isolation: As `records`.
            on_out_of_range: As `records`.
            threads: The number of threads that decode, as for `MessageSet.columns`.
            check_crcs: Whether checksums are checked.

        Raises:
            ValueError: `threads` is less than 1.
        """
        level, threads = member("isolation", isolation, IsolationLevel), whole("threads", threads, 1, INT32_MAX)
        check_crcs = flag("check_crcs", check_crcs)

        def read(first: int) -> Iterator[RecordColumns]:
            stop = self._stop(end, level)
            aborted = self._aborted(first, stop, level)
            return self._walk(first, stop).columns(aborted, threads=threads, check_crcs=check_crcs)

        return self._from(start, read, on_out_of_range)

    def batches(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
    ) -> Iterator[RecordBatch]:
        """Yield the batches whose offset range overlaps [start, end), control batches too. Decompresses nothing.

        Args and errors as `records`.
        """
        level = member("isolation", isolation, IsolationLevel)
        return self._from(start, lambda first: self._walk(first, self._stop(end, level)).batches(), on_out_of_range)

    def follow(
        self,
        start: int | None = None,
        *,
        timeout: float | None = None,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
    ) -> Iterator[Record]:
        """Yield the records from an offset on, and then each new one, whoever appends it.

        New records are noticed within 0.1 s. The iterator goes through new segments, as `records` does.

        Args:
            start: The first offset, or the log end offset; None: the log start offset.
            timeout: The iterator ends when no record came for this many seconds; None: never.
            isolation: As `records`.
            on_out_of_range: As `records`.

        Raises:
            LogTruncatedError: A record that was read has been cut off, or the log ends before `start` now.
            OffsetOutOfRangeError: `start` is out of range; or retention deleted records before they were read.
            KafkaLogError, OSError: As `records`.
        """
        return follow.follow(self._poll(start, isolation, on_out_of_range), timeout)

    def afollow(
        self,
        start: int | None = None,
        *,
        timeout: float | None = None,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
    ) -> AsyncIterator[Record]:
        """Do as `follow`, for `async for`. The log is read in another thread."""
        return follow.afollow(self._poll(start, isolation, on_out_of_range), timeout)

    def _poll(
        self, start: int | None, isolation: IsolationLevel | IsolationName, on_out_of_range: OnOutOfRange
    ) -> Poll:
        _check_choice(on_out_of_range)
        level = member("isolation", isolation, IsolationLevel)
        first = log_start = self.log_start_offset
        if start is not None and not log_start <= (first := operator.index(start)) <= self.log_end_offset:
            first = self._instead_of(first, on_out_of_range)
        walk = self._walk(first, first)

        def poll() -> Iterator[RecordColumns]:
            end = self._end_now(level)
            if walk.goes_on_to(end):
                yield from walk.columns(self._aborted(walk.next_offset, end, level), threads=1, check_crcs=True)

        return poll

    def _end_now(self, isolation: IsolationLevel) -> int:
        if self.closed:
            raise LogStateError("the log has been closed", str(self.directory))
        return retry(lambda: self._bound(isolation)).message_offset

    def consumer(
        self,
        name: str | None = None,
        *,
        path: "str | os.PathLike[str] | None" = None,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
    ) -> Consumer:
        """Return a consumer, which reads on from the position that it has committed last, also after a crash.

        Args:
            name: The position is in the file `<name>.position` of the partition directory, which brokers ignore. This
                needs a log opened with mode "a".
            path: Another file for the position.
            isolation: As `records`.
            on_out_of_range: As `records`, if retention has deleted the records at the position. If a truncation has cut
                off those before it, all but "raise" continue where the log was cut.

        Raises:
            ValueError: Neither or both of `name` and `path` are given, or `name` is not a file name.
            io.UnsupportedOperation: `name` is given for a log that is only read.
            LogTruncatedError: The log was truncated below the position, by its leader epochs.
            CorruptCheckpointError: The file does not follow its format.
            OSError: The file cannot be read, or its directory does not exist.
        """
        _check_choice(on_out_of_range)
        if (name is None) == (path is None):
            raise ValueError("a consumer has either a name or a path for its position")
        level = member("isolation", isolation, IsolationLevel)
        file = self._position_file(name) if name is not None else Path(os.fspath(path or "")).absolute()
        return Consumer(self, file, level, on_out_of_range)

    def _position_file(self, name: str) -> Path:
        """Return the file of the position of a consumer in the partition directory."""
        del name
        raise UnsupportedOperation(f"{self.directory}: a log that is only read keeps no position: give consumer a path")

    def to_arrow_reader(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        on_out_of_range: OnOutOfRange = "raise",
        threads: int = 1,
    ) -> "pa.RecordBatchReader":
        """Return a reader of the records as Arrow batches, for Parquet, DuckDB, Polars or pandas.

        A batch has up to 65,536 records, or about 16 MiB. A batch is read when it is asked for; errors of `records` are
        raised then.

        Args:
            start: As `records`.
            end: As `records`.
            columns: The names of the columns, among those of `kafkalog.arrow.SCHEMA`; None: all of them.
            isolation: As `records`.
            on_out_of_range: As `records`.
            threads: As `columns`.

        Raises:
            ImportError: pyarrow (the extra `arrow`) is not installed.
            ValueError: There is no such column.
        """
        from kafkalog.arrow import reader, schema_of

        parts = self.columns(start, end, isolation=isolation, on_out_of_range=on_out_of_range, threads=threads)
        return reader(parts, schema_of(columns))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all records to a library of Arrow, as `to_arrow_reader()` reads them."""
        return self.to_arrow_reader().__arrow_c_stream__(requested_schema)

    def _from(
        self, start: int | None, read: Callable[[int], Iterator[_Part]], on_out_of_range: OnOutOfRange
    ) -> Iterator[_Part]:
        """Check the arguments, and return what `read` yields from `start`, or from where it is to begin instead."""
        _check_choice(on_out_of_range)
        return self._in_range(None if start is None else operator.index(start), read, on_out_of_range)

    def _in_range(
        self, start: int | None, read: Callable[[int], Iterator[_Part]], on_out_of_range: OnOutOfRange
    ) -> Iterator[_Part]:
        log_start = self.log_start_offset
        first = log_start if start is None else start
        if first >= log_start:
            is_empty = True
            for part in read(first):
                is_empty = False
                yield part
                del part
            # Only now, since the search for the log end takes longer than that for one record.
            if start is None or not is_empty or start <= self.log_end_offset:
                return
        yield from read(self._instead_of(first, on_out_of_range))

    def _instead_of(self, start: int, on_out_of_range: OnOutOfRange) -> int:
        """Return the offset to begin at instead of `start`, which is out of range; or raise OffsetOutOfRangeError."""
        log_start, log_end = self.log_start_offset, self.log_end_offset
        if on_out_of_range == "raise":
            message = f"the offset is {'before the log start' if start < log_start else 'after the log end'} offset"
            raise OffsetOutOfRangeError(message, str(self.directory), None, f"{log_start}..{log_end}", start)
        return log_start if on_out_of_range == "earliest" else log_end

    def count(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
    ) -> int:
        """Return the exact number of records with start <= offset < end, without control records.

        It is exact for compacted and transactional logs, too. Most records are counted from batch headers alone.
        `count(high_watermark, log_end_offset)` is the number of records that are not replicated yet.

        Raises:
            CorruptRecordError, InvalidRecordError: The log is damaged in the range.
        """
        isolation = member("isolation", isolation, IsolationLevel)
        return retry(lambda: self._counted(start, end, isolation))

    def _counted(self, start: int | None, end: int | None, isolation: IsolationLevel) -> int:
        first = log_start = self.log_start_offset
        if start is not None:
            first = max(log_start, operator.index(start))
        stop = min(self._stop(end, isolation), self.log_end_offset)
        aborted = self._aborted(first, stop, isolation)
        left_out = None if aborted is None else aborted.among
        return count_in_segments(self._segments_now(), first, stop, left_out)

    def _stop(self, end: int | None, isolation: IsolationLevel) -> int:
        """Return the offset before which to read, limited by the isolation level."""
        stop = NO_END if end is None else min(operator.index(end), NO_END)
        if stop < 0:
            raise OffsetOutOfRangeError("the end is negative", str(self.directory), None, "0 or more", stop)
        # Up to the log end means its position when the reader arrives there.
        if isolation is IsolationLevel.LOG_END:
            return stop
        return min(stop, retry(lambda: self._bound(isolation)).message_offset)

    def _aborted(self, first: int, stop: int, isolation: IsolationLevel) -> AbortedBatches | None:
        """Return the aborted transactions to leave out; None if `isolation` includes them."""
        if isolation is not IsolationLevel.TXN_COMMITTED:
            return None
        return retry(lambda: AbortedBatches(fetch.aborted_txns(self._segments_now(), first, stop)))

    def _walk(self, first: int, stop: int) -> Walk:
        """Return a reader of the offsets from `first` to before `stop`. It may be iterated over once."""
        return Walk(self._segments_now, self._log_end, self._end_to_reach, self.directory, start=first, stop=stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            what = f"of {len(self.segments)} segments"
        except (LogStateError, OSError):
            what = "that is closed or deleted"
        return f"<{type(self).__name__} {self.directory} {what}>"


def _check_choice(on_out_of_range: OnOutOfRange) -> None:
    if on_out_of_range not in _CHOICES:
        raise ValueError(f"on_out_of_range is {on_out_of_range!r}, not one of {', '.join(_CHOICES)}")
