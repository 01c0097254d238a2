"""`LogManager`: a data directory, as a mapping of partition names to logs.

    /var/lib/kafka/     orders-0/  orders-1/  ...      manager["orders-0"] -> Log
    .lock  .kafka_cleanshutdown  *-checkpoint          see `data_dir.session`

    background thread:    flush    retention    checkpoints    expiry of producers    deletion of files

Source: core/.../LogManager.scala.
"""

import errno
import io
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, overload

from kafkalog.errors import KafkaLogError, LogStateError, NotALogError
from kafkalog.storage.checkpoint.partition_metadata_file import topic_id_in
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.data_dir.directory_lock import DirectoryLock, target_of_link
from kafkalog.storage.data_dir.session import Checkpoints, Session, read_checkpoints
from kafkalog.storage.fetch_data_info import IsolationLevel, IsolationName
from kafkalog.storage.file_names import CLUSTER_METADATA_TOPIC, TopicPartition, partition_of_dir, segment_files
from kafkalog.storage.files.durable import make_directory
from kafkalog.storage.log import Log
from kafkalog.storage.log_config import LogConfig, config_or_default
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.remote_path import local_path
from kafkalog.storage.scheduler import BackgroundScheduler, ScheduledTask, Scheduler
from kafkalog.storage.unified_log import Ending, Opening, Progress, WritableLog, warn_of_unclosed

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """The intervals of the background work, ms; the defaults are Kafka's.

    Attributes:
        flush_ms: Between looks for logs to flush, by their `flush_ms`.
        checkpoint_ms: Between writes of the checkpoints.
        retention_ms: Between looks for segments to delete.
        producers_ms: Between looks for producers to forget.
    """

    flush_ms: int = 3_000
    checkpoint_ms: int = 60_000
    retention_ms: int = 300_000
    producers_ms: int = 600_000


AnyLog = TypeVar("AnyLog", bound=Log)
Logs: TypeAlias = Callable[[], list[Any]]
# The prefix of topics that brokers create for themselves.
INTERNAL_TOPICS = "__"


class LogManager(Mapping[str, AnyLog]):
    """The partitions of a data directory by name (`topic-0`), ordered by topic and number.

    Partitions that are being deleted or moved are left out. In mode "a", so is the log of the cluster metadata, which
    only controllers may change.

    Args:
        log_dir: The data directory.
        mode: "r" opens each log when it is first accessed, and writes, creates and locks nothing. "a" creates the
            directory if it is missing, locks it as a broker does, loads all logs and recovers those that need it; a
            background thread flushes, checkpoints and applies retention until `close`.
        config: The settings of topics that are not in `topic_configs`. A data directory does not contain the settings
            of its topics, so retention is applied only to topics whose settings were given here or to `create`. Topics
            whose names begin with `__` are Kafka's own: retention is applied to them only if they are in
            `topic_configs`.
        topic_configs: The settings by topic.
        intervals: The intervals of the background work.
        clock: Returns the current time, ms.
        scheduler: Runs the background work; default: a thread of the manager's own.
        progress: Called for each log with the bytes recovered and the bytes to recover.

    Raises:
        FileNotFoundError, NotADirectoryError: `log_dir` is missing, or not a directory.
        LogLockedError: A broker or another writer has locked the directory.
        ValueError: `mode` is neither "r" nor "a".
        KafkaLogError, OSError: The first error of loading a log, as `kafkalog.open`.
    """

    _writer: "_Writer | None" = None

    @overload
    def __init__(
        self: "LogManager[WritableLog]",
        log_dir: str | os.PathLike[str],
        mode: Literal["a"],
        config: LogConfig | None = None,
        *,
        topic_configs: Mapping[str, LogConfig] | None = None,
        intervals: Intervals | None = None,
        clock: Clock = wall_clock_ms,
        scheduler: Scheduler | None = None,
        progress: Progress | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "LogManager[Log]",
        log_dir: str | os.PathLike[str],
        mode: Literal["r", "a"] = "r",
        config: LogConfig | None = None,
        *,
        topic_configs: Mapping[str, LogConfig] | None = None,
        intervals: Intervals | None = None,
        clock: Clock = wall_clock_ms,
        scheduler: Scheduler | None = None,
        progress: Progress | None = None,
    ) -> None: ...
    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        mode: Literal["r", "a"] = "r",
        config: LogConfig | None = None,
        *,
        topic_configs: Mapping[str, LogConfig] | None = None,
        intervals: Intervals | None = None,
        clock: Clock = wall_clock_ms,
        scheduler: Scheduler | None = None,
        progress: Progress | None = None,
    ) -> None:
        if mode not in ("r", "a"):
            raise ValueError(f"mode is {mode!r}; 'r' reads, 'a' reads and appends")
        self.directory = local_path(log_dir).absolute()
        if self.directory.is_dir() and segment_files(self.directory):
            raise NotALogError("a partition, not a data directory: give the directory that it is in", str(log_dir))
        self.config = config_or_default(config)
        self._config_given = config is not None
        self._topic_configs = {topic: config_or_default(each) for topic, each in (topic_configs or {}).items()}
        self._lock = threading.RLock()
        self._closed = False
        self._logs: dict[str, Any] = {}
        # Partitions whose creation failed, perhaps half-way: `create` may be called for them again.
        self._half_made: set[str] = set()
        if mode == "a":
            self._writer = _Writer(self.directory, scheduler, clock)
            try:
                self._load_all(self._writer, progress)
                self._writer.work(_weakly(self.logs), _weakly(self._retained), intervals or Intervals())
            except BaseException:
                # Abandon the logs as they are, and release the lock.
                with ExitStack() as last:
                    last.callback(self._writer.give_up)
                    for log in self._logs.values():
                        last.callback(log.abandon)
                raise
        elif not self.directory.is_dir():
            self.directory.stat()
            raise NotADirectoryError(errno.ENOTDIR, "not a data directory", str(log_dir))

    def logs(self) -> list[AnyLog]:
        """Return the logs that are open now."""
        with self._lock:
            return list(self._logs.values())

    def _retained(self) -> list[AnyLog]:
        """Return the logs whose settings are known. No records are deleted because of default settings."""
        with self._lock:
            return [log for name, log in list(self._logs.items()) if self._knows_settings_of(_partition(name).topic)]

    def _knows_settings_of(self, topic: str) -> bool:
        """Return whether the settings of a topic were given, so that retention applies."""
        return topic in self._topic_configs or (self._config_given and not topic.startswith(INTERNAL_TOPICS))

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings of a topic."""
        return self._topic_configs.get(topic, self.config)

    # --- the mapping

    def __getitem__(self, name: str) -> AnyLog:
        # Before the lock, too: in a forked child it may be held by a thread that does not exist there.
        self._check_open()
        with self._lock:
            self._check_open()
            log: AnyLog | None = self._logs.get(name)
            if log is None or log.closed:
                if not self._has(name):
                    raise KeyError(name)
                log = self._logs[name] = self._opened(name, log)
            return log

    def _opened(self, name: str, before: Any) -> Any:
        """Open a log, perhaps again after a caller has closed it."""
        config = self.config_of(_partition(name).topic)
        if self._writer is None:
            return ReadOnlyLog(self.directory / name, config)
        before.wait_until_closed()
        return self._writer.load(name, config, at_end=self._ended)

    def __iter__(self) -> Iterator[str]:
        self._check_open()
        return iter(self._names() if self._writer is None else sorted(self._logs, key=_partition))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        self._check_open()
        return isinstance(name, str) and self._has(name)

    def _has(self, name: str) -> bool:
        """Return whether there is a partition of this name, without a look at all others."""
        if self._writer is not None:
            return name in self._logs
        return partition_of_dir(name) is not None and (self.directory / name).is_dir()

    def _names(self) -> list[str]:
        """Return the names of the partitions in the directory, in order."""
        found = (each.name for each in self.directory.iterdir() if each.is_dir())
        return sorted((name for name in found if partition_of_dir(name)), key=_partition)

    def to_arrow_reader(
        self,
        topics: Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        isolation: IsolationLevel | IsolationName = IsolationLevel.LOG_END,
        threads: int = 1,
    ) -> "pa.RecordBatchReader":
        """Return a reader of the records of all partitions as Arrow batches, one partition after the other.

        Args:
            topics: The names of the topics; None: all of them.
            columns: The names of the columns, among those of `kafkalog.arrow.PARTITIONS_SCHEMA`; None: all of them.
            isolation: As `Log.records`.
            threads: As `Log.columns`.

        Raises:
            ImportError: pyarrow (the extra `arrow`) is not installed.
            KeyError: There is no such topic.
            ValueError: There is no such column.
        """
        from kafkalog.arrow import PARTITIONS_SCHEMA, partitions_reader, schema_of

        names = [(_partition(name), name) for name in self]
        if topics is not None:
            if unknown := {*topics} - {partition.topic for partition, _ in names}:
                raise KeyError(f"{self.directory} has no topic {', '.join(sorted(unknown))}")
            names = [each for each in names if each[0].topic in topics]
        partitions = (
            (topic, number, self[name].columns(isolation=isolation, threads=threads)) for (topic, number), name in names
        )
        return partitions_reader(partitions, schema_of(columns, PARTITIONS_SCHEMA))

    # --- creating and deleting, mode "a"

    def create(self, name: str, config: LogConfig | None = None) -> AnyLog:
        """Create an empty log in the directory `name` and return it.

        Its topic id is that of the topic's other partitions, or a new one.

        Args:
            name: The partition, `topic-0`.
            config: The settings of the topic from now on (see `config_of`): for this partition and those created later,
                not for logs that are open. They are not stored in the directory: pass them to the next manager as
                `topic_configs`.

        Raises:
            FileExistsError: The partition exists.
            ValueError: `name` is not the name of a partition.
            io.UnsupportedOperation: The mode is "r".
            LogStateError: The manager has been closed.
        """
        writer = self._writable("create a log in")
        with self._lock:
            self._check_open()
            partition = _partition(name)
            if name in self._logs or (name not in self._half_made and (self.directory / name).exists()):
                raise FileExistsError(errno.EEXIST, "the partition already exists", str(self.directory / name))
            if config is not None:
                self._topic_configs[partition.topic] = config_or_default(config)
            topic_id = topic_id_in(self.directory, partition.topic)
            config = self.config_of(partition.topic)
            self._half_made.add(name)
            self._logs[name] = writer.load(name, config, topic_id=topic_id, at_end=self._ended)
            self._half_made.discard(name)
            log: AnyLog = self._logs[name]
            return log

    def delete(self, name: str) -> None:
        """Close a log and delete its directory.

        Raises:
            KeyError: There is no such partition.
            io.UnsupportedOperation: The mode is "r".
        """
        self._writable("delete a log of")
        with self._lock:
            log: Any = self[name]
            log.delete()

    def _ended(self, log: Log, ending: Ending) -> None:
        """Note that a log was closed, abandoned or deleted, by the manager or by a caller.

        Called under the log's lock. Does not take the manager's lock: another thread may hold it and wait for the log.
        """
        if ending is Ending.DELETED:
            self._logs.pop(log.directory.name, None)
        if self._writer is not None:
            self._writer.note_end(log, ending)

    def _writable(self, what: str) -> "_Writer":
        """Return the writer.

        Raises:
            io.UnsupportedOperation: The mode is "r". `what` is the refused operation.
            LogStateError: The manager has been closed.
        """
        if self._writer is None:
            raise io.UnsupportedOperation(f"cannot {what} {self.directory}: it was opened for reading")
        self._check_open()
        return self._writer

    def _load_all(self, writer: "_Writer", progress: Progress | None) -> None:
        """Load all logs with the checkpoints that are there at the start."""
        known = read_checkpoints(self.directory)
        for name in self._names():
            if _partition(name).topic == CLUSTER_METADATA_TOPIC:
                continue
            config = self.config_of(_partition(name).topic)
            self._logs[name] = writer.load(name, config, at_end=self._ended, known=known, progress=progress)

    # --- closing

    def checkpoint(self) -> None:
        """Write the checkpoints now.

        Raises:
            OSError: A checkpoint was not written.
            LogStateError: The manager has been closed.
            io.UnsupportedOperation: The mode is "r".
        """
        writer = self._writable("checkpoint")
        with self._lock:
            self._check_open()
            writer.session.update_checkpoints(self.logs())

    def close(self) -> None:
        """Close all logs. In mode "a", leave the directory in the state of a clean broker shutdown.

        Closing again does nothing.

        Raises:
            ExceptionGroup: The errors, after everything has been closed. The directory is then recovered at the next
                opening.
        """
        if self._is_forked:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            logs = self.logs()
        if self._writer is not None:
            self._writer.close(logs)
        else:
            for log in logs:
                log.close()

    def __del__(self) -> None:
        """Release the lock of a manager that was not closed."""
        if self._writer is not None and self._writer.session.lock.is_held:
            self._writer.give_up(wait=False)
            warn_of_unclosed(self.directory)

    @property
    def _is_forked(self) -> bool:
        return self._writer is not None and self._writer.process != os.getpid()

    def _check_open(self) -> None:
        if self._is_forked:
            message = "opened by the parent of this forked process; open it again once the parent has closed it"
            raise LogStateError(message, str(self.directory))
        if self._closed:
            raise LogStateError("the data directory has been closed", str(self.directory))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LogManager {self.directory}, {'reading' if self._writer is None else 'writing'}>"


class _Writer:
    """The state of a writing manager: the session and the background thread."""

    def __init__(self, directory: Path, scheduler: Scheduler | None, clock: Clock) -> None:
        make_directory(directory)
        self.directory = directory
        # Report a damaged checkpoint before anything is changed.
        read_checkpoints(directory)
        self.process = os.getpid()
        # A partition may be a symbolic link: its target is locked, too.
        self._targets: dict[str, Session] = {}
        self._clock = clock
        self._scheduler = scheduler or BackgroundScheduler(f"kafkalog {directory.name}")
        self._owns_scheduler = scheduler is None
        self._tasks: list[ScheduledTask] = []
        self._closing = False
        self.session = Session(DirectoryLock(directory))

    def load(
        self,
        name: str,
        config: LogConfig,
        *,
        at_end: Callable[[Log, Ending], None],
        topic_id: str | None = None,
        known: Checkpoints | None = None,
        progress: Progress | None = None,
    ) -> WritableLog:
        """Load the log `name`.

        Args:
            name: The partition.
            config: The settings of its topic.
            at_end: Called when the log was closed, abandoned or deleted.
            topic_id: The topic id of a new log; None for an existing one.
            known: The checkpoints, if they have been read.
            progress: As `LogManager`.
        """
        # They may have a removed log of the same name. With thousands of logs they also take long to read.
        if topic_id is not None:
            known = Checkpoints({}, {}, {})
        known = known or read_checkpoints(self.directory)
        opening = Opening(
            had_clean_shutdown=topic_id is not None or self.session.is_whole(name),
            topic_id=topic_id,
            clock=self._clock,
            scheduler=self._scheduler,
            progress=progress,
            at_truncation=lambda log: self.session.update_checkpoints([log]),
            ensure_alone=lambda: self._ensure_alone(name),
            at_end=at_end,
        )
        try:
            if (target := target_of_link(self.directory / name)) is not None:
                self._targets[name] = Session(DirectoryLock(target.parent, target.name))
            return WritableLog.load_checkpointed(self.directory / name, config, opening, known)
        except BaseException:
            self._note_end(name, in_order=False)
            raise

    def _ensure_alone(self, name: str) -> None:
        """Check that the locks of a partition are still held."""
        self.session.lock.ensure_held()
        if name in self._targets:
            self._targets[name].lock.ensure_held()

    def _note_end(self, name: str, *, in_order: bool) -> None:
        """Record how a partition ended, and release the lock on the target of a link."""
        self.session.note_end(name, in_order=in_order)
        if (target := self._targets.pop(name, None)) is not None:
            target.end(target.lock.directory.name, in_order=in_order)

    def note_end(self, log: Log, ending: Ending) -> None:
        """Update session and checkpoints after a log was closed, abandoned or deleted."""
        self._note_end(log.directory.name, in_order=ending is not Ending.ABANDONED)
        if ending is Ending.DELETED:
            self.session.forget_partition(_partition(log.directory.name))
        elif ending is Ending.CLOSED and not self._closing:
            self.session.update_checkpoints([log])

    def work(self, logs: Logs, retained: Logs, intervals: Intervals) -> None:
        """Start the background work.

        Args:
            logs: Returns all open logs.
            retained: Returns those whose old segments may be deleted.
            intervals: The intervals of the work.
        """
        tasks: list[tuple[str, Logs, Callable[[WritableLog], object], int]] = [
            ("flush", logs, self._flush_if_due, intervals.flush_ms),
            ("retention", retained, WritableLog.delete_old_segments, intervals.retention_ms),
            ("expiry of producers", logs, WritableLog.remove_expired_producers, intervals.producers_ms),
        ]
        works: list[tuple[str, Callable[[], object], int]]
        works = [(name, partial(_each, those, name, task), period) for name, those, task, period in tasks]
        works.append(("checkpoint", lambda: self.session.update_checkpoints(logs()), intervals.checkpoint_ms))
        self._tasks = [self._scheduler.schedule(name, work, period, period) for name, work, period in works]

    def _flush_if_due(self, log: WritableLog) -> None:
        if self._clock() - log.last_flush_ms >= log.config.flush_ms:
            log.flush()

    def close(self, logs: list[Any]) -> None:
        """Close the logs and leave the directory. Files and lock are released even if an error is raised."""
        self._closing, errors = True, list[Exception]()
        in_order = False
        try:
            self._stop_work(wait=True)
            for close in [*(log.close for log in logs), lambda: self.session.update_checkpoints(logs)]:
                try:
                    close()
                except Exception as error:  # noqa: BLE001 - the other logs must still be closed
                    errors.append(error)
            in_order = not errors
        finally:
            with ExitStack() as last:
                last.callback(self.session.end, in_order=in_order)
                for log in logs:
                    last.callback(log.abandon)
        if errors:
            raise ExceptionGroup(f"{self.directory} was not closed cleanly", errors)

    def give_up(self, *, wait: bool = True) -> None:
        """Leave the directory as it is; without `wait`, do not wait for background work."""
        self._stop_work(wait=wait)
        self.session.end(in_order=False)

    def _stop_work(self, *, wait: bool) -> None:
        """Cancel the background tasks, and stop the scheduler if it is the manager's own."""
        for task in self._tasks:
            task.cancel()
        if self._owns_scheduler and isinstance(self._scheduler, BackgroundScheduler):
            self._scheduler.shutdown(run_pending=wait, wait=wait)


def _weakly(logs: Callable[[], list[Any]]) -> Logs:
    """Return `logs` without a strong reference to the manager; it returns no logs once the manager is gone."""
    method = weakref.WeakMethod(logs)
    return lambda: [] if (found := method()) is None else found()


def _each(logs: Callable[[], list[WritableLog]], name: str, task: Callable[[WritableLog], object]) -> None:
    """Run a task for each open log. Log its errors."""
    for log in logs():
        if log.closed:
            continue
        try:
            task(log)
        except (KafkaLogError, OSError):
            _log.exception("%s: %s failed", log.directory, name)


def _partition(name: str) -> TopicPartition:
    """Return the partition with this name.

    Raises:
        ValueError: It is not the name of a partition.
    """
    partition = partition_of_dir(name)
    if partition is None:
        raise ValueError(f"{name!r} is not the name of a partition: <topic>-<number>")
    return partition
