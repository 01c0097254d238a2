"""`Log`: a partition directory, all its segments as one run of offsets.

log start offset          segment | segment | active segment          log end offset
(records before it have been deleted, their bytes perhaps not yet)    (the offset the next record will get)

Here a log is read, beside whoever writes it: nothing is written, created or locked. `WritableLog` is one that is
appended to; what it reads, it reads as this one does. Kafka: `UnifiedLog`.
"""

import errno
import operator
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from kafkalog._speedups.arguments import BYTES, member, whole
from kafkalog._speedups.record import Record
from kafkalog.errors import NotALogError, OffsetOutOfRangeError
from kafkalog.record import decompress
from kafkalog.record.record_batch import RecordBatch
from kafkalog.record.record_columns import RecordColumns
from kafkalog.record.serialization import DecodedRecord, Deserializer, decode, deserialize_bytes
from kafkalog.storage.checkpoint.checkpoint_file import OffsetCheckpointFile
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.clock import wall_clock_ms
from kafkalog.storage.fetch_data_info import FetchDataInfo, IsolationLevel
from kafkalog.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    parse_partition_dir,
    real_path,
)
from kafkalog.storage.log_config import LogConfig, config_or_default
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.producer.rebuild_producer_state import rebuild_producer_state
from kafkalog.storage.read import fetch
from kafkalog.storage.read.aborted_transactions import AbortedBatches
from kafkalog.storage.read.count_records import count_records
from kafkalog.storage.read.fetch import Fetch
from kafkalog.storage.read.log_scan import NO_END, Walk
from kafkalog.storage.read.rereading import steadily
from kafkalog.storage.read.segment_listing import SegmentListing
from kafkalog.storage.segment.file_message_set import TimestampAndOffset
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# So many objects are made at first.
FIRST_RECORDS = 8


class Log:
    """The log of one partition, read-only. Iterable: the records from the log start offset on.

    It follows a log that grows, is rolled, or loses its oldest segments. Works beside a running broker.

    Attributes: directory; topic_partition (None where the directory's name is no partition's); config.

    NotADirectoryError, FileNotFoundError: no such directory. NotALogError: it holds no segment and is not named as a
    partition. LogStateError, from whatever is asked and while records are iterated over: the log has been closed.
    """

    directory: Path
    topic_partition: TopicPartition | None
    config: LogConfig

    def __init__(
        self,
        directory: str | os.PathLike[str],
        config: LogConfig | None = None,
        *,
        decompression_limit: int = decompress.DEFAULT_LIMIT,
    ) -> None:
        self._attach(Path(directory), config_or_default(config))
        if self.directory.is_file():
            what = "a partition directory is needed; a single file is read by FileMessageSet(path)"
            raise NotADirectoryError(errno.ENOTDIR, what, str(directory))
        self._listing = SegmentListing(self.directory, decompression_limit)
        self._checkpoints: dict[str, OffsetCheckpointFile] = {}
        if not self._listing.segments().values and self.topic_partition is None:
            raise NotALogError(_what_is_missing(self.directory), str(directory))
        self._producers_read: ProducerStateManager | None = None

    def _attach(self, directory: Path, config: LogConfig) -> None:
        # Wherever the process goes meanwhile.
        self.directory = directory.absolute()
        self.topic_partition = parse_partition_dir(real_path(directory).name)
        self.config = config

    @property
    def closed(self) -> bool:
        """Whether the log has been closed."""
        return self._listing.closed

    # --- where it begins and ends

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments, by base offset; the last one is the active one."""
        return self._segments_now().values

    @property
    def log_start_offset(self) -> int:
        """The first offset a consumer gets.

        It is the first segment's base, or what the data directory's checkpoint says if that is more.

        CorruptCheckpointError: the checkpoint does not follow its format.
        """
        segments = self._segments_now().values
        first = segments[0].base_offset if segments else 0
        return max(first, self._checkpointed(LOG_START_OFFSET_CHECKPOINT, first))

    @property
    def log_end_offset(self) -> int:
        """The offset the next record will get.

        After the last whole batch of the active segment, up to damage if there is any.
        """
        return steadily(self._log_end).message_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which all replicas had the log when the data directory's checkpoint was written.

        The log's end where there is no checkpoint: nothing tells that it is less then. Always within the log.
        CorruptCheckpointError: the checkpoint does not follow its format.
        """
        end = self.log_end_offset
        return min(end, max(self.log_start_offset, self._checkpointed(HIGH_WATERMARK_CHECKPOINT, end)))

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark, and where its batch lies."""
        found = steadily(self._high_watermark)
        return found._replace(message_offset=max(found.message_offset, self.log_start_offset))

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is decided, worked out from the newest snapshot and the log.

        At most the high watermark. CorruptRecordError: damage on the way.
        """
        return steadily(self._last_stable).message_offset

    @property
    def recovery_point(self) -> int:
        """All before this offset is on the disk, says the data directory's checkpoint; 0 where it says nothing."""
        return min(self._checkpointed(RECOVERY_POINT_CHECKPOINT, 0), self.log_end_offset)

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Which leader epoch began at which offset. CorruptCheckpointError: the file does not follow its format."""
        return LeaderEpochCache(self.directory / LEADER_EPOCH_CHECKPOINT, writable=False)

    @property
    def producer_state(self) -> ProducerStateManager:
        """What is known of the idempotent producers at the log's end, from the newest snapshot and the log."""
        return steadily(self._producers_now)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all segments."""
        return steadily(lambda: sum(segment.size for segment in self.segments))

    def _segments_now(self) -> LogSegments:
        return self._listing.segments()

    def _log_end(self) -> LogOffsetMetadata:
        return self._listing.end(self.log_start_offset)

    def _high_watermark(self) -> LogOffsetMetadata:
        return self._placed(self.high_watermark)

    def _last_stable(self) -> LogOffsetMetadata:
        producers, high_watermark = self._producers_now(), self.high_watermark
        producers.on_high_watermark_updated(high_watermark)
        unstable = producers.first_unstable_offset
        if unstable is None or unstable.message_offset >= high_watermark:
            return self._placed(high_watermark)
        return self._placed(max(unstable.message_offset, self.log_start_offset))

    def _placed(self, offset: int) -> LogOffsetMetadata:
        """The offset with its place, or without where it is not in the log."""
        try:
            found = fetch.offset_metadata(self._segments_now(), self._log_end(), offset)
        except OffsetOutOfRangeError:
            return LogOffsetMetadata(offset)
        # The batch that holds it may begin before the log's start, which no watermark may be before.
        return found._replace(message_offset=max(found.message_offset, min(offset, self.log_start_offset)))

    def _checkpointed(self, name: str, otherwise: int) -> int:
        """What a checkpoint of the data directory says of this partition."""
        if self.topic_partition is None:
            return otherwise
        file = self._checkpoints.get(name)
        if file is None:
            file = self._checkpoints[name] = OffsetCheckpointFile(real_path(self.directory).parent / name)
        return file.read().get(self.topic_partition, otherwise)

    def _producers_now(self) -> ProducerStateManager:
        end = self.log_end_offset
        known = self._producers_read
        if known is None or known.map_end_offset != end:
            known = ProducerStateManager(self.directory, self.topic_partition, writable=False)
            rebuild_producer_state(known, self._segments_now(), self.log_start_offset, end, wall_clock_ms())
            self._producers_read = known
        return known

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
            raise error.at(str(self.directory)) from None

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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What only a log has that is written to is asked for by name, and told where to get it."""
            from kafkalog.storage.unified_log import WritableLog

            if hasattr(WritableLog, name) and not isinstance(self, WritableLog):
                raise AttributeError(
                    f"{name}: this log is read-only; kafkalog.open(path, 'a') opens it to be written to"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def close(self) -> None:
        """Close the files. Records, columns and batches given out before stay valid.

        Whoever reads meanwhile, in another thread, reads what it is reading from these very files; nothing more.
        """
        self._listing.close()

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


def _what_is_missing(directory: Path) -> str:
    """Why a directory is no partition; a data directory, which holds some, is named as what it is."""
    inside = sorted(each.name for each in directory.iterdir() if parse_partition_dir(each.name) is not None)
    if inside:
        return f"a data directory, not a partition: open one of the {len(inside)} below it, such as {inside[0]}"
    return "no Kafka partition: no segment (<20 digits>.log) in it, and not named <topic>-<partition>"
