"""`Log`: a partition directory, all its segments as one run of offsets.

    log start offset          segment | segment | active segment          log end offset
    (records before it have been deleted, their bytes perhaps not yet)    (the offset the next record will get)

    Log            the abstract base: every way to read, over segments and watermarks that a subclass knows
    ReadOnlyLog    reads beside whoever writes the log (read_only_log.py)
    WritableLog    reads and appends (unified_log.py)

Source: `UnifiedLog` in storage/.../internals/log/UnifiedLog.java.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Self, overload

from kafkalog._speedups.arguments import BYTES, member, whole
from kafkalog._speedups.record import Record
from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.record.record_batch import RecordBatch
from kafkalog.record.record_columns import RecordColumns
from kafkalog.record.serialization import DecodedRecord, Deserializer, decode, deserialize_bytes
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.fetch_data_info import FetchDataInfo, IsolationLevel
from kafkalog.storage.file_names import (
    TopicPartition,
    parse_partition_dir,
    real_path,
)
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.read import fetch
from kafkalog.storage.read.aborted_transactions import AbortedBatches
from kafkalog.storage.read.count_records import count_records
from kafkalog.storage.read.fetch import Fetch
from kafkalog.storage.read.log_scan import NO_END, Walk
from kafkalog.storage.read.rereading import steadily
from kafkalog.storage.segment.file_message_set import TimestampAndOffset
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# So many objects are made at first.
FIRST_RECORDS = 8


class Log(ABC):
    """The log of one partition. Iterable: the records from the log start offset on.

    Attributes:
        directory: the absolute path of the partition.
        topic_partition: topic and number; None where the directory's name is not a partition's.
        config: the settings of the topic.

    Raises:
        LogStateError: from every question, and while records are iterated over, once the log has been closed.
    """

    directory: Path
    topic_partition: TopicPartition | None
    config: LogConfig

    def _attach(self, directory: Path, config: LogConfig) -> None:
        # Absolute: the process may change its directory.
        self.directory = directory.absolute()
        self.topic_partition = parse_partition_dir(real_path(directory).name)
        self.config = config

    # --- what a subclass knows

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the log has been closed."""

    @property
    @abstractmethod
    def log_start_offset(self) -> int:
        """The first offset a consumer gets."""

    @property
    @abstractmethod
    def high_watermark(self) -> int:
        """The offset up to which all replicas have the log."""

    @property
    @abstractmethod
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is decided; at most the high watermark."""

    @property
    @abstractmethod
    def recovery_point(self) -> int:
        """The offset before which every record is on the disk."""

    @property
    @abstractmethod
    def leader_epochs(self) -> LeaderEpochCache:
        """The offset at which each leader epoch began."""

    @property
    @abstractmethod
    def producer_state(self) -> ProducerStateManager:
        """The state of the idempotent producers at the log's end."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""

    @abstractmethod
    def _segments_now(self) -> LogSegments: ...

    @abstractmethod
    def _log_end(self) -> LogOffsetMetadata: ...

    @abstractmethod
    def _high_watermark(self) -> LogOffsetMetadata: ...

    @abstractmethod
    def _last_stable(self) -> LogOffsetMetadata: ...

    # --- where it begins and ends

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments, by base offset; the last one is the active one."""
        return self._segments_now().values

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment; the log start offset where there is no segment."""
        bases = self._segments_now().base_offsets
        return bases[0] if bases else self.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset the next record will get.

        After the last whole batch of the active segment, up to damage if there is any.
        """
        return steadily(self._log_end).message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark, and where its batch lies."""
        found = steadily(self._high_watermark)
        return found._replace(message_offset=max(found.message_offset, self.log_start_offset))

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all segments."""
        return steadily(lambda: sum(segment.size for segment in self.segments))

    # --- reading

    def read(
        self,
        start_offset: int,
        max_length: int,
        isolation: IsolationLevel = IsolationLevel.LOG_END,
        min_one_message: bool = False,
    ) -> FetchDataInfo:
        """The batches from the one that holds start_offset on, of one segment, at most max_length bytes, as stored.

        min_one_message: the first batch whole, be it larger. The last batch may be cut. Batches that begin before
        start_offset hold records before it too.

        OffsetOutOfRangeError: start_offset is before the log's start or after its end. ValueError: max_length < 0.
        TypeError: isolation is no `IsolationLevel`. CorruptRecordError: damage on the way.
        """
        at, isolation = (
            whole("start_offset", start_offset, -NO_END - 1, NO_END),
            member("isolation", isolation, IsolationLevel),
        )
        max_length = whole("max_length", max_length, 0, NO_END, BYTES)
        return steadily(lambda: self._fetched(at, max_length, isolation, min_one_message))

    def _fetched(self, at: int, max_length: int, isolation: IsolationLevel, min_one_message: bool) -> FetchDataInfo:
        if at < self.log_start_offset:
            expected = f"{self.log_start_offset}..{self.log_end_offset}"
            raise OffsetOutOfRangeError("an offset before the log's start", str(self.directory), None, expected, at)
        committed = isolation is IsolationLevel.TXN_COMMITTED
        asked = Fetch(at, max_length, min_one_message, self._bound(isolation), committed)
        try:
            return fetch.fetch(self._segments_now(), self._log_end(), asked)
        except OffsetOutOfRangeError as error:
            error.at(str(self.directory))
            raise

    def _bound(self, isolation: IsolationLevel) -> LogOffsetMetadata:
        """How far an isolation level sees."""
        if isolation is IsolationLevel.LOG_END:
            return self._log_end()
        return self._high_watermark() if isolation is IsolationLevel.HIGH_WATERMARK else self._last_stable()

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record whose timestamp (ms) is `timestamp` or more; None where there is none.

        Special values as in Kafka, which give timestamp -1: -2 (and -4) the log's start, -1 its end; and -3, the first
        record with the largest timestamp. -5 and -6 ask about remote storage, of which there is none: offset -1.
        ValueError: another negative value.
        """
        timestamp = operator.index(timestamp)
        return steadily(lambda: self._found_by_time(timestamp))

    def _found_by_time(self, timestamp: int) -> TimestampAndOffset | None:
        if timestamp >= 0:
            return fetch.offset_for_timestamp(self._segments_now(), self.log_start_offset, timestamp)
        start, end = self.log_start_offset, self.log_end_offset
        return fetch.special_offset(self._segments_now(), start, end, self.leader_epochs, timestamp)

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    @overload
    def records(
        self, start: int | None = None, end: int | None = None, *, isolation: IsolationLevel = IsolationLevel.LOG_END
    ) -> Iterator[Record]: ...
    @overload
    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel = IsolationLevel.LOG_END,
        key_deserializer: Deserializer[Any] | None = None,
        value_deserializer: Deserializer[Any] | None = None,
    ) -> Iterator[DecodedRecord[Any, Any]]: ...
    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel = IsolationLevel.LOG_END,
        key_deserializer: Deserializer[Any] | None = None,
        value_deserializer: Deserializer[Any] | None = None,
    ) -> Iterator[Record] | Iterator[DecodedRecord[Any, Any]]:
        """The records with start <= offset < end (None: from the log start, to its end), control records left out.

        isolation: how far it sees; with TXN_COMMITTED, records of aborted transactions are left out; TypeError: no
        `IsolationLevel`. With a deserializer: `DecodedRecord`s, the other of key and value as bytes.

        Damage ends it with an error, as in `MessageSet`; so does a sealed segment that does not end in a whole batch,
        or that holds an offset which is not its own. FileNotFoundError: retention deleted a segment before it was
        reached. SerializationError: a deserializer refuses.
        """
        columns = self.columns(start, end, isolation=isolation)
        found = chain.from_iterable(_record_lists(columns))
        if key_deserializer is None and value_deserializer is None:
            return found
        return decode(found, key_deserializer or deserialize_bytes, value_deserializer or deserialize_bytes)

    def columns(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: IsolationLevel = IsolationLevel.LOG_END,
        threads: int = 1,
        check_crcs: bool = True,
    ) -> Iterator[RecordColumns]:
        """The same records as arrays, some thousand at a time. ValueError: threads < 1."""
        return self._columns(start, end, member("isolation", isolation, IsolationLevel), threads, check_crcs)

    def _columns(
        self, start: int | None, end: int | None, isolation: IsolationLevel, threads: int, check_crcs: bool
    ) -> Iterator[RecordColumns]:
        first, stop = self._range(start, end, isolation)
        aborted = self._aborted(first, stop, isolation)
        yield from self._walk(first, stop).columns(aborted, threads=threads, check_crcs=check_crcs)

    def batches(
        self, start: int | None = None, end: int | None = None, *, isolation: IsolationLevel = IsolationLevel.LOG_END
    ) -> Iterator[RecordBatch]:
        """The batches that hold, or held, an offset in [start, end), control batches too; nothing is decompressed."""
        return self._batches(start, end, member("isolation", isolation, IsolationLevel))

    def _batches(self, start: int | None, end: int | None, isolation: IsolationLevel) -> Iterator[RecordBatch]:
        first, stop = self._range(start, end, isolation)
        yield from self._walk(first, stop).batches()

    def count(
        self, start: int | None = None, end: int | None = None, *, isolation: IsolationLevel = IsolationLevel.LOG_END
    ) -> int:
        """How many records there are with start <= offset < end, control records not counted.

        Exact, on compacted and transactional logs too, and mostly from headers alone. count(high_watermark,
        log_end_offset) is what is not replicated yet. CorruptRecordError, InvalidRecordError: damage on the way.
        """
        isolation = member("isolation", isolation, IsolationLevel)
        return steadily(lambda: self._counted(start, end, isolation))

    def _counted(self, start: int | None, end: int | None, isolation: IsolationLevel) -> int:
        first, stop = self._range(start, end, isolation)
        stop = min(stop, self.log_end_offset)
        aborted = self._aborted(first, stop, isolation)
        left_out = None if aborted is None else aborted.among
        sets = self._walk(first, stop).message_sets()
        return sum(count_records(message_set, first, stop, left_out) for _, _, message_set in sets)

    def _range(self, start: int | None, end: int | None, isolation: IsolationLevel) -> tuple[int, int]:
        log_start = self.log_start_offset
        first = log_start if start is None else max(log_start, operator.index(start))
        stop = NO_END if end is None else operator.index(end)
        # To the log's end means to wherever it is by then.
        if isolation is IsolationLevel.LOG_END:
            return first, stop
        return first, min(stop, steadily(lambda: self._bound(isolation)).message_offset)

    def _aborted(self, first: int, stop: int, isolation: IsolationLevel) -> AbortedBatches | None:
        if isolation is not IsolationLevel.TXN_COMMITTED:
            return None
        return steadily(lambda: self._aborted_between(first, stop))

    def _aborted_between(self, first: int, stop: int) -> AbortedBatches | None:
        segments = self._segments_now()
        segment = segments.floor(first)
        return None if segment is None else AbortedBatches(fetch.aborted_txns(segments, segment, first, stop))

    def _walk(self, first: int, stop: int) -> Walk:
        return Walk(self._segments_now, self.directory, first, stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.directory} of {len(self.segments)} segments>"


def _record_lists(columns: Iterator[RecordColumns]) -> Iterator[list[Record]]:
    """The records; few at first: who seeks may want no more than one."""
    first: int | None = FIRST_RECORDS
    for part in columns:
        yield from part.record_lists(first=first)
        first = None
