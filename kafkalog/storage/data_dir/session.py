"""What a data directory says of its partitions, and what it is told when they are closed.

    .lock                              who may write: the whole directory, or single partitions of it
    .kafka_cleanshutdown               the last one here stopped in order; gone while anybody writes
    recovery-point-offset-checkpoint   what of each partition is on the disk
    log-start-offset-checkpoint        where partitions begin whose first segment begins earlier
    replication-offset-checkpoint      their high watermarks

The mark of a clean shutdown is for all partitions together. Whoever opens one takes it away; it comes back when the
last one is closed in order, provided that every partition there is known to be whole, and that no other process was
here in between: whoever opens the directory leaves a time of its own on `.lock`.
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
    """What of a log goes into the checkpoints."""

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
    """The offsets of partitions, as the data directory has them."""

    recovery_points: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]


# What becomes of the logs of a data directory without a checkpoint.
_WITHOUT = {
    RECOVERY_POINT_CHECKPOINT: "logs that were not closed are then read again from their beginning",
    LOG_START_OFFSET_CHECKPOINT: "logs then begin with their first segment, also where records of it had been deleted",
    HIGH_WATERMARK_CHECKPOINT: "the high watermark of a log is then its end",
}


def read_checkpoints(data_dir: Path) -> Checkpoints:
    """All three checkpoints. CorruptCheckpointError: one does not follow its format; it says what to do."""
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
    """Those that say something else, or are not there."""
    for name, before, offsets in (
        (RECOVERY_POINT_CHECKPOINT, current.recovery_points, wanted.recovery_points),
        (LOG_START_OFFSET_CHECKPOINT, current.log_starts, wanted.log_starts),
        (HIGH_WATERMARK_CHECKPOINT, current.high_watermarks, wanted.high_watermarks),
    ):
        if offsets != before or not (data_dir / name).exists():
            write_offset_checkpoint(data_dir / name, offsets)


@dataclass(slots=True)
class Session:
    """This process at work in a data directory: from the first partition that it opens to the last that it closes."""

    data_dir: Path
    was_clean: bool
    stamp_ns: int
    # The marks of the locks of what is open.
    open: set[object] = field(default_factory=set)
    # Partition directories that this session has closed in order, and whether all it opened were.
    closed: set[str] = field(default_factory=set)
    in_order: bool = True
    # Those that were given up, and not been recovered and closed since.
    given_up: set[str] = field(default_factory=set)

    def is_whole(self, name: str) -> bool:
        """Whether a partition need not be recovered: whoever wrote it last, here or before, closed it."""
        return name in self.closed or (self.was_clean and name not in self.given_up)

    def note_end(self, directories: Iterable[Path], *, in_order: bool) -> None:
        """Partitions have been closed, or given up."""
        self.in_order &= in_order
        names = {real_path(each).name for each in directories}
        self.closed = self.closed | names if in_order else self.closed - names
        self.given_up = self.given_up - names if in_order else self.given_up | names

    def others_are_whole(self) -> bool:
        """Whether nothing is known against the partitions that this session has not opened."""
        return self.was_clean or not (_partitions_with_segments(self.data_dir) - self.closed)


_ON_THEIR_WAY_OUT = ("-delete", "-stray")
_sessions: dict[Path, Session] = {}
# Who has it is not to take it again: `lose` finds out by it whether something is being done.
_guard = threading.Lock()
_lost: deque[tuple[Session, DirectoryLock, tuple[Path, ...]]] = deque()


def _forget_sessions() -> None:
    global _guard  # noqa: PLW0603 - another thread of the parent may have held it
    _guard = threading.Lock()
    _sessions.clear()
    _lost.clear()


os.register_at_fork(after_in_child=_forget_sessions)


def begin(data_dir: Path, lock: DirectoryLock) -> Session:
    """Go to work in a data directory, or on with it: the mark of a clean shutdown is taken away.

    The lock is acquired here, so that no session ends between the one and the other. LogLockedError, OSError.
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
        # A partition whose name a crash kept from the disk would be lost with all that is flushed in it.
        sync_directory(data_dir)
    os.utime(lock.path, ns=(stamp, stamp))
    _sessions[session.data_dir] = session
    return session


def end(session: Session, lock: DirectoryLock, closed: Iterable[Path], *, in_order: bool) -> None:
    """A partition of the session, or all, have been closed; the last one leaves the mark, where that is true.

    The lock is released. OSError: the mark could not be left.
    """
    ended = tuple(closed)
    try:
        with _guard:
            _end_lost()
            _end(session, lock, ended, in_order=in_order)
    except Exception:
        raise
    except BaseException:
        # A signal, wherever it struck.
        lose(session, lock, *ended)
        raise


def lose(session: Session, lock: DirectoryLock, *directories: Path) -> None:
    """The same for what nobody has closed: partitions, or all of a data directory, are given up.

    Called wherever garbage is collected, and so perhaps while this thread is busy here, or with the locks: then it is
    done by whoever comes here next. Nothing is done for what has ended.
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
        # Only now: a signal may end this before.
        _lost.popleft()


def _end(session: Session, lock: DirectoryLock, ended: Iterable[Path], *, in_order: bool) -> None:
    """May be done once more where a signal has ended it: the session's last step is to forget the lock."""
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
    """Bring the logs' lines in all checkpoints up to date; those of other partitions stay. OSError.

    lock: what this process holds of the data directory; others may hold other partitions of it. LogLockedError: it
    does not keep others out any more; see `DirectoryLock.ensure_held`.
    """
    _alone_with_checkpoints(data_dir, lock, lambda: _write_checkpoints(data_dir, logs))


def restore_checkpoints(data_dir: Path, lock: DirectoryLock, before: Checkpoints) -> None:
    """Have the checkpoints say again what they said, where they do not. Errors as `update_checkpoints`."""
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
    """The topic id of a partition that is new; it is written down at once, so that no other process gives another.

    Errors as `topic_id_in`, and as `update_checkpoints`.
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
    """Take the lines of a partition that was deleted out of the checkpoints. OSError."""
    _alone_with_checkpoints(data_dir, lock, lambda: _forget_in_checkpoints(data_dir, partition))


def _forget_in_checkpoints(data_dir: Path, partition: TopicPartition) -> None:
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
        offsets = read_offset_checkpoint(data_dir / name)
        if offsets.pop(partition, None) is not None:
            write_offset_checkpoint(data_dir / name, offsets)


def _partitions_with_segments(data_dir: Path) -> set[str]:
    """The partitions that the mark of a clean shutdown is about.

    Not about those that are on their way out, and not about the cluster's metadata, which is recovered always.
    """
    named = ((each, parse_partition_dir(each.name)) for each in data_dir.iterdir())
    kept = (each for each, partition in named if partition and partition.topic != CLUSTER_METADATA_TOPIC)
    kept = (each for each in kept if not each.name.endswith(_ON_THEIR_WAY_OUT))
    return {each.name for each in kept if each.is_dir() and segment_files(each)}
