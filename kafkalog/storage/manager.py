"""`LogManager`: a data directory, as a mapping of partition names to logs.

    /var/lib/kafka/     orders-0/  orders-1/  ...      manager["orders-0"] -> Log
    .lock  .kafka_cleanshutdown  *-checkpoint          see `data_dir_session`

    one thread:   flush what is due     retention     checkpoints     producers that expired     files to be deleted

Source: core/.../LogManager.scala.
"""

import errno
import io
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypeVar, overload

from kafkalog.errors import KafkaLogError, LogStateError
from kafkalog.storage import data_dir_session as sessions
from kafkalog.storage.atomic import make_directory
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.config import LogConfig, config_or_default
from kafkalog.storage.lock import lock_data_dir
from kafkalog.storage.log import Log
from kafkalog.storage.partition_metadata import topic_id_in
from kafkalog.storage.paths import CLUSTER_METADATA_TOPIC, TopicPartition, partition_of_dir
from kafkalog.storage.scheduler import BackgroundScheduler, Scheduler
from kafkalog.storage.writable_log import Ending, Opening, Progress, WritableLog

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
        self._writer: _Writer | None = None
        if mode == "a":
            self._writer = _Writer(self.directory, scheduler, clock)
            with self._writer.giving_up_on_error():
                self._load_all(self._writer, progress)
                self._writer.work(self.logs, self._retained, intervals or Intervals())
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
            return [log for name, log in self._logs.items() if self._knows_settings_of(_partition(name).topic)]

    def _knows_settings_of(self, topic: str) -> bool:
        return topic in self._topic_configs or (self._config_given and not topic.startswith(INTERNAL_TOPICS))

    def config_of(self, topic: str) -> LogConfig:
        """A topic's settings."""
        return self._topic_configs.get(topic, self.config)

    # --- the mapping

    def __getitem__(self, name: str) -> AnyLog:
        with self._lock:
            self._check_open()
            if name not in self._logs:
                if self._writer is not None or name not in self._names():
                    raise KeyError(name)
                self._logs[name] = Log(self.directory / name, self.config_of(_partition(name).topic))
            log: AnyLog = self._logs[name]
            return log

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
            if (self.directory / name).exists():
                raise FileExistsError(errno.EEXIST, "there is such a partition", str(self.directory / name))
            if config is not None:
                self._topic_configs[partition.topic] = config_or_default(config)
            topic_id = topic_id_in(self.directory, partition.topic)
            self._logs[name] = writer.load(name, self.config_of(partition.topic), topic_id)
            log: AnyLog = self._logs[name]
            return log

    def delete(self, name: str) -> None:
        """Close a log and delete its directory. KeyError: there is none. io.UnsupportedOperation: mode "r"."""
        writer = self._writable("delete a log of")
        with self._lock:
            self._check_open()
            log = self._logs[name]
            log.delete()
            del self._logs[name]
            sessions.forget_partition(self.directory, writer.lock, _partition(name))

    def _writable(self, what: str) -> "_Writer":
        if self._writer is None:
            raise io.UnsupportedOperation(f"cannot {what} {self.directory}: it was opened for reading")
        return self._writer

    def _load_all(self, writer: "_Writer", progress: Progress | None) -> None:
        for name in self._names():
            if _partition(name).topic == CLUSTER_METADATA_TOPIC:
                continue
            self._logs[name] = writer.load(name, self.config_of(_partition(name).topic), None, progress)

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
        else:
            self._writer.close(logs)

    def _check_open(self) -> None:
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
        self._session, self.lock = sessions.begin(directory, lambda: lock_data_dir(directory))
        self._checkpoints = sessions.read_checkpoints(directory)
        self._clock = clock
        self._scheduler = scheduler or BackgroundScheduler(f"kafkalog {directory.name}")
        self._owns_scheduler = scheduler is None
        self._loaded: list[WritableLog] = []
        # Logs that were given up are not whole, whoever did it.
        self._given_up = False

    @contextmanager
    def giving_up_on_error(self) -> Iterator[None]:
        """Where something is raised, give up the logs as they are, and the lock."""
        try:
            yield
        except BaseException:
            for log in self._loaded:
                log.abandon()
            self._end(in_order=False)
            raise

    def load(self, name: str, config: LogConfig, topic_id: str | None, progress: Progress | None = None) -> WritableLog:
        partition, known = _partition(name), self._checkpoints
        opening = Opening(
            had_clean_shutdown=self._session.was_clean or topic_id is not None,
            log_start_offset=known.log_starts.get(partition, 0),
            recovery_point=known.recovery_points.get(partition, 0),
            topic_id=topic_id,
            clock=self._clock,
            scheduler=self._scheduler,
            progress=progress,
            at_truncation=lambda log: self.checkpoint([log]),
            at_end=self._at_end,
        )
        log = WritableLog.load(self.directory / name, config, opening)
        self._loaded.append(log)
        log.update_high_watermark(known.high_watermarks.get(partition, log.log_end_offset))
        return log

    def _at_end(self, _: WritableLog, ending: Ending) -> None:
        self._given_up |= ending is Ending.ABANDONED

    def work(self, logs: Logs, retained: Logs, intervals: Intervals) -> None:
        """Begin the work in the background. retained: those that old segments may be deleted of."""
        tasks: list[tuple[str, Logs, Callable[[WritableLog], object], int]] = [
            ("flush", logs, self._flush_if_due, intervals.flush_ms),
            ("retention", retained, WritableLog.delete_old_segments, intervals.retention_ms),
            ("expiry of producers", logs, WritableLog.remove_expired_producers, intervals.producers_ms),
        ]
        for name, those, task, period in tasks:
            self._scheduler.schedule(name, partial(_each, those, name, task), period, period)
        period = intervals.checkpoint_ms
        self._scheduler.schedule("checkpoint", lambda: self.checkpoint(logs()), period, period)

    def _flush_if_due(self, log: WritableLog) -> None:
        if self._clock() - log.last_flush_ms >= log.config.flush_ms:
            log.flush()

    def checkpoint(self, logs: list[Any]) -> None:
        """Write the offsets of all logs into the checkpoints."""
        sessions.update_checkpoints(self.directory, self.lock, logs)

    def close(self, logs: list[Any]) -> None:
        if self._owns_scheduler:
            self._scheduler.shutdown()
        errors: list[Exception] = []
        for close in [*(log.close for log in logs), lambda: self.checkpoint(logs)]:
            try:
                close()
            except (KafkaLogError, OSError, ValueError) as error:  # the others must be closed all the same
                errors.append(error)
        self._end(in_order=not errors and not self._given_up, closed=[log.directory for log in logs])
        if errors:
            raise ExceptionGroup(f"{self.directory} was not closed in order", errors)

    def _end(self, *, in_order: bool, closed: Iterable[Path] = ()) -> None:
        if self._owns_scheduler:
            self._scheduler.shutdown()
        sessions.end(self._session, self.lock, closed, in_order=in_order)


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
