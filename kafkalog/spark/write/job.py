"""Rows of a DataFrame to partition directories in the format of a broker.

    driver      job = WriteJob.start(options, columns)        creates a directory below <path>/_kafkalog_tmp
    executors   job.write(batches, task) -> TaskFiles         writes to a directory for each attempt of a task
    driver      job.commit([TaskFiles, ...])                  joins the files and puts all in place
                job.abort()                                   or removes all

Only the files named in commit messages are joined. Files of attempts that failed, were killed or ran twice are removed
with the job's directory. The data directory is locked during a commit, as a broker locks it, and left in the state of a
clean shutdown.

Order: the records of a partition have the order of the rows within a task, and tasks follow by number, as when Spark
collects a DataFrame. So the order of sorted rows, and of rows read by offset, is kept.
"""

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from kafkalog.errors import InconsistentTopicIdError, LogLockedError
from kafkalog.spark.write.commit import NEW, TASKS, TEMPORARY, Exchange, complete_begun, is_committed, remove_job
from kafkalog.spark.write.merge import JoinedLog, join
from kafkalog.spark.write.options import MOST_PARTITIONS, WriteOptions, check_columns
from kafkalog.spark.write.row_records import RowSorter
from kafkalog.spark.write.task_files import PartitionFile, TaskFiles, TaskWriter
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata, topic_id_in
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.data_dir.session import Session, read_checkpoints
from kafkalog.storage.file_names import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    TopicPartition,
    offset_file,
    partition_of_dir,
    segment_files,
)
from kafkalog.storage.recovery.log_loader import Opening

if TYPE_CHECKING:
    import pyarrow as pa

Taken = TypeVar("Taken")
_log = logging.getLogger(__name__)
# The most time to wait while another job commits to the same directory.
LOCK_WAIT_S = 600.0
# The most time to wait for a lock when a job starts.
LOCK_WAIT_AT_START_S = 1.0
_LOCK_RETRY_S = 0.1
# The number of partitions joined at the same time: joining mostly waits for the disk.
_JOINED_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One write of a DataFrame. Picklable.

    Attributes:
        options: The options.
        overwrite: Whether to replace the written topics with all their partitions. Other topics stay.
        name: The name of the job's directory.
        counts: The number of partitions of each topic when the job began.
    """

    options: WriteOptions
    overwrite: bool
    name: str
    counts: Mapping[str, int]

    @classmethod
    def start(
        cls, options: WriteOptions, columns: Sequence[tuple[str, str]] | None = None, *, overwrite: bool = False
    ) -> "WriteJob":
        """Begin a job on the driver. Create the data directory if it is missing.

        Args:
            options: The options.
            columns: The columns' names and Spark types.
            overwrite: As `WriteJob.overwrite`.

        Raises:
            ValueError: A column has the wrong type or is missing, the path is not a data directory, or the topic has
                more partitions than the option says.
            InconsistentTopicIdError: The topic has another id than option topicId.
            LogLockedError: A broker or another writer uses the data directory.
            OSError: The directory was not read or created.
        """
        if columns is not None:
            check_columns(columns, options)
        _make_data_dir(options.path)
        _check_no_broker_runs(options.path)
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
        """The directory of all uncommitted files."""
        return self.options.path / TEMPORARY / self.name

    def write(self, batches: Iterable["pa.RecordBatch"], task: int = 0) -> TaskFiles:
        """Write the rows of an attempt of a task. Attempts may run at the same time; they are independent.

        Nothing is visible before `commit`.

        Raises:
            ValueError, TypeError: A row is invalid.
            OSError: A file was not written.
        """
        sorter = RowSorter(self.options, self.counts, task)
        with TaskWriter(self.directory / TASKS, task, self.options) as writer:
            for batch in batches:
                for partition, records in sorter.portions(batch):
                    writer.add(partition, records)
            return writer.finish()

    def commit(self, tasks: Iterable[TaskFiles]) -> list[TopicPartition]:
        """Put the records of these tasks in place and return the changed partitions.

        All partitions change, or on an error none. Waits while other jobs commit to the same directory.

        Raises:
            LogLockedError: A broker uses the directory, or another writer for too long.
            CorruptRecordError: A task's file has changed.
            ExceptionGroup: The changes were not undone after an error. The message says whether the next job to commit,
                or `recover`, completes them.
            LogStateError: An earlier flush of the log failed.
            OSError: A file was not read or written.
            KafkaLogError: As `kafkalog.open`, for a damaged log.
        """
        done = sorted(tasks, key=lambda each: each.task)
        with _locked(self.options.path) as session:
            complete_begun(self.options.path, session)
            present = set(_partitions_in(self.options.path))
            joined = self._joined(done, present, was_clean=session.was_clean)
            partitions = [each.topic_partition for each in joined.coming]
            joined.run(session)
            session.note_end(*map(str, partitions), in_order=True)
        if not self.overwrite:
            self._warn_of_growth(_counts(present), _counts(partitions))
        return partitions

    def abort(self) -> None:
        """Remove all files of the job. Tasks that still run will fail."""
        if is_committed(self.directory):
            _log.warning("%s is committed; the next job completes it", self.directory)
        remove_job(self.directory)

    # --- on the driver

    def _check_topic_id(self) -> None:
        """Raise `InconsistentTopicIdError` if a partition of the topic has another id than the option."""
        wanted, topic = self.options.topic_id, self.options.topic
        if wanted is None or self.overwrite:
            return
        for partition in _partitions_in(self.options.path):
            path = self.options.path / str(partition) / PARTITION_METADATA
            found = read_partition_metadata(path)
            if partition.topic == topic and found is not None and found.topic_id != wanted:
                raise InconsistentTopicIdError("the topic has another id", str(path), None, wanted, found.topic_id)

    def _check_counts(self, topics: Iterable[str], present: Mapping[str, int]) -> None:
        """Raise `ValueError` if a topic has more partitions than the option says."""
        wanted = self.options.partitions
        if self.overwrite or wanted is None:
            return
        for topic in sorted(topics):
            if wanted < (found := present.get(topic, 0)):
                raise ValueError(f"option partitions is {wanted}: {topic} already has {found}")

    def _warn_of_growth(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Log which topics have more partitions than before."""
        for topic, found in before.items():
            if found < (wanted := after.get(topic, 0)):
                what = "keys go to other partitions than before"
                _log.warning("%s: %s had %s partitions and has %s: %s", self.options.path, topic, found, wanted, what)

    def _joined(self, tasks: list[TaskFiles], present: set[TopicPartition], *, was_clean: bool) -> Exchange:
        """Join the files to new logs, flushed, and return the changes to make."""
        shutil.rmtree(self.directory / NEW, ignore_errors=True)
        (self.directory / NEW).mkdir()
        sources = self._sources(tasks)
        wanted = sorted(sources.keys() | self._empty_ones(sources, present))
        topics = {each.topic for each in wanted}
        self._check_counts(topics, _counts(present))
        ids = {each: self.options.topic_id or topic_id_in(self.options.path, each) for each in topics}
        known = read_checkpoints(self.options.path)

        def joined(each: TopicPartition) -> JoinedLog:
            new, final = self.directory / NEW / str(each), self.options.path / str(each)
            appends = each in present and not self.overwrite
            opening = Opening(
                had_clean_shutdown=was_clean or not appends,
                log_start_offset=known.log_starts.get(each, 0) if appends else 0,
                recovery_point=known.recovery_points.get(each, 0) if appends else 0,
                topic_id=ids[each.topic],
            )
            size = self.options.segment_bytes
            return join(each, sources.get(each, []), new, final, opening=opening, segment_bytes=size, appends=appends)

        with ThreadPoolExecutor(_JOINED_AT_ONCE, "kafkalog join") as pool:
            coming = list(pool.map(joined, wanted))
        going = sorted(each for each in present - set(wanted) if each.topic in topics) if self.overwrite else []
        return Exchange(self.options.path, self.directory, coming, [str(each) for each in going])

    def _sources(self, tasks: list[TaskFiles]) -> dict[TopicPartition, list[tuple[Path, PartitionFile]]]:
        """Return the files of each partition, in the order in which they are joined."""
        sources: dict[TopicPartition, list[tuple[Path, PartitionFile]]] = {}
        for task in tasks:
            for file in task.files:
                directory = self.directory / TASKS / task.name / str(file.partition)
                sources.setdefault(file.partition, []).append((offset_file(directory, 0, LOG_SUFFIX), file))
        return sources

    def _empty_ones(self, written: Iterable[TopicPartition], present: set[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions of the topics that no row goes to."""
        topics = {each.topic for each in written}
        if self.options.topic is not None and (self.overwrite or self.options.partitions):
            topics.add(self.options.topic)
        every = {
            TopicPartition(topic, number)
            for topic in topics
            for number in range(self.options.count_of(topic, self.counts))
        }
        return every if self.overwrite else every - present


def recover(path: str | os.PathLike[str]) -> list[Path]:
    """Complete the jobs in a data directory that died after the commit, and return their directories.

    Raises:
        LogStateError: A log to be replaced was written to since.
        ValueError: commit.json of a job is damaged.
        LogLockedError: A broker or another writer uses the directory.
        OSError: A file was not read or written.
    """
    data_dir = Path(path)
    with _locked(data_dir) as session:
        return complete_begun(data_dir, session)


def _partitions_in(path: Path) -> list[TopicPartition]:
    """Return the partitions in a data directory, in order."""
    named = (partition_of_dir(each.name) for each in path.iterdir() if each.is_dir())
    return sorted(each for each in named if each is not None)


def _counts(partitions: Iterable[TopicPartition]) -> dict[str, int]:
    """Return the number of partitions of each topic."""
    counts: dict[str, int] = {}
    for topic, number in partitions:
        # A higher number is that of a single directory, not of a topic with so many partitions.
        if number < MOST_PARTITIONS:
            counts[topic] = max(counts.get(topic, 0), number + 1)
    return counts


def _make_data_dir(path: Path) -> None:
    """Create the data directory.

    Raises:
        ValueError: The path is a file or a partition.
        OSError: It was not created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        there = next(each for each in (path, *path.parents) if os.path.lexists(each))
        raise ValueError(f"option path is {str(path)!r}: {there} is not a directory") from None
    if segment_files(path):
        what = "this is a partition; use the data directory that contains it"
        raise ValueError(f"option path is {str(path)!r}: {what}")


def _check_no_broker_runs(path: Path) -> None:
    """Check the lock at the start of a job, not only after all rows are written.

    If other jobs are active, one of them may be committing, so the lock is not checked.
    """
    if not (path / TEMPORARY).exists():
        _retried(lambda: DirectoryLock(path).acquire(), LOCK_WAIT_AT_START_S).release()


def _make(directory: Path) -> None:
    """Create a directory, again if another job removes its empty parent in between."""
    for _ in range(10):
        with suppress(FileNotFoundError):
            directory.mkdir(parents=True)
            return
    directory.mkdir(parents=True)


@contextmanager
def _locked(path: Path) -> Iterator[Session]:
    """Lock the data directory for a session, whose partitions count as cleanly closed even after an error."""
    session = _retried(lambda: Session(DirectoryLock(path)), LOCK_WAIT_S)
    try:
        yield session
    finally:
        try:
            session.end(in_order=True)
        except OSError as error:
            what = "the clean shutdown file was not written; logs are recovered when they are next opened"
            _log.warning("%s: %s: %s", session.data_dir, what, error)


def _retried(take: Callable[[], Taken], wait_s: float) -> Taken:
    """Call `take` until it gets the lock.

    Raises:
        LogLockedError: The lock is still taken after `wait_s` seconds.
    """
    give_up = time.monotonic() + wait_s
    while True:
        try:
            return take()
        except LogLockedError:
            if time.monotonic() > give_up:
                raise
        time.sleep(_LOCK_RETRY_S)
