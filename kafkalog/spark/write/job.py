"""Rows of a DataFrame to partition directories, as a broker would have left them.

    driver      job = WriteJob.start(options, columns)        a directory of its own below <path>/_kafkalog_tmp
    executors   job.write(batches, task) -> TaskFiles         a directory for each attempt of a task
    driver      job.commit([TaskFiles, ...])                  joins them; then all is there, in one step
                job.abort()                                   or nothing is

Only what the messages name is joined: what a task left that failed, was killed or ran twice goes with the job's
directory. The data directory is locked while a job is committed, as a broker locks it, and left as after a clean stop.

Order: the records of a partition keep the order of the rows within a task, and the tasks follow one another in the
order of their numbers, as they do when Spark collects a DataFrame. So what is sorted, or was read by offset, is written
so; what was shuffled has the order that the shuffle gave it.
"""

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from kafkalog.errors import InconsistentTopicIdError, LogLockedError
from kafkalog.spark.write.commit import NEW, TASKS, TEMPORARY, Exchange, complete_begun, is_committed, remove_job
from kafkalog.spark.write.merge import Before, JoinedLog, Joining, Source
from kafkalog.spark.write.options import MOST_PARTITIONS, WriteOptions, check_columns
from kafkalog.spark.write.row_records import RowSorter
from kafkalog.spark.write.task_files import TaskFiles, TaskWriter
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata, topic_id_in
from kafkalog.storage.data_dir import session as sessions
from kafkalog.storage.data_dir.directory_lock import DirectoryLock, lock_data_dir
from kafkalog.storage.file_names import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    TopicPartition,
    offset_file,
    partition_of_dir,
    segment_files,
)

if TYPE_CHECKING:
    import pyarrow as pa

Taken = TypeVar("Taken")
_log = logging.getLogger(__name__)
# How long another job may take to commit to the same directory.
LOCK_WAIT_S = 600.0
# How long one may take to look whether it can.
LOCK_WAIT_AT_START_S = 1.0
_LOCK_RETRY_S = 0.1
# So many partitions are joined together: mostly they wait for the disk.
_JOINED_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One write of a DataFrame. Picklable.

    overwrite: the topics that are written are replaced, with all their partitions; other topics stay. counts: how many
    partitions the topics had when it began.
    """

    options: WriteOptions
    overwrite: bool
    name: str
    counts: Mapping[str, int]

    @classmethod
    def start(
        cls, options: WriteOptions, columns: Sequence[tuple[str, str]] | None = None, *, overwrite: bool = False
    ) -> "WriteJob":
        """Begin a job on the driver: the directory is made if it is missing. columns: names and Spark's types.

        ValueError: columns that cannot be written, a path that is no data directory's, fewer partitions than the topic
        has. InconsistentTopicIdError: topicId is not the topic's. LogLockedError: a broker runs there, or somebody else
        writes. OSError.
        """
        if columns is not None:
            check_columns(columns, options)
        _make_data_dir(options.path)
        _refuse_a_broker(options.path)
        job = cls(options, overwrite, uuid4().hex, _counts(_partitions_in(options.path)))
        job._check_topic_id()
        if options.topic is not None:
            job._check_counts([options.topic], job.counts)
        try:
            _make(job.directory / TASKS)
        except BaseException:
            remove_job(job.directory)
            raise
        return job

    @property
    def directory(self) -> Path:
        """Where all lies that is not committed."""
        return self.options.path / TEMPORARY / self.name

    def write(self, batches: Iterable["pa.RecordBatch"], task: int = 0) -> TaskFiles:
        """Write the rows of a task; any number of attempts may do so at once, none sees the other.

        Nothing of it counts until it is committed. ValueError, TypeError: a row that cannot be written. OSError.
        """
        sorter = RowSorter(self.options, self.counts, task)
        with TaskWriter(self.directory / TASKS, task, self.options) as writer:
            for batch in batches:
                for partition, records in sorter.portions(batch):
                    writer.add(partition, records)
            return writer.finish()

    def commit(self, tasks: Iterable[TaskFiles]) -> list[TopicPartition]:
        """Make the records of these tasks visible, all or, where something is raised, none; which partitions changed.

        Waits for other jobs that commit to the same directory. LogLockedError: a broker, or somebody who takes too
        long, writes there. CorruptRecordError: a task's file is not as it was left. ExceptionGroup: what had been
        changed could not be put back; it says whether the next job to commit, or `recover`, completes it. OSError,
        LogStateError of a log that could not be flushed before, and what `kafkalog.open` raises of one that is damaged.
        """
        done = sorted(tasks, key=lambda each: each.task)
        with _locked(self.options.path) as (session, lock):
            _complete_begun(self.options.path, lock)
            present = set(_partitions_in(self.options.path))
            joined = self._joined(done, present, was_clean=session.was_clean)
            partitions = [each.topic_partition for each in joined.coming]
            joined.run(lock)
            session.closed |= set(map(str, partitions))
        if not self.overwrite:
            self._warn_of_growth(_counts(present), _counts(partitions))
        return partitions

    def abort(self) -> None:
        """Remove all that the job has written. Tasks that still run fail."""
        if is_committed(self.directory):
            _log.warning("%s is committed, and is completed by the next job", self.directory)
        remove_job(self.directory)

    # --- on the driver

    def _check_topic_id(self) -> None:
        wanted, topic = self.options.topic_id, self.options.topic
        if wanted is None or self.overwrite:
            return
        for partition in _partitions_in(self.options.path):
            path = self.options.path / str(partition) / PARTITION_METADATA
            found = read_partition_metadata(path)
            if partition.topic == topic and found is not None and found.topic_id != wanted:
                raise InconsistentTopicIdError("the topic has another id", str(path), None, wanted, found.topic_id)

    def _check_counts(self, topics: Iterable[str], present: Mapping[str, int]) -> None:
        wanted = self.options.partitions
        if self.overwrite or wanted is None:
            return
        for topic in sorted(topics):
            if wanted < (found := present.get(topic, 0)):
                raise ValueError(f"option partitions is {wanted}: {topic} has {found}, and cannot have fewer again")

    def _warn_of_growth(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        for topic, found in before.items():
            if found < (wanted := after.get(topic, 0)):
                what = "keys go to other partitions than before"
                _log.warning("%s: %s had %s partitions and has %s: %s", self.options.path, topic, found, wanted, what)

    def _joined(self, tasks: list[TaskFiles], present: set[TopicPartition], *, was_clean: bool) -> Exchange:
        """What there is to exchange, made and on the disk."""
        shutil.rmtree(self.directory / NEW, ignore_errors=True)
        (self.directory / NEW).mkdir()
        sources = self._sources(tasks)
        wanted = sorted(sources.keys() | self._empty_ones(sources, present))
        topics = {each.topic for each in wanted}
        self._check_counts(topics, _counts(present))
        ids = {each: self.options.topic_id or topic_id_in(self.options.path, each) for each in topics}
        checkpoints = sessions.read_checkpoints(self.options.path)

        def joined(each: TopicPartition) -> JoinedLog:
            new, final = self.directory / NEW / str(each), self.options.path / str(each)
            before = None if self.overwrite or each not in present else Before(final, was_clean, checkpoints)
            joining = Joining(new, final, each, ids[each.topic], self.options.segment_bytes)
            return joining.join(sources.get(each, []), before)

        with ThreadPoolExecutor(_JOINED_AT_ONCE, "kafkalog join") as pool:
            coming = _in_order(pool.submit(joined, each) for each in wanted)
        going = sorted(each for each in present - set(wanted) if each.topic in topics) if self.overwrite else []
        return Exchange(self.options.path, self.directory, coming, [str(each) for each in going])

    def _sources(self, tasks: list[TaskFiles]) -> dict[TopicPartition, list[Source]]:
        """Each partition's files, in the order in which they are joined."""
        sources: dict[TopicPartition, list[Source]] = {}
        for task in tasks:
            for file in task.files:
                directory = self.directory / TASKS / task.name / str(file.partition)
                sources.setdefault(file.partition, []).append(Source(offset_file(directory, 0, LOG_SUFFIX), file))
        return sources

    def _empty_ones(self, written: Iterable[TopicPartition], present: set[TopicPartition]) -> set[TopicPartition]:
        """Partitions that the topics have besides those that rows went to."""
        topics = {each.topic for each in written}
        if self.options.topic is not None and (self.overwrite or self.options.partitions):
            topics.add(self.options.topic)
        every = {TopicPartition(topic, number) for topic in topics for number in range(self._count_of(topic))}
        return every if self.overwrite else every - present

    def _count_of(self, topic: str) -> int:
        return self.options.partitions or self.counts.get(topic, 1)


def _in_order(futures: Iterable[Future[JoinedLog]]) -> list[JoinedLog]:
    """The results; where one is an error, what has not begun does not begin."""
    waiting = list(futures)
    try:
        return [future.result() for future in waiting]
    finally:
        for future in waiting:
            future.cancel()


def recover(path: str | os.PathLike[str]) -> list[Path]:
    """Complete what jobs have committed to that data directory that died before all was in place; their directories.

    LogStateError: somebody has written since to what is to be replaced. ValueError: what a job has committed cannot be
    read. LogLockedError, OSError.
    """
    data_dir = Path(path)
    with _locked(data_dir) as (_, lock):
        return _complete_begun(data_dir, lock)


def _complete_begun(path: Path, lock: DirectoryLock) -> list[Path]:
    found = complete_begun(path, lock)
    for job in found:
        _log.warning("%s: completed; whoever committed it died before", job)
    return found


def _partitions_in(path: Path) -> list[TopicPartition]:
    named = (partition_of_dir(each.name) for each in path.iterdir() if each.is_dir())
    return sorted(each for each in named if each is not None)


def _counts(partitions: Iterable[TopicPartition]) -> dict[str, int]:
    """How many partitions each topic has."""
    counts: dict[str, int] = {}
    for topic, number in partitions:
        # A higher number is a directory's that stands alone, not that of so many partitions.
        if number < MOST_PARTITIONS:
            counts[topic] = max(counts.get(topic, 0), number + 1)
    return counts


def _make_data_dir(path: Path) -> None:
    """ValueError: a file is there, or a partition. OSError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        there = next(each for each in (path, *path.parents) if os.path.lexists(each))
        raise ValueError(f"option path is {str(path)!r}: a directory is wanted, and {there} is none") from None
    if segment_files(path):
        what = "the directory of a partition; give the data directory above it, whose partitions are to be written"
        raise ValueError(f"option path is {str(path)!r}: {what}")


def _refuse_a_broker(path: Path) -> None:
    """Now, not when all has been written. Where other jobs are under way it may be one of them that commits."""
    if not (path / TEMPORARY).exists():
        _retried(lambda: lock_data_dir(path), LOCK_WAIT_AT_START_S).release()


def _make(directory: Path) -> None:
    """Another job that ends may remove the directory above."""
    for _ in range(10):
        try:
            directory.mkdir(parents=True)
        except FileNotFoundError:
            continue
        return
    directory.mkdir(parents=True)


@contextmanager
def _locked(path: Path) -> Iterator[tuple[sessions.Session, DirectoryLock]]:
    """The data directory is ours. What comes into it has been closed in order, whatever goes wrong on the way."""
    lock = DirectoryLock.of_data_dir(path)
    session = _retried(lambda: sessions.begin(path, lock), LOCK_WAIT_S)
    try:
        yield session, lock
    finally:
        _end(session, lock)


def _end(session: sessions.Session, lock: DirectoryLock) -> None:
    """What was done stays done without the mark of a clean stop: logs are then recovered when they are opened."""
    try:
        sessions.end(session, lock, [], in_order=True)
    except OSError as error:
        what = "no mark of a clean stop could be left; logs are recovered when they are opened"
        _log.warning("%s: %s: %s", lock.directory, what, error)


def _retried(take: Callable[[], Taken], wait_s: float) -> Taken:
    """What is to be taken, when nobody else has it any more. LogLockedError: somebody still has it."""
    give_up = time.monotonic() + wait_s
    while True:
        try:
            return take()
        except LogLockedError:
            if time.monotonic() > give_up:
                raise
        time.sleep(_LOCK_RETRY_S)
