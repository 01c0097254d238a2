"""The state of a data directory: which partitions were closed cleanly, and the checkpoints of their offsets.

    .lock                              locks of writers: on the whole directory, or on single partitions
    .kafka_cleanshutdown               the last writer stopped cleanly; missing while there are writers
    recovery-point-offset-checkpoint   how much of each partition is synced to disk
    log-start-offset-checkpoint        start offsets of partitions whose first segment begins earlier
    replication-offset-checkpoint      their high watermarks

The clean-shutdown marker covers all partitions together. Opening a partition removes it. It is restored when the last
partition is closed cleanly, provided that every partition in the directory is known to be whole and that no other
process was active in between: each process that opens the directory sets its own mtime on `.lock`.

Source: storage/.../internals/log/LogManager.java.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from kafkalog.errors import CorruptCheckpointError, LogLockedError
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint, write_offset_checkpoint
from kafkalog.storage.checkpoint.clean_shutdown_file import (
    delete_clean_shutdown,
    was_clean_shutdown,
    write_clean_shutdown,
)
from kafkalog.storage.checkpoint.partition_metadata_file import topic_id_in, write_partition_metadata
from kafkalog.storage.data_dir.directory_lock import DirectoryLock, is_busy
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

_log = logging.getLogger(__name__)
Result = TypeVar("Result")


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


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The offsets of all partitions in the checkpoints of a data directory."""

    recovery_points: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]


# The effect of deleting each checkpoint, for error messages.
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


def _read_checkpoint(path: Path) -> Mapping[TopicPartition, int]:
    try:
        return read_offset_checkpoint(path)
    except CorruptCheckpointError as error:
        error.message += f"; mend the file, or delete it: {_WITHOUT[path.name]}"
        raise


def _write_checkpoints(data_dir: Path, logs: Iterable[Checkpointed]) -> None:
    current = read_checkpoints(data_dir)
    points, starts, marks = map(dict, (current.recovery_points, current.log_starts, current.high_watermarks))
    for log in logs:
        if (partition := log.topic_partition) is None:
            continue
        points[partition], marks[partition] = log.recovery_point, log.high_watermark
        starts.pop(partition, None)
        if log.log_start_offset > log.first_base_offset:
            starts[partition] = log.log_start_offset
    _put_checkpoints(data_dir, current, Checkpoints(points, starts, marks))


def _put_checkpoints(data_dir: Path, current: Checkpoints, wanted: Checkpoints) -> None:
    """Write the checkpoints that are missing or whose content differs."""
    for name, before, offsets in (
        (RECOVERY_POINT_CHECKPOINT, current.recovery_points, wanted.recovery_points),
        (LOG_START_OFFSET_CHECKPOINT, current.log_starts, wanted.log_starts),
        (HIGH_WATERMARK_CHECKPOINT, current.high_watermarks, wanted.high_watermarks),
    ):
        if offsets != before or not (data_dir / name).exists():
            write_offset_checkpoint(data_dir / name, offsets)


@dataclass(slots=True)
class Session:
    """The activity of this process in a data directory, from the first partition opened to the last one closed."""

    data_dir: Path
    was_clean: bool
    stamp_ns: int
    # The marks of the locks of open partitions.
    open: set[object] = field(default_factory=set)
    # The partition directories closed cleanly by this session, and whether all of them were.
    closed: set[str] = field(default_factory=set)
    in_order: bool = True
    # The partition directories abandoned and not recovered and closed since.
    given_up: set[str] = field(default_factory=set)

    def is_whole(self, name: str) -> bool:
        """Return whether a partition needs no recovery because its last writer, here or before, closed it."""
        return name in self.closed or (self.was_clean and name not in self.given_up)

    def note_end(self, directories: Iterable[Path], *, in_order: bool) -> None:
        """Record that partitions were closed cleanly or abandoned."""
        self.in_order &= in_order
        names = {real_path(each).name for each in directories}
        self.closed = self.closed | names if in_order else self.closed - names
        self.given_up = self.given_up - names if in_order else self.given_up | names

    def others_are_whole(self) -> bool:
        """Return whether all partitions that this session has not opened are known to be whole."""
        return self.was_clean or not (_partitions_with_segments(self.data_dir) - self.closed)


_ON_THEIR_WAY_OUT = ("-delete", "-stray")
_sessions: dict[Path, Session] = {}
# Not reentrant: `lose` uses it to detect that this thread is already in this module.
_guard = threading.Lock()
_lost: deque[tuple[Session, DirectoryLock, tuple[Path, ...]]] = deque()


def _forget_sessions() -> None:
    global _guard  # noqa: PLW0603 - another thread of the parent may have held it
    _guard = threading.Lock()
    _sessions.clear()
    _lost.clear()


os.register_at_fork(after_in_child=_forget_sessions)


def begin(data_dir: Path, lock: DirectoryLock) -> Session:
    """Start or join the session of a data directory and remove the clean-shutdown marker.

    The lock is acquired here, so that no session can end between acquiring and joining.

    Raises:
        LogLockedError, OSError: As `DirectoryLock.acquire`; OSError also if the marker cannot be removed.
    """
    with _guard:
        _end_lost()
        try:
            lock.acquire()
            session = _sessions.get(data_dir.resolve()) or _begun(data_dir, lock)
            session.open.add(lock.mark)
        except BaseException:
            _take_back(lock)
            raise
        return session


def _take_back(lock: DirectoryLock) -> None:
    for session in list(_sessions.values()):
        session.open.discard(lock.mark)
        if not session.open:
            del _sessions[session.data_dir]
    lock.release()


def _begun(data_dir: Path, lock: DirectoryLock) -> Session:
    stamp = time.time_ns()
    session = Session(data_dir.resolve(), was_clean_shutdown(data_dir), stamp)
    if not delete_clean_shutdown(data_dir):
        # A partition directory whose entry was not synced before a crash would be lost together with its flushed data.
        sync_directory(data_dir)
    os.utime(lock.path, ns=(stamp, stamp))
    _sessions[session.data_dir] = session
    return session


def end(session: Session, lock: DirectoryLock, closed: Iterable[Path], *, in_order: bool) -> None:
    """Record that partitions of the session were closed, and release the lock.

    When the last one is closed, the clean-shutdown marker is written if all partitions are whole.

    Raises:
        OSError: The marker cannot be written.
    """
    ended = tuple(closed)
    try:
        with _guard:
            _end_lost()
            _end(session, lock, ended, in_order=in_order)
    except Exception:
        raise
    except BaseException:
        # A signal, at any point.
        lose(session, lock, *ended)
        raise


def lose(session: Session, lock: DirectoryLock, *directories: Path) -> None:
    """Record that partitions, or all of a data directory, were abandoned without being closed.

    This runs wherever garbage is collected, perhaps while this thread is in this module or in `directory_lock`; the
    next call of this module then completes it. For partitions that have ended already it does nothing.
    """
    _lost.append((session, lock, directories))
    if not is_busy() and _guard.acquire(blocking=False):
        try:
            _end_lost()
        finally:
            _guard.release()


def _end_lost() -> None:
    while _lost:
        session, lock, directories = _lost[0]
        if lock.mark in session.open or lock.is_held:
            _end(session, lock, directories, in_order=False)
        # Remove it last, because a signal may interrupt the lines before.
        _lost.popleft()


def _end(session: Session, lock: DirectoryLock, ended: Iterable[Path], *, in_order: bool) -> None:
    """End the use of a lock; safe to repeat after a signal, because the session removes the lock's mark last."""
    try:
        session.note_end(ended, in_order=in_order)
        if session.open == {lock.mark}:
            if _sessions.get(session.data_dir) is session:
                del _sessions[session.data_dir]
            if session.in_order and session.others_are_whole() and _is_still_locked(lock):
                lock.if_nobody_else(lambda: _leave_mark(session, lock))
        session.open.discard(lock.mark)
    finally:
        lock.release()


def _is_still_locked(lock: DirectoryLock) -> bool:
    try:
        lock.ensure_held()
    except LogLockedError as error:
        _log.warning("%s: no clean shutdown: %s", lock.directory, error)
        return False
    return True


def _leave_mark(session: Session, lock: DirectoryLock) -> None:
    if lock.path.stat().st_mtime_ns == session.stamp_ns:
        write_clean_shutdown(session.data_dir)


def update_checkpoints(data_dir: Path, lock: DirectoryLock, logs: Iterable[Checkpointed]) -> None:
    """Update the lines of the logs in all checkpoints; those of other partitions stay.

    Args:
        data_dir: The data directory.
        lock: The lock of this process; other processes may hold locks on other partitions.
        logs: The logs to update.

    Raises:
        LogLockedError: The lock is no longer effective, see `DirectoryLock.ensure_held`.
        OSError: A checkpoint cannot be read or written.
    """
    _alone_with_checkpoints(data_dir, lock, lambda: _write_checkpoints(data_dir, logs))


def restore_checkpoints(data_dir: Path, lock: DirectoryLock, before: Checkpoints) -> None:
    """Restore the former content of the checkpoints where it has changed. Raises: as `update_checkpoints`."""
    current = read_checkpoints(data_dir)
    if current != before:
        _alone_with_checkpoints(data_dir, lock, lambda: _put_checkpoints(data_dir, current, before))


def _alone_with_checkpoints(data_dir: Path, lock: DirectoryLock, action: Callable[[], Result]) -> Result:
    with _guard:
        lock.ensure_held()
        if lock.holds_all:
            return action()
        alone = DirectoryLock.of_checkpoints(data_dir)
        try:
            alone.acquire()
            return action()
        finally:
            alone.release()


def settle_topic_id(data_dir: Path, lock: DirectoryLock, directory: Path) -> str:
    """Return the topic id of a new partition and write it immediately, so that no other process assigns another one.

    Raises: as `topic_id_in` and `update_checkpoints`.
    """
    name = real_path(directory).name
    partition = parse_partition_dir(name)
    assert partition is not None

    def settle() -> str:
        topic_id = topic_id_in(data_dir, partition.topic)
        make_directory(directory)
        write_partition_metadata(directory / PARTITION_METADATA, topic_id)
        return topic_id

    return _alone_with_checkpoints(data_dir, lock, settle)


def forget_partition(data_dir: Path, lock: DirectoryLock, partition: TopicPartition) -> None:
    """Remove the lines of a deleted partition from the checkpoints.

    Raises:
        LogLockedError, OSError: As `update_checkpoints`.
    """
    _alone_with_checkpoints(data_dir, lock, lambda: _forget_in_checkpoints(data_dir, partition))


def _forget_in_checkpoints(data_dir: Path, partition: TopicPartition) -> None:
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
        offsets = read_offset_checkpoint(data_dir / name)
        if offsets.pop(partition, None) is not None:
            write_offset_checkpoint(data_dir / name, offsets)


def _partitions_with_segments(data_dir: Path) -> set[str]:
    """Return the partitions covered by the clean-shutdown marker.

    Excluded are partitions that are being removed, and the cluster's metadata, which is always recovered.
    """
    named = ((each, parse_partition_dir(each.name)) for each in data_dir.iterdir())
    kept = (each for each, partition in named if partition and partition.topic != CLUSTER_METADATA_TOPIC)
    kept = (each for each in kept if not each.name.endswith(_ON_THEIR_WAY_OUT))
    return {each.name for each in kept if each.is_dir() and segment_files(each)}
