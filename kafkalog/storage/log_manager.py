"""`LogManager`: a data directory, as a mapping of partition names to logs.

    /var/lib/kafka/     orders-0/  orders-1/  ...      manager["orders-0"] -> Log
    .lock  .kafka_cleanshutdown  *-checkpoint          see `data_dir.session`

    one thread:   flush what is due     retention     checkpoints     producers that expired     files to be deleted

Source: core/.../LogManager.scala.
"""

import errno
import io
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypeVar, overload

from kafkalog.errors import KafkaLogError, LogStateError
from kafkalog.storage.checkpoint.partition_metadata_file import topic_id_in
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.data_dir import session as sessions
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.file_names import CLUSTER_METADATA_TOPIC, TopicPartition, partition_of_dir
from kafkalog.storage.files.durable import make_directory
from kafkalog.storage.local_log.owning import own
from kafkalog.storage.log import Log
from kafkalog.storage.log_config import LogConfig, config_or_default
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.scheduler import BackgroundScheduler, ScheduledTask, Scheduler
from kafkalog.storage.unified_log import Ending, Opening, Progress, WritableLog

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """How often the work in the background is done, ms; defaults are Kafka's."""

    flush_ms: int = 3_000
    checkpoint_ms: int = 60_000
    retention_ms: int = 300_000
    producers_ms: int = 600_000


AnyLog = TypeVar("AnyLog", bound=Log)
Logs: TypeAlias = Callable[[], list[Any]]
# How the names of topics begin that brokers keep for themselves.
INTERNAL_TOPICS = "__"


class LogManager(Mapping[str, AnyLog]):
    """The partitions of a data directory by name, `topic-0`, in the order of topics and numbers.

    mode "r": every log is opened when it is asked for; nothing is written, created or locked. "a": the directory is
    locked as a broker locks it, and created if it is missing; all logs are loaded, those recovered that need it; a
    thread flushes, checkpoints and applies retention until `close`. Partitions that are being deleted or moved are
    left out; in mode "a" so is the log of the cluster's metadata, which only its controllers may change.

    config: the settings of topics that topic_configs does not have. A broker's directory does not tell its topics'
    settings: retention is applied only to topics whose settings were given here or to `create`; to those whose names
    begin with `__`, which are Kafka's own, only by topic_configs. progress: called with the bytes recovered and to
    recover, log by log.

    NotADirectoryError, FileNotFoundError: no such directory. LogLockedError: a broker, or another writer, has it.
    Others: as `kafkalog.open`, for the first log that cannot be loaded.
    """

    @overload
    def __init__(
        self: "LogManager[Log]",
        log_dir: str | os.PathLike[str],
        mode: Literal["r"] = "r",
        config: LogConfig | None = None,
        *,
        topic_configs: Mapping[str, LogConfig] | None = None,
    ) -> None: ...
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
        mode: str,
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
        mode: str = "r",
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
        self.directory = Path(log_dir).absolute()
        self.config = config_or_default(config)
        self._config_given = config is not None
        self._topic_configs = {topic: config_or_default(each) for topic, each in (topic_configs or {}).items()}
        self._lock = threading.RLock()
        self._closed = False
        self._logs: dict[str, Any] = {}
        # Partitions that `create` has failed to make, perhaps half-way: it may be asked again.
        self._half_made: set[str] = set()
        self._writer: _Writer | None = None
        self._when_lost: weakref.finalize[..., Any] | None = None
        self._forked = False
        if mode == "a":
            self._writer = _Writer(self.directory, scheduler, clock)
            with self._giving_up_on_error(self._writer):
                self._load_all(self._writer, progress)
                self._writer.work(_weakly(self.logs), _weakly(self._retained), intervals or Intervals())
            self._when_lost = own(self, str(self.directory), self._writer.lose)
        elif not self.directory.is_dir():
            self.directory.stat()
            raise NotADirectoryError(errno.ENOTDIR, "a data directory is needed", str(log_dir))

    def logs(self) -> list[AnyLog]:
        """The logs that are open now."""
        with self._lock:
            return list(self._logs.values())

    def _retained(self) -> list[AnyLog]:
        """The logs whose settings are known: nobody's records are deleted by a default."""
        with self._lock:
            return [log for name, log in list(self._logs.items()) if self._knows_settings_of(_partition(name).topic)]

    def _knows_settings_of(self, topic: str) -> bool:
        return topic in self._topic_configs or (self._config_given and not topic.startswith(INTERNAL_TOPICS))

    def config_of(self, topic: str) -> LogConfig:
        """A topic's settings."""
        return self._topic_configs.get(topic, self.config)

    # --- the mapping

    def __getitem__(self, name: str) -> AnyLog:
        with self._lock:
            self._check_open()
            log: AnyLog | None = self._logs.get(name)
            if log is None or log.closed:
                if name not in (self._names() if self._writer is None else self._logs):
                    raise KeyError(name)
                log = self._logs[name] = self._opened(name, log)
            return log

    def _opened(self, name: str, before: Any) -> Any:
        """A log, perhaps again: whoever it was given to has closed it."""
        config = self.config_of(_partition(name).topic)
        if self._writer is None:
            return ReadOnlyLog(self.directory / name, config)
        before.wait_until_closed()
        return self._writer.load(name, config, at_end=self._ended)

    def __iter__(self) -> Iterator[str]:
        self._check_open()
        return iter(self._names() if self._writer is None else self._sorted(self._logs))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def _names(self) -> list[str]:
        found = (each.name for each in self.directory.iterdir() if each.is_dir())
        return self._sorted(name for name in found if _is_plain(name))

    @staticmethod
    def _sorted(names: Iterable[str]) -> list[str]:
        return sorted(names, key=_partition)

    # --- creating and deleting, mode "a"

    def create(self, name: str, config: LogConfig | None = None) -> AnyLog:
        """A new, empty log in the directory `name`; its topic id is that of the topic's other partitions, or a new one.

        config: the topic's from now on, as `config_of` says: of this partition and later ones, not of those that are
        open. It is not kept in the directory: the next manager needs it in topic_configs.
        FileExistsError: there is one. ValueError: not a partition's name. io.UnsupportedOperation: mode "r".
        """
        writer = self._writable("create a log in")
        with self._lock:
            self._check_open()
            partition = _partition(name)
            if name in self._logs or (name not in self._half_made and (self.directory / name).exists()):
                raise FileExistsError(errno.EEXIST, "there is such a partition", str(self.directory / name))
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
        """Close a log and delete its directory. KeyError: there is none. io.UnsupportedOperation: mode "r"."""
        self._writable("delete a log of")
        with self._lock:
            log: Any = self[name]
            log.delete()

    def _ended(self, log: Log, ending: Ending) -> None:
        """A log of the directory was closed, given up or deleted, by whomever.

        Under the log's lock: the manager's, which others may wait for the log with, is not taken.
        """
        if ending is Ending.DELETED:
            self._logs.pop(log.directory.name, None)
        if self._writer is not None:
            self._writer.note_end(log, ending)

    def _writable(self, what: str) -> "_Writer":
        if self._writer is None:
            raise io.UnsupportedOperation(f"cannot {what} {self.directory}: it was opened for reading")
        return self._writer

    def _load_all(self, writer: "_Writer", progress: Progress | None) -> None:
        for name in self._names():
            if _partition(name).topic == CLUSTER_METADATA_TOPIC:
                continue
            config = self.config_of(_partition(name).topic)
            known = writer.checkpoints_at_start
            self._logs[name] = writer.load(name, config, at_end=self._ended, known=known, progress=progress)

    @contextmanager
    def _giving_up_on_error(self, writer: "_Writer") -> Iterator[None]:
        """Where something is raised, give up the logs as they are, and the lock."""
        try:
            yield
        except BaseException:
            with ExitStack() as last:
                last.callback(writer.give_up)
                for log in self._logs.values():
                    last.callback(log.abandon)
            raise

    # --- closing

    def checkpoint(self) -> None:
        """Write the checkpoints now.

        OSError: one cannot be written. LogStateError: closed. io.UnsupportedOperation: mode "r".
        """
        writer = self._writable("checkpoint")
        with self._lock:
            self._check_open()
            writer.checkpoint(self.logs())

    def close(self) -> None:
        """Close all logs; in mode "a", leave the directory as a broker does that was shut down.

        Closing twice does nothing. What goes wrong is raised at the end, as an ExceptionGroup; the directory is then
        recovered when it is next opened.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            logs = self.logs()
        if self._writer is None:
            for log in logs:
                log.close()
            return
        try:
            self._writer.close(logs)
        except Exception:
            self._detach()
            raise
        # Last: should a signal end this, the lock is let go once the manager is forgotten.
        self._detach()

    def _detach(self) -> None:
        if self._when_lost is not None:
            self._when_lost.detach()

    def _disown(self) -> None:
        """In a forked child: as `owning.Owner`."""
        self._closed = self._forked = True
        self._lock = threading.RLock()

    def _check_open(self) -> None:
        if self._forked:
            message = "it belongs to the process that opened it: a forked child opens it anew, once it is closed"
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
    """What a manager needs to write: the lock, what checkpoints say, and a thread for the work in the background."""

    def __init__(self, directory: Path, scheduler: Scheduler | None, clock: Clock) -> None:
        make_directory(directory)
        self.directory = directory
        # A damaged checkpoint is told of before anything is changed.
        sessions.read_checkpoints(directory)
        self.lock = DirectoryLock.of_data_dir(directory)
        self._session = sessions.begin(directory, self.lock)
        # Of partitions that are links: the directories they lead to are locked, too.
        self._targets: dict[str, tuple[sessions.Session, DirectoryLock]] = {}
        self.checkpoints_at_start = sessions.read_checkpoints(directory)
        self._clock = clock
        self._scheduler = scheduler or BackgroundScheduler(f"kafkalog {directory.name}")
        self._owns_scheduler = scheduler is None
        self._tasks: list[ScheduledTask] = []
        self._closing = False

    def load(
        self,
        name: str,
        config: LogConfig,
        *,
        at_end: Callable[[Log, Ending], None],
        topic_id: str | None = None,
        known: sessions.Checkpoints | None = None,
        progress: Progress | None = None,
    ) -> WritableLog:
        """The log of that name; topic_id: a new one's. known: what checkpoints say, where they have been read."""
        partition, known = _partition(name), known or sessions.read_checkpoints(self.directory)
        opening = Opening(
            had_clean_shutdown=topic_id is not None or self._session.is_whole(name),
            log_start_offset=known.log_starts.get(partition, 0),
            recovery_point=known.recovery_points.get(partition, 0),
            topic_id=topic_id,
            clock=self._clock,
            scheduler=self._scheduler,
            progress=progress,
            at_truncation=lambda log: self.checkpoint([log]),
            ensure_alone=lambda: self._ensure_alone(name),
            at_end=at_end,
        )
        try:
            self._lock_target(name)
            log = WritableLog.load(self.directory / name, config, opening)
        except BaseException:
            self._session.note_end([self.directory / name], in_order=False)
            self._end_target(name, in_order=False)
            raise
        self._session.closed.discard(name)
        log.update_high_watermark(known.high_watermarks.get(partition, log.log_end_offset))
        return log

    def _lock_target(self, name: str) -> None:
        lock = DirectoryLock.of_target(self.directory / name)
        if lock is not None:
            self._targets[name] = sessions.begin(lock.directory.parent, lock), lock

    def _end_target(self, name: str, *, in_order: bool) -> None:
        target = self._targets.pop(name, None)
        if target is not None:
            session, lock = target
            sessions.end(session, lock, [lock.directory], in_order=in_order)

    def _ensure_alone(self, name: str) -> None:
        self.lock.ensure_held()
        if name in self._targets:
            self._targets[name][1].ensure_held()

    def note_end(self, log: Log, ending: Ending) -> None:
        """What the session, and the checkpoints, have of a log that was closed, given up or deleted."""
        self._end_target(log.directory.name, in_order=ending is not Ending.ABANDONED)
        self._session.note_end([log.directory], in_order=ending is not Ending.ABANDONED)
        if ending is Ending.DELETED:
            sessions.forget_partition(self.directory, self.lock, _partition(log.directory.name))
        elif ending is Ending.CLOSED and not self._closing:
            self.checkpoint([log])

    def work(self, logs: Logs, retained: Logs, intervals: Intervals) -> None:
        """Begin the work in the background. retained: those that old segments may be deleted of."""
        tasks: list[tuple[str, Logs, Callable[[WritableLog], object], int]] = [
            ("flush", logs, self._flush_if_due, intervals.flush_ms),
            ("retention", retained, WritableLog.delete_old_segments, intervals.retention_ms),
            ("expiry of producers", logs, WritableLog.remove_expired_producers, intervals.producers_ms),
        ]
        for name, those, task, period in tasks:
            self._every(period, name, partial(_each, those, name, task))
        self._every(intervals.checkpoint_ms, "checkpoint", lambda: self.checkpoint(logs()))

    def _every(self, period: int, name: str, task: Callable[[], object]) -> None:
        self._tasks.append(self._scheduler.schedule(name, task, period, period))

    def _flush_if_due(self, log: WritableLog) -> None:
        if self._clock() - log.last_flush_ms >= log.config.flush_ms:
            log.flush()

    def checkpoint(self, logs: list[Any]) -> None:
        """Write the offsets of all logs into the checkpoints."""
        sessions.update_checkpoints(self.directory, self.lock, logs)

    def close(self, logs: list[Any]) -> None:
        """Close the logs, and leave the directory. Whatever is raised, files and lock are let go."""
        self._closing, errors = True, list[Exception]()
        in_order = False
        try:
            self._stop_work(wait=True)
            for close in [*(log.close for log in logs), lambda: self.checkpoint(logs)]:
                try:
                    close()
                except Exception as error:  # noqa: BLE001 - the others must be closed all the same
                    errors.append(error)
            in_order = not errors
        finally:
            with ExitStack() as last:
                ended = [log.directory for log in logs]
                last.callback(sessions.end, self._session, self.lock, ended, in_order=in_order)
                for log in logs:
                    last.callback(log.abandon)
        if errors:
            raise ExceptionGroup(f"{self.directory} was not closed in order", errors)

    def give_up(self) -> None:
        """Leave the directory as it is."""
        self._stop_work(wait=True)
        sessions.end(self._session, self.lock, [], in_order=False)

    def lose(self) -> None:
        """The same, wherever garbage is collected."""
        self._stop_work(wait=False)
        for session, lock in list(self._targets.values()):
            sessions.lose(session, lock, lock.directory)
        sessions.lose(self._session, self.lock)

    def _stop_work(self, *, wait: bool) -> None:
        for task in self._tasks:
            task.cancel()
        if self._owns_scheduler and isinstance(self._scheduler, BackgroundScheduler):
            self._scheduler.shutdown(run_pending=wait, wait=wait)


def _weakly(logs: Callable[[], list[Any]]) -> Logs:
    """The same, which does not keep the manager: one that is forgotten has none."""
    method = weakref.WeakMethod(logs)
    return lambda: [] if (found := method()) is None else found()


def _each(logs: Callable[[], list[WritableLog]], name: str, task: Callable[[WritableLog], object]) -> None:
    for log in logs():
        if log.closed:
            continue
        try:
            task(log)
        except (KafkaLogError, OSError):
            _log.exception("%s: %s failed", log.directory, name)


def _is_plain(name: str) -> bool:
    """Whether a directory of that name is a partition in use: not one that is being deleted or moved."""
    return partition_of_dir(name) is not None


def _partition(name: str) -> TopicPartition:
    partition = partition_of_dir(name)
    if partition is None:
        raise ValueError(f"{name!r} is not the name of a partition: <topic>-<number>")
    return partition
