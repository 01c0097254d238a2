"""Opens a partition directory for writing: creates it if it is missing, and recovers it after an unclean shutdown.

    directory, settings, checkpoints -> segments, producers, leader epochs, partition.metadata -> LogState

Source: `UnifiedLog.create` in storage/.../internals/log/UnifiedLog.java.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalog.record.decompress import DEFAULT_LIMIT
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata, write_partition_metadata
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
    parse_partition_dir,
    real_path,
)
from kafkalog.storage.files.durable import make_directory
from kafkalog.storage.local_log.local_log import LocalLog
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.log_config import LogConfig, config_or_default
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.recovery.log_loader import LoadRequest, load_log
from kafkalog.storage.scheduler import BackgroundScheduler, Scheduler
from kafkalog.storage.segment.replace_segments import SegmentHome

if TYPE_CHECKING:
    from kafkalog.storage.log import Log

Progress = Callable[[int, int], None]


class Ending(Enum):
    """Why a log was closed: regularly, abandoned after a failure, or deleted."""

    CLOSED = "closed"
    ABANDONED = "abandoned"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Opening:
    """How to open a partition directory.

    Attributes:
        had_clean_shutdown: Whether the last writer closed the log; else segments from the recovery point on are
            recovered.
        log_start_offset: The log start in the checkpoint of the data directory.
        recovery_point: The recovery point in the checkpoint of the data directory.
        topic_id: The expected topic id, which is written if partition.metadata is missing; None accepts any.
        clock: Returns the time, ms.
        scheduler: Runs background tasks; None gives the log its own.
        progress: Called during recovery with the number of bytes done and the total.
        decompression_limit: The number of bytes that one batch may decompress to.
        at_truncation: Called after log start or recovery point have decreased, before records are cut off. It must
            write them to the checkpoints.
        ensure_alone: Raises LogLockedError if the lock no longer excludes other writers.
        at_end: Called once, when the log has been closed, abandoned or deleted. A log that is garbage-collected without
            being closed is abandoned, perhaps in the middle of anything: then it must not wait for another thread.
    """

    had_clean_shutdown: bool = False
    log_start_offset: int = 0
    recovery_point: int = 0
    topic_id: str | None = None
    clock: Clock = wall_clock_ms
    scheduler: Scheduler | None = None
    progress: Progress | None = None
    decompression_limit: int = DEFAULT_LIMIT
    at_truncation: Callable[["Log"], None] = field(default=lambda _: None)
    ensure_alone: Callable[[], None] = field(default=lambda: None)
    at_end: Callable[["Log", Ending], None] = field(default=lambda *_: None)


class Loaded(NamedTuple):
    """A log loaded from its directory; topic_id is None if partition.metadata has none."""

    state: LogState
    log_start_offset: int
    topic_id: str | None


def load(directory: str | os.PathLike[str], config: LogConfig | None, opening: Opening, on_error: ExitStack) -> Loaded:
    """Load the log in a directory.

    Args:
        directory: The partition directory.
        config: The settings; None = the defaults.
        opening: How to open it.
        on_error: Receives the callbacks that release the log if the caller fails later.

    Raises:
        Exception: The errors of `WritableLog.load`.
    """
    path = Path(directory).absolute()
    config, partition = config_or_default(config), _partition_of(path)
    make_directory(path)
    scheduler = opening.scheduler or BackgroundScheduler(f"kafkalog {path.name}")
    if opening.scheduler is None:
        on_error.callback(scheduler.shutdown)
    home = SegmentHome(
        directory=path,
        config=config,
        scheduler=scheduler,
        clock=opening.clock,
        decompression_limit=opening.decompression_limit,
    )
    return _loaded(home, partition, opening, on_error)


def _loaded(home: SegmentHome, partition: TopicPartition, opening: Opening, on_error: ExitStack) -> Loaded:
    producers = ProducerStateManager(home.directory, partition, clock=opening.clock)
    epochs = LeaderEpochCache(home.directory / LEADER_EPOCH_CHECKPOINT, scheduler=home.scheduler)
    loaded = load_log(
        LoadRequest(
            **vars(home),
            had_clean_shutdown=opening.had_clean_shutdown,
            log_start_offset_checkpoint=opening.log_start_offset,
            recovery_point_checkpoint=opening.recovery_point,
            producer_state=producers,
            leader_epochs=epochs,
            progress=opening.progress,
        )
    )
    local = LocalLog(loaded.segments, loaded.next_offset, loaded.recovery_point, home)
    on_error.callback(local.segments.release)
    topic_id = _topic_id(home.directory / PARTITION_METADATA, opening.topic_id)
    return Loaded(LogState(local, producers, epochs, opening.ensure_alone), loaded.log_start_offset, topic_id)


def _topic_id(path: Path, wanted: str | None) -> str | None:
    """Return the topic id of partition.metadata, after writing or checking the wanted one."""
    found = read_partition_metadata(path)
    if wanted is not None:
        write_partition_metadata(path, wanted)
    return wanted if found is None else found.topic_id


def _partition_of(path: Path) -> TopicPartition:
    name = real_path(path).name
    partition = parse_partition_dir(name)
    if partition is None:
        raise ValueError(f"{name!r} is not the name of a partition: <topic>-<number>")
    return partition
