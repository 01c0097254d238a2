"""The state of a data directory: which partitions were closed cleanly, and the checkpoints of their offsets.

    .lock                              locks of writers: on the whole directory, or on single partitions
    .kafka_cleanshutdown               the last writer stopped cleanly; missing while there are writers
    recovery-point-offset-checkpoint   how much of each partition is synced to disk
    log-start-offset-checkpoint        start offsets of partitions whose first segment begins earlier
    replication-offset-checkpoint      their high watermarks

    Session(lock)   lock, remove the marker   ...   record how the partitions ended, restore the marker   end()

The clean-shutdown marker covers all partitions together. Opening a partition removes it. It is restored when the last
partition is closed cleanly, provided that every partition in the directory is known to be whole and that no other
process was active in between: each process that opens the directory sets its own mtime on `.lock`. A log that was lost
without being closed is an unclean stop. Opening, closing and writing checkpoints exclude each other
(`DirectoryLock.exclusive`), in this process and in others.

Source: storage/.../internals/log/LogManager.java.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint, write_offset_checkpoint
from kafkalog.storage.checkpoint.clean_shutdown_file import delete_clean_shutdown, write_clean_shutdown
from kafkalog.storage.checkpoint.partition_metadata_file import topic_id_in, write_partition_metadata
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.file_names import (
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    parse_partition_dir,
    real_path,
    segment_files,
)
from kafkalog.storage.files.durable import make_directory, sync_directory


class Checkpointed(Protocol):
    """The offsets of a log that are stored in checkpoints."""

    @property
    def topic_partition(self) -> TopicPartition | None: ...
    @property
    def recovery_point(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def first_base_offset(self) -> int: ...


class Checkpoints(NamedTuple):
    """The offsets of all partitions in the checkpoints of a data directory."""

    recovery_points: dict[TopicPartition, int]
    log_starts: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]

    def only(self, partition: TopicPartition) -> "Checkpoints":
        """Return the offsets of one partition."""
        return Checkpoints(*({partition: each[partition]} if partition in each else {} for each in self))


# The file of each checkpoint, in the order of `Checkpoints`, and the effect of deleting it, for error messages.
_WITHOUT = {
    RECOVERY_POINT_CHECKPOINT: "logs that were not closed are then read again from their beginning",
    LOG_START_OFFSET_CHECKPOINT: "logs then begin with their first segment, also where records of it had been deleted",
    HIGH_WATERMARK_CHECKPOINT: "the high watermark of a log is then its end",
}


def read_checkpoints(data_dir: Path) -> Checkpoints:
    """Read all three checkpoints.

    Raises:
        CorruptCheckpointError: A checkpoint does not follow its format; the message suggests what to do.
    """
    return Checkpoints(*(_read_checkpoint(data_dir / name) for name in _WITHOUT))


def _read_checkpoint(path: Path) -> dict[TopicPartition, int]:
    try:
        return read_offset_checkpoint(path)
    except CorruptCheckpointError as error:
        error.message += f"; mend it with kafkalog repair, or delete it: {_WITHOUT[path.name]}"
        raise


@dataclass(slots=True)
class _History:
    """The record of this process in a data directory since it first locked something there, shared by its sessions.

    Attributes:
        was_clean: Whether the clean-shutdown marker was there at the beginning.
        stamp_ns: The mtime that `.lock` got then.
        ended: The partitions that have ended, by name: whether they were closed cleanly at last.
        in_order: Whether each end was clean.
        locks: The locks of the sessions. Those of abandoned logs are no longer held.
    """

    was_clean: bool
    stamp_ns: int
    ended: dict[str, bool] = field(default_factory=dict)
    in_order: bool = True
    locks: set[DirectoryLock] = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        return not any(lock.is_held for lock in self.locks)


# By the real path of the data directory.
_histories: dict[Path, _History] = {}


class Session:
    """A data directory, or a partition in it, while this process has it locked.

    Attributes:
        data_dir: The data directory.
        lock: The lock, held until `end`.
    """

    def __init__(self, lock: DirectoryLock) -> None:
        """Acquire the lock and remove the clean-shutdown marker.

        Raises:
            LogLockedError, OSError: As `DirectoryLock.acquire`; OSError also if the marker cannot be removed.
        """
        self.data_dir = lock.data_dir
        self.lock = lock
        try:
            lock.acquire()
            with lock.exclusive():
                self._history = _history(lock)
                self._history.locks.add(lock)
        except BaseException:
            lock.release()
            raise

    @property
    def was_clean(self) -> bool:
        """Whether the clean-shutdown marker was there at the beginning."""
        return self._history.was_clean

    def is_whole(self, partition: str) -> bool:
        """Return whether a partition needs no recovery because its last writer, here or before, closed it."""
        return self._history.ended.get(partition, self._history.was_clean)

    def note_end(self, *partitions: str, in_order: bool) -> None:
        """Record that partitions were closed cleanly, or abandoned."""
        self._history.ended.update(dict.fromkeys(partitions, in_order))
        if not in_order:
            self._history.in_order = False

    def end(self, *partitions: str, in_order: bool) -> None:
        """Record the end of partitions, and release the lock.

        When it is the last one, the clean-shutdown marker is written if all partitions are whole. Without `in_order`
        this may run wherever garbage is collected, as it does not wait for other processes.

        Raises:
            LogLockedError: As `DirectoryLock.ensure_held`, with `in_order`.
            OSError: The marker cannot be written.
        """
        self.note_end(*partitions, in_order=in_order)
        try:
            if in_order:
                with self.lock.exclusive():
                    self._history.locks.discard(self.lock)
                    if self._history.is_over:
                        _histories.pop(self.lock.real_dir, None)
                        if self._leaves_all_whole():
                            write_clean_shutdown(self.data_dir)
        finally:
            self.lock.release()

    def _leaves_all_whole(self) -> bool:
        """Return whether all partitions are known to be whole, and no other process has been there."""
        history = self._history
        there = (each.name for each in covered_by_clean_shutdown(self.data_dir) if segment_files(each))
        return (
            history.in_order
            and (history.was_clean or all(map(history.ended.get, there)))
            and self.lock.path.stat().st_mtime_ns == history.stamp_ns
            and not self.lock.has_company()
        )

    # --- the files that partitions share

    def update_checkpoints(self, logs: Iterable[Checkpointed]) -> None:
        """Update the lines of the logs in all checkpoints; those of other partitions stay.

        Raises:
            LogLockedError: The lock is no longer effective, see `DirectoryLock.ensure_held`.
            OSError: A checkpoint cannot be read or written.
        """
        with self._changed_checkpoints() as (points, starts, marks):
            for log in logs:
                if (partition := log.topic_partition) is None:
                    continue
                points[partition], marks[partition] = log.recovery_point, log.high_watermark
                starts.pop(partition, None)
                if log.log_start_offset > log.first_base_offset:
                    starts[partition] = log.log_start_offset

    def forget_partition(self, partition: TopicPartition) -> None:
        """Remove the lines of a deleted partition from the checkpoints. Raises: as `update_checkpoints`."""
        with self._changed_checkpoints() as checkpoints:
            for offsets in checkpoints:
                offsets.pop(partition, None)

    def restore_checkpoints(self, before: Checkpoints) -> None:
        """Restore the former content of the checkpoints where it has changed. Raises: as `update_checkpoints`."""
        if read_checkpoints(self.data_dir) != before:
            with self._changed_checkpoints() as checkpoints:
                for offsets, former in zip(checkpoints, before, strict=True):
                    offsets.clear()
                    offsets.update(former)

    @contextmanager
    def _changed_checkpoints(self) -> Iterator[Checkpoints]:
        """Read the checkpoints for the caller to change, and write those that are missing or have changed."""
        with self.lock.exclusive():
            before = read_checkpoints(self.data_dir)
            yield (after := Checkpoints(*map(dict, before)))
            for name, former, offsets in zip(_WITHOUT, before, after, strict=True):
                if offsets != former or not (self.data_dir / name).exists():
                    write_offset_checkpoint(self.data_dir / name, offsets)

    def settle_topic_id(self, directory: Path) -> str:
        """Return the topic id of a new partition and write it at once, so that no other process assigns another one.

        Raises: as `topic_id_in` and `update_checkpoints`.
        """
        partition = parse_partition_dir(real_path(directory).name)
        assert partition is not None
        with self.lock.exclusive():
            topic_id = topic_id_in(self.data_dir, partition.topic)
            make_directory(directory)
            write_partition_metadata(directory / PARTITION_METADATA, topic_id)
            return topic_id


def _history(lock: DirectoryLock) -> _History:
    """Return the history of this process in the data directory; begin it unless another lock of it is held there."""
    known = _histories.get(lock.real_dir)
    if known is not None and not known.is_over:
        return known
    was_clean = delete_clean_shutdown(lock.data_dir)
    if not was_clean:
        # A partition directory whose entry was not synced before a crash would be lost together with its flushed data.
        sync_directory(lock.data_dir)
    stamp = time.time_ns()
    os.utime(lock.path, ns=(stamp, stamp))
    begun = _histories[lock.real_dir] = _History(was_clean, stamp)
    return begun


_ON_THEIR_WAY_OUT = ("-delete", "-stray")


def covered_by_clean_shutdown(data_dir: Path) -> list[Path]:
    """Return the directories of the partitions that the clean-shutdown marker covers.

    Excluded are partitions that are being removed, and the cluster's metadata, which is always recovered.
    """
    named = ((each, parse_partition_dir(each.name)) for each in data_dir.iterdir())
    kept = (each for each, partition in named if partition and partition.topic != CLUSTER_METADATA_TOPIC)
    return [each for each in kept if not each.name.endswith(_ON_THEIR_WAY_OUT) and each.is_dir()]
