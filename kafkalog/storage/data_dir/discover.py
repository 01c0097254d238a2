"""Classify a path: a data directory, the directory of one partition, or a single log file.

    DataDir        /var/lib/kafka            partitions below it, checkpoints, meta.properties
    PartitionDir   /var/lib/kafka/orders-0   segments in it
    LogFile        ..../00000000000000000000.log, or a copy of one under any name

<topic>-<partition>.<32 hex digits>-delete, -stray, -future: deleted and to be removed, unknown to the cluster, or being
moved here from another data directory.
"""

import os
import re
import stat
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from kafkalog.errors import NotALogError
from kafkalog.record.layout import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_AT, RECORD_OVERHEAD_V0, SIZE_AT
from kafkalog.storage.file_names import (
    TopicPartition,
    parse_partition_dir,
    real_path,
    segment_base_offset,
    segment_files,
)
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.remote_path import RemotePath, to_path

META_PROPERTIES = "meta.properties"
# The first bytes of every log entry: offset int64 | size int32 | crc or epoch | magic int8.
FIRST_BYTES = HEADER_SIZE_UP_TO_MAGIC
_MARK = re.compile(r"\.[0-9a-f]{32}-(delete|future|stray)$")
# How many subdirectories of a wrong path are searched for a log.
_LOOKED_AT = 100
_OTHER_FILES = {
    ".index": "an offset index",
    ".timeindex": "a time index",
    ".txnindex": "a transaction index",
    ".snapshot": "a snapshot of producer state",
}


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of log entries."""

    path: Path

    @property
    def base_offset(self) -> int | None:
        """The base offset in the file name; None if it is not named like a segment."""
        return segment_base_offset(self.path.name)

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The partition of the segment, from the names of the file and its directory; None if these do not tell."""
        return None if self.base_offset is None else parse_partition_dir(real_path(self.path).parent.name)


@dataclass(frozen=True, slots=True)
class PartitionDir:
    """A partition's directory.

    Attributes:
        path: The directory.
        topic_partition: The partition; None if the directory is not named like one.
        mark: "delete", "future", "stray" or None.
    """

    path: Path
    topic_partition: TopicPartition | None
    mark: str | None = None

    @property
    def name(self) -> str:
        """`topic-partition`, or the name of the directory."""
        return real_path(self.path).name if self.topic_partition is None else str(self.topic_partition)


@dataclass(frozen=True, slots=True)
class DataDir:
    """A data directory (one of a broker's `log.dirs`) and its partitions, sorted by topic, then number."""

    path: Path
    partitions: tuple[PartitionDir, ...]


def discover(path: str | os.PathLike[str]) -> DataDir | PartitionDir | LogFile:
    """Classify `path`, reading no more than names and the first bytes of a file.

    Raises:
        OSError: The path does not exist or is not accessible.
        NotALogError: The path contains no Kafka log.
    """
    path = to_path(path)
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return _directory(path)
    if not stat.S_ISREG(mode):
        raise NotALogError("neither a directory nor a regular file", str(path))
    _check_file(path)
    return LogFile(path)


def log_bytes(place: DataDir | PartitionDir | LogFile) -> int:
    """Return the size of all log files in a place. Unreadable files count as 0 bytes."""
    if isinstance(place, DataDir):
        return sum(map(log_bytes, place.partitions))
    try:
        files = [place.path] if isinstance(place, LogFile) else [path for _, path in segment_files(place.path)]
        return sum(path.stat().st_size for path in files)
    except OSError:
        return 0


def log_below(path: str | os.PathLike[str]) -> Path | None:
    """Return a data directory among the first subdirectories of a path that is not one; None if there is none."""
    with suppress(OSError):
        for each in sorted(Path(path).iterdir())[:_LOOKED_AT]:
            with suppress(NotALogError, OSError):
                if each.is_dir() and isinstance(discover(each), DataDir):
                    return each
    return None


def _directory(path: Path) -> DataDir | PartitionDir:
    if _has_segments(path):
        return partition_dir(path)
    partitions = _partitions(path)
    # A data directory may be named like a partition, such as kafka-1; hence its content is checked before its name.
    if (path / META_PROPERTIES).exists() or any(map(_holds_segments, partitions)):
        return DataDir(path, tuple(partitions))
    if parse_partition_dir(real_path(path).name) is not None:
        return partition_dir(path)
    what = "no Kafka log: neither segments (<20 digits>.log) in it nor partitions (<topic>-<number>) below it"
    raise NotALogError(f"{what}; log.dirs in server.properties names a broker's data directories", str(path))


def _partitions(path: Path) -> list[PartitionDir]:
    found = []
    if isinstance(path, RemotePath):
        named = (each for each in path.iterdir() if parse_partition_dir(each.name) is not None)
        found = [_named(path / each.name, each.name) for each in named if each.is_dir()]
    else:
        with os.scandir(path) as entries:
            for each in entries:
                if parse_partition_dir(each.name) is not None and _is_directory(each):
                    # As for a broker, a link has its own name, not that of its target.
                    found.append(_named(path / each.name, each.name))
    return sorted(found, key=lambda each: (each.topic_partition or ("", 0), each.mark or "", each.path.name))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a directory. If the check fails, return True: opening the entry raises the error."""
    try:
        return entry.is_dir()
    except OSError:
        return True


def _holds_segments(partition: PartitionDir) -> bool:
    try:
        return _has_segments(partition.path)
    except OSError:
        return False


def _has_segments(directory: Path) -> bool:
    return any(segment_base_offset(each.name) is not None and not each.is_dir() for each in directory.iterdir())


def partition_dir(path: Path) -> PartitionDir:
    """Return the directory at `path`, classified by its name alone."""
    return _named(path, real_path(path).name)


def _named(path: Path, name: str) -> PartitionDir:
    mark = _MARK.search(name)
    return PartitionDir(path, parse_partition_dir(name), mark[1] if mark else None)


def _check_file(path: Path) -> None:
    """Raise NotALogError if the file is another of Kafka's files, or no Kafka file.

    A file named like a segment always passes. In others, an entry with one invalid field is damage, which readers
    report; if both size and magic are invalid, the file is not a log.
    """
    if segment_base_offset(path.name) is not None:
        return
    if path.suffix in _OTHER_FILES:
        raise NotALogError(f"{_OTHER_FILES[path.suffix]}, not a log", str(path))
    with closing(open_source(path)) as file:
        size = file.size
        first = file.view(0, min(FIRST_BYTES, size))
    if not any(first):
        return
    if len(first) < FIRST_BYTES:
        raise NotALogError("too short for a log entry", str(path), 0, f"at least {FIRST_BYTES} bytes", size)
    entry_size = int.from_bytes(first[SIZE_AT:LOG_OVERHEAD], "big", signed=True)
    magic = int.from_bytes(first[MAGIC_AT:], "big", signed=True)
    if not RECORD_OVERHEAD_V0 <= entry_size <= size - LOG_OVERHEAD and not 0 <= magic <= 2:
        raise NotALogError("no Kafka log: it does not begin with a log entry", str(path), MAGIC_AT, "magic 0..2", magic)
