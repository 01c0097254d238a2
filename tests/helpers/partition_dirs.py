"""Partition directories as a writer may leave them, loaded."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafkalog import ByteBufferMessageSet, FileMessageSet, Record
from kafkalog.record.control import ControlRecordType
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.file_names import INDEX_SUFFIX, LEADER_EPOCH_CHECKPOINT, LOG_SUFFIX, TopicPartition, offset_file
from kafkalog.storage.local_log.local_log import LocalLog
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.producer.producer_snapshot import read_snapshot
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.recovery.log_loader import Opening, load_log
from kafkalog.storage.scheduler import Scheduler
from kafkalog.storage.segment.replace_segments import SegmentHome
from tests.helpers.scheduling import ImmediateScheduler

NOW = 1_800_000_000_000
# Small indexes, and an entry for nearly every batch, so that a few kilobytes show what gigabytes would.
CONFIG = LogConfig(segment_bytes=1 << 20, segment_index_bytes=1200, index_interval_bytes=200)


@dataclass
class Opened:
    """A log that was loaded, and what the loading filled."""

    log: LocalLog
    log_start_offset: int
    producer_state: ProducerStateManager
    leader_epochs: LeaderEpochCache
    progress: list[tuple[int, int]]

    @property
    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments.values]

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def epochs(self) -> list[tuple[int, int]]:
        return [(entry.epoch, entry.start_offset) for entry in self.leader_epochs.entries]

    def records(self) -> list[tuple[int, bytes | None]]:
        """Return (offset, value) of all records."""
        return [(record.offset, record.value) for segment in self.log.segments.values for record in segment.log]


@dataclass(frozen=True)
class Stop:
    """How the last writer stopped, what the checkpoints of the data directory say, and what is given to the loading."""

    clean: bool = False
    log_start: int = 0
    recovery_point: int = 0
    config: LogConfig = CONFIG
    now: int = NOW
    scheduler: Scheduler = field(default_factory=ImmediateScheduler)


@contextmanager
def loaded(directory: Path, stop: Stop = Stop(), **changes: Any) -> Iterator[Opened]:
    """Load the directory; release its files as they are at the end, as a crash would."""
    stop = replace(stop, **changes)
    state = producer_state(directory)
    epochs = LeaderEpochCache(directory / LEADER_EPOCH_CHECKPOINT)
    progress: list[tuple[int, int]] = []
    home = SegmentHome(directory=directory, config=stop.config, scheduler=stop.scheduler, clock=lambda: stop.now)
    opening = Opening(
        had_clean_shutdown=stop.clean,
        log_start_offset=stop.log_start,
        recovery_point=stop.recovery_point,
        progress=lambda done, todo: progress.append((done, todo)),
    )
    log, log_start_offset = load_log(home, opening, state, epochs)
    try:
        yield Opened(log, log_start_offset, state, epochs, progress)
    finally:
        for segment in log.segments.values:
            segment.release()


def producer_state(directory: Path) -> ProducerStateManager:
    return ProducerStateManager(directory, TopicPartition("topic", 0))


def load(directory: Path, stop: Stop = Stop(), **changes: Any) -> None:
    """Load the directory and release it."""
    with loaded(directory, stop, **changes):
        pass


def closed(directory: Path, stop: Stop = Stop(), **changes: Any) -> None:
    """Load the directory and close it, as a clean stop does."""
    with loaded(directory, stop, **changes) as opened:
        for segment in opened.log.segments.values:
            segment.close()


def batch(base_offset: int, values: Iterable[bytes | None] = (b"v",), **settings: Any) -> bytes:
    """Return a v2 batch of records without keys; timestamps are NOW + offset."""
    records = [Record(value, None, timestamp=NOW + base_offset + i) for i, value in enumerate(values)]
    settings.setdefault("partition_leader_epoch", 0)
    return bytes(ByteBufferMessageSet.from_records(records, base_offset=base_offset, **settings).buffer)


def marker(
    offset: int, producer_id: int, kind: ControlRecordType, *, epoch: int = 0, coordinator_epoch: int = 0
) -> bytes:
    """Return the marker that ends a transaction."""
    record = Record(struct.pack(">hi", 0, coordinator_epoch), struct.pack(">hh", 0, kind), timestamp=NOW + offset)
    return bytes(
        ByteBufferMessageSet.from_records(
            [record],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            is_transactional=True,
            is_control=True,
            partition_leader_epoch=0,
        ).buffer
    )


def numbered(first: int, count: int, size: int = 100, **settings: Any) -> list[bytes]:
    """Return batches of one record each, `size` bytes of value."""
    return [batch(offset, [b"%d" % offset + b"x" * size], **settings) for offset in range(first, first + count)]


def write_segments(directory: Path, segments: dict[int, Sequence[bytes]]) -> Path:
    """Write segments of these batches by base offset, with empty indexes."""
    directory.mkdir(parents=True, exist_ok=True)
    for base_offset, batches in segments.items():
        offset_file(directory, base_offset, LOG_SUFFIX).write_bytes(b"".join(batches))
        offset_file(directory, base_offset, INDEX_SUFFIX).touch()
    return directory


def log_of(directory: Path, segments: int = 3, per_segment: int = 10, **settings: Any) -> Path:
    """Write a log with all its files, closed: `segments` of `per_segment` batches of one record."""
    write_segments(
        directory,
        {i * per_segment: numbered(i * per_segment, per_segment, **settings) for i in range(segments)},
    )
    closed(directory)
    return directory


def log_file(directory: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> Path:
    return offset_file(directory, base_offset, suffix)


def names(directory: Path, ending: str = "") -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.endswith(ending))


def snapshot_offsets(directory: Path) -> list[int]:
    return [int(name.partition(".")[0]) for name in names(directory, ".snapshot")]


def snapshot_producers(directory: Path, offset: int) -> list[int]:
    return sorted(entry.producer_id for entry in read_snapshot(offset_file(directory, offset, ".snapshot")))


def bytes_of(directory: Path, *endings: str) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.name.endswith(endings or ("",))
    }


def change(path: Path, how: Callable[[bytes], bytes]) -> None:
    path.write_bytes(how(path.read_bytes()))


def copy_of(directory: Path, to: Path) -> Path:
    """Copy with file times, which are part of the data."""
    shutil.copytree(directory, to)
    return to


def offsets_in(path: Path) -> list[int]:
    with FileMessageSet(path) as log:
        return [record.offset for record in log]
