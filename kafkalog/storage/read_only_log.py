"""`ReadOnlyLog`: a partition directory that another process may be writing; nothing is written, created or locked.

segments            the directory, listed again after each change
log end             whole batches of the active segment, read on from its previous end
watermarks          from the checkpoints of the data directory
producers, LSO      computed from the newest snapshot and the batches after it
"""

import errno
import os
from collections.abc import Callable
from io import UnsupportedOperation
from pathlib import Path
from typing import NoReturn

from kafkalog._speedups import decompress
from kafkalog.errors import NotALogError
from kafkalog.storage.checkpoint.checkpoint_file import OffsetCheckpointFile
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.clock import wall_clock_ms
from kafkalog.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    parse_partition_dir,
    real_path,
)
from kafkalog.storage.log import Log
from kafkalog.storage.log_config import LogConfig, config_or_default
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.producer.rebuild_producer_state import rebuild_producer_state
from kafkalog.storage.read import fetch
from kafkalog.storage.read.retry import retry
from kafkalog.storage.read.segment_listing import SegmentListing
from kafkalog.storage.remote_path import to_path
from kafkalog.storage.segment.log_segments import LogSegments


def _unsupported(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Log, *_: object, **__: object) -> NoReturn:
        raise UnsupportedOperation(f"{self.directory}: {name}: the log was opened to be read; open it with mode 'a'")

    refuse.__name__ = name
    refuse.__doc__ = "Raise io.UnsupportedOperation: the log was opened to be read."
    return refuse


class ReadOnlyLog(Log):
    """The log of one partition, read-only.

    It follows a log that grows, is rolled, or loses its oldest segments, and works beside a running broker. Operations
    that would change the log raise `io.UnsupportedOperation`. With
    `from_first_segment` it begins at its first segment, whatever log start offset the checkpoint of the data directory
    has.

    Raises:
        NotADirectoryError, FileNotFoundError: The path is not a directory.
        NotALogError: The directory contains no segment, and is not named like a partition or contains partitions.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        config: LogConfig | None = None,
        *,
        decompression_limit: int = decompress.DEFAULT_LIMIT,
        from_first_segment: bool = False,
    ) -> None:
        directory = to_path(directory)
        self._from_first_segment = from_first_segment
        self._attach(directory, config_or_default(config))
        if self.directory.is_file():
            what = "a partition directory is needed, and this is a file: `kafkalog dump` and FileMessageSet read it"
            raise NotADirectoryError(errno.ENOTDIR, what, str(directory))
        self._listing = SegmentListing(self.directory, decompression_limit)
        self._checkpoints: dict[str, OffsetCheckpointFile] = {}
        if not self._listing.segments().values:
            _check_may_be_partition(self.directory, self.topic_partition)
        self._producers_read: ProducerStateManager | None = None

    @property
    def closed(self) -> bool:
        """Whether the log has been closed."""
        return self._listing.closed

    @property
    def log_start_offset(self) -> int:
        """The first offset available to consumers.

        It is the base offset of the first segment, or the offset in the data directory's checkpoint if that is larger.

        Raises:
            CorruptCheckpointError: The checkpoint does not follow its format.
        """
        segments = self._segments_now().values
        first = segments[0].base_offset if segments else 0
        if self._from_first_segment and segments:
            return first
        return max(first, self._checkpointed(LOG_START_OFFSET_CHECKPOINT, first))

    @property
    def high_watermark(self) -> int:
        """The high watermark in the data directory's checkpoint: all replicas have the log up to this offset.

        Without a checkpoint it is the log's end. It is always between the log's start and end.

        Raises:
            CorruptCheckpointError: The checkpoint does not follow its format.
        """
        end = self.log_end_offset
        return min(end, max(self.log_start_offset, self._checkpointed(HIGH_WATERMARK_CHECKPOINT, end)))

    @property
    def last_stable_offset(self) -> int:
        """The offset before which every transaction is completed, computed from the newest snapshot and the log.

        It is at most the high watermark.

        Raises:
            CorruptRecordError: A batch after the snapshot is damaged.
        """
        return retry(self._last_stable).message_offset

    @property
    def recovery_point(self) -> int:
        """The offset before which all is synced to disk, from the data directory's checkpoint; 0 if that has none."""
        return min(self._checkpointed(RECOVERY_POINT_CHECKPOINT, 0), self.log_end_offset)

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """The leader epochs and their start offsets.

        Raises:
            CorruptCheckpointError: The file does not follow its format.
        """
        return LeaderEpochCache(self.directory / LEADER_EPOCH_CHECKPOINT, writable=False)

    @property
    def producer_state(self) -> ProducerStateManager:
        """The state of the idempotent producers at the log's end, from the newest snapshot and the log."""
        return retry(self._producers_now)

    def _segments_now(self) -> LogSegments:
        return self._listing.segments()

    def _log_end(self) -> LogOffsetMetadata:
        return self._listing.end(self.log_start_offset)

    def _end_to_reach(self) -> LogOffsetMetadata | None:
        return self._listing.end_by_index()

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
        """Return the offset with its position, or without one if it is not in the log."""
        found = fetch.offset_metadata(self._segments_now(), self._log_end(), offset)
        # The batch that contains it may begin before the log's start, but a watermark must not.
        return found._replace(message_offset=max(found.message_offset, min(offset, self.log_start_offset)))

    def _checkpointed(self, name: str, otherwise: int) -> int:
        """Return this partition's offset in a checkpoint of the data directory, or `otherwise` if it has none."""
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
            known = ProducerStateManager(
                self.directory,
                self.topic_partition,
                producer_id_expiration_ms=self.config.producer_id_expiration_ms,
                writable=False,
            )
            rebuild_producer_state(known, self._segments_now(), self.log_start_offset, end, wall_clock_ms())
            self._producers_read = known
        return known

    def close(self) -> None:
        """Close the files. Records, columns and batches returned before stay valid.

        Reads in progress in other threads complete from the open files; no new ones are possible.
        """
        self._listing.close()

    append = _unsupported("append")
    append_as_leader = _unsupported("append_as_leader")
    append_as_follower = _unsupported("append_as_follower")
    delete = _unsupported("delete")
    delete_old_segments = _unsupported("delete_old_segments")
    delete_records = _unsupported("delete_records")
    flush = _unsupported("flush")
    maybe_increment_high_watermark = _unsupported("maybe_increment_high_watermark")
    roll = _unsupported("roll")
    truncate_fully_and_start_at = _unsupported("truncate_fully_and_start_at")
    truncate_to = _unsupported("truncate_to")
    update_high_watermark = _unsupported("update_high_watermark")


def _check_may_be_partition(directory: Path, partition: TopicPartition | None) -> None:
    """Raise NotALogError for a directory without segments that is a data directory, or not named like a partition."""
    inside = sorted(each.name for each in directory.iterdir() if parse_partition_dir(each.name) is not None)
    if inside:
        what = f"a data directory, not a partition: open one of the {len(inside)} below it, such as {inside[0]}"
        raise NotALogError(what, str(directory))
    if partition is None:
        what = "no Kafka partition: no segment (<20 digits>.log) in it, and not named <topic>-<partition>"
        raise NotALogError(what, str(directory))
