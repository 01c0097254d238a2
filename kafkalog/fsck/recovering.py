"""Recovery of a data directory before a broker is started: `recover`.

    lock the directory   ->   worker: load partition, close it | worker: ... | worker: ...   ->   clean-shutdown marker
                              its checkpoints are written as soon as it is recovered

After an unclean stop a broker reads every segment from its recovery point on, rebuilds indexes, leader epochs and
producer state, and cuts off what is incomplete. The same happens here to each partition, by the same code as in
`kafkalog.open(path, "a")`, with any number of processes. A broker then starts on the directory as after a clean stop.

Source: `loadLogs` and `shutdown` in core/.../LogManager.scala.
"""

import logging
import os
import time
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.fsck.processes import Advance, each_result
from kafkalog.storage.checkpoint.checkpoint_file import fits_checkpoint
from kafkalog.storage.checkpoint.clean_shutdown_file import was_clean_shutdown
from kafkalog.storage.data_dir.directory_lock import DirectoryLock, target_of_link
from kafkalog.storage.data_dir.discover import DataDir, discover
from kafkalog.storage.data_dir.session import Checkpoints, Session, covered_by_clean_shutdown, read_checkpoints
from kafkalog.storage.file_names import TopicPartition, parse_partition_dir, segment_files
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.recovery.log_loader import Opening
from kafkalog.storage.remote_path import local_path
from kafkalog.storage.unified_log import WritableLog

# The least time between two writes of the checkpoints, which are rewritten as a whole.
_CHECKPOINT_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredPartition:
    """The result of the recovery of one partition.

    Attributes:
        directory: Its directory.
        topic_partition: The partition.
        messages: What was removed or rebuilt, a message each.
        error: Why it could not be recovered; None if it was.
        log_start_offset: Its log start offset; this and the following are -1 after an error.
        log_end_offset: The offset of its next record.
        high_watermark: Its high watermark.
        recovery_point: The offset before which everything is synced to disk: the log end.
        first_base_offset: The base offset of its first segment.
        lost_offsets: The first and the last offset of those at the log's end that are gone, as far as the checkpoints
            and the names of the segments tell; None if they tell of none.
    """

    directory: Path
    topic_partition: TopicPartition
    messages: tuple[str, ...]
    error: KafkaLogError | OSError | None = None
    log_start_offset: int = -1
    log_end_offset: int = -1
    high_watermark: int = -1
    recovery_point: int = -1
    first_base_offset: int = -1
    lost_offsets: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Task:
    """A partition to recover: its directory, its offsets in the checkpoints, the settings, and the bytes to read."""

    directory: Path
    partition: TopicPartition
    known: Checkpoints
    config: LogConfig | None
    size: int


def recover(
    data_dir: str | os.PathLike[str],
    config: LogConfig | None = None,
    *,
    jobs: int = 1,
    progress: Advance | None = None,
) -> Generator[RecoveredPartition, None, None]:
    """Recover all partitions of a data directory that was not closed cleanly, and mark it as closed cleanly.

    The directory is locked until the iterator ends or is closed. If it is closed early, or a partition fails, the
    directory is not marked, and the next recovery goes on from the recovery points reached. Nothing is done in a
    directory that was closed cleanly.

    Args:
        data_dir: The data directory.
        config: The settings of all topics. Recovery depends only on `index_interval_bytes`, `segment_index_bytes` and
            `producer_id_expiration_ms`.
        jobs: The number of processes. With more than one, a program needs the guard `if __name__ == "__main__"`.
        progress: Called with the number of bytes read since the last call; `bytes_to_recover` is their sum.

    Returns:
        The result for each partition, in the order in which they end.

    Raises:
        LogLockedError: A broker or another writer has locked the directory.
        NotALogError: The path is not a data directory.
        CorruptCheckpointError: A checkpoint is damaged. Nothing was changed.
        OSError: The directory cannot be read, or a checkpoint or the marker cannot be written.
        ChildProcessError: A worker process was killed.
    """
    directory = local_path(data_dir).absolute()
    if was_clean_shutdown(directory):
        return
    _ensure_data_dir(directory)
    with ExitStack() as ends:
        # Called last, when the marker is written.
        ends.callback(_give_to_owner, directory)
        session, targets = _begin(DirectoryLock(directory), ends), dict[Path, Session]()
        # Before anything is changed: the tasks read the checkpoints.
        tasks = _tasks(directory, config)
        for task in tasks:
            if (target := target_of_link(task.directory)) is not None:
                targets[task.directory] = _begin(DirectoryLock(target.parent, target.name), ends)
        unwritten, written_at = list[RecoveredPartition](), time.monotonic()
        for result in each_result(_recover_partition, tasks, jobs, progress or (lambda _: None)):
            session.lock.ensure_held()
            session.note_end(result.directory.name, in_order=result.error is None)
            if (target_session := targets.get(result.directory)) is not None:
                target_session.note_end(target_session.lock.directory.name, in_order=result.error is None)
            if result.error is None:
                unwritten.append(result)
            if time.monotonic() > written_at + _CHECKPOINT_SECONDS:
                session.update_checkpoints(unwritten)
                unwritten, written_at = [], time.monotonic()
            yield result
        session.update_checkpoints(unwritten)


def bytes_to_recover(data_dir: str | os.PathLike[str]) -> int:
    """Return the number of bytes that `recover` reads: the segments from each partition's recovery point on.

    Raises:
        NotALogError, CorruptCheckpointError, OSError: As `recover`.
    """
    directory = local_path(data_dir).absolute()
    if was_clean_shutdown(directory):
        return 0
    _ensure_data_dir(directory)
    return sum(task.size for task in _tasks(directory, None))


def _begin(lock: DirectoryLock, ends: ExitStack) -> Session:
    """Lock a directory or a partition until the end of `ends`, which is a clean one unless there is an error."""
    session = Session(lock)

    def end(error: type[BaseException] | None, *_: object) -> None:
        session.end(in_order=error is None)

    ends.push(end)
    return session


def _ensure_data_dir(directory: Path) -> None:
    if not isinstance(discover(directory), DataDir):
        raise NotALogError("not a data directory, which recovery needs: give the one that it is in", str(directory))


def _tasks(directory: Path, config: LogConfig | None) -> list[_Task]:
    """Return the partitions to recover, those with most bytes first."""
    known, tasks = read_checkpoints(directory), []
    directories: dict[TopicPartition, Path] = {}
    for each in covered_by_clean_shutdown(directory):
        partition = parse_partition_dir(each.name)
        assert partition is not None
        if (other := directories.setdefault(partition, each)) != each:
            raise NotALogError(f"two directories for {partition}, with which no broker starts: {other}", str(each))
        size = sum(path.stat().st_size for _, path in unflushed(each, known.recovery_points.get(partition, 0)))
        tasks.append(_Task(each, partition, known.only(partition), config, size))
    return sorted(tasks, key=lambda task: (-task.size, task.partition))


def unflushed(directory: Path, recovery_point: int) -> list[tuple[int, Path]]:
    """Return (base offset, path) of the segments of a partition from the one with its recovery point on."""
    files = segment_files(directory)
    return files[max(0, bisect_right([base for base, _ in files], recovery_point) - 1) :]


def _recover_partition(task: _Task, advance: Advance) -> RecoveredPartition:
    read = 0

    def progress(done: int, _: int) -> None:
        nonlocal read
        advance(done - read)
        read = done

    with collected_messages() as messages:
        try:
            if not fits_checkpoint(task.partition):
                message = "no checkpoint can have the topic's name, which has a space or is not UTF-8: mv it ASIDE"
                raise NotALogError(message, str(task.directory))
            bases = [base for base, _ in segment_files(task.directory)]
            ended = _end_before(task, bases)
            opening = Opening(progress=progress)
            log = WritableLog.load_checkpointed(task.directory, task.config, opening, task.known)
            log.close()
            _give_to_owner(task.directory)
        except (KafkaLogError, OSError) as error:
            return RecoveredPartition(
                directory=task.directory, topic_partition=task.partition, messages=tuple(messages), error=error
            )
    known = (offsets.get(task.partition, 0) for offsets in (task.known.high_watermarks, task.known.recovery_points))
    end, once = log.log_end_offset, max(*bases[-1:], *known)
    lost = (end, once - 1) if end < once else None
    if bases and log.first_base_offset > bases[-1]:
        # The log ended before its start: all of it was deleted.
        lost = bases[0], max(bases[0], once - 1, ended - 1)
    return RecoveredPartition(
        directory=task.directory,
        topic_partition=task.partition,
        messages=tuple(messages),
        log_start_offset=log.log_start_offset,
        log_end_offset=end,
        high_watermark=log.high_watermark,
        recovery_point=log.recovery_point,
        first_base_offset=log.first_base_offset,
        lost_offsets=lost,
    )


def _end_before(task: _Task, bases: Sequence[int]) -> int:
    """Return the log end if the log may end before its start, so that all of it is deleted; else, or if unknown, 0."""
    if bases and task.known.log_starts.get(task.partition, 0) > bases[-1]:
        with suppress(KafkaLogError, OSError), ReadOnlyLog(task.directory, from_first_segment=True) as log:
            return log.log_end_offset
    return 0


def _give_to_owner(directory: Path) -> None:
    """Give the files of a directory to its owner, if the recovery runs as root: a broker may not write root's."""
    owner = directory.stat()
    if os.geteuid() == 0 != owner.st_uid:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == 0:
                    os.chown(entry, owner.st_uid, owner.st_gid)


@contextmanager
def collected_messages() -> Iterator[list[str]]:
    """Collect the library's warnings instead of logging them."""
    collector, logger = _Collector(logging.WARNING), logging.getLogger("kafkalog.storage")
    logger.addHandler(collector)
    propagated, logger.propagate = logger.propagate, False
    try:
        yield collector.messages
    finally:
        logger.propagate = propagated
        logger.removeHandler(collector)


class _Collector(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
