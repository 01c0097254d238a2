"""What a path is: a data directory, the directory of one partition, or a single log file.

    DataDir        /var/lib/kafka            partitions below it, checkpoints, meta.properties
    PartitionDir   /var/lib/kafka/orders-0   segments in it
    LogFile        ..../00000000000000000000.log, or a copy of one under any name

<topic>-<partition>.<32 hex digits>-delete, -stray, -future: deleted and to be removed, unknown to the cluster, or moved
here from another data directory.
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
# What stands in the first bytes of every log entry: offset int64 | size int32 | crc or epoch | magic int8.
FIRST_BYTES = HEADER_SIZE_UP_TO_MAGIC
_MARK = re.compile(r"\.[0-9a-f]{32}-(delete|future|stray)$")
# Directories below a wrong path.
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
        """The base offset that its name tells; None where it is not named as a segment."""
        return segment_base_offset(self.path.name)

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The partition whose segment it is, by its own name and its directory's; None where these do not tell."""
        return None if self.base_offset is None else parse_partition_dir(real_path(self.path).parent.name)


@dataclass(frozen=True, slots=True)
class PartitionDir:
    """A partition's directory.

    topic_partition: None where its name is no partition's. mark: "delete", "future", "stray" or None.
    """

    path: Path
    topic_partition: TopicPartition | None
    mark: str | None = None

    @property
    def name(self) -> str:
        """`topic-partition`, or the directory's own name."""
        return real_path(self.path).name if self.topic_partition is None else str(self.topic_partition)


@dataclass(frozen=True, slots=True)
class DataDir:
    """A data directory (one of a broker's `log.dirs`) and its partitions, by topic, then number."""

    path: Path
    partitions: tuple[PartitionDir, ...]


def discover(path: str | os.PathLike[str]) -> DataDir | PartitionDir | LogFile:
    """What `path` is, without reading more than names and the first bytes of a file.

    OSError: there is no such path, or no permission. NotALogError: it holds no Kafka log.
    """
    path = to_path(path)
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return _directory(path)
    if not stat.S_ISREG(mode):
        raise NotALogError("neither a directory nor a regular file", str(path))
    _check_file(path)
    return LogFile(path)


def log_below(path: str | os.PathLike[str]) -> Path | None:
    """A data directory in that one, for whoever has begun one too high; None: there is none among the first few."""
    with suppress(OSError):
        for each in sorted(Path(path).iterdir())[:_LOOKED_AT]:
            with suppress(NotALogError, OSError):
                if each.is_dir() and isinstance(discover(each), DataDir):
                    return each
    return None


def _directory(path: Path) -> DataDir | PartitionDir:
    if segment_files(path):
        return partition_dir(path)
    partitions = _partitions(path)
    # A data directory may itself be named kafka-1, as a partition would be: what is in it comes before its name.
    if (path / META_PROPERTIES).exists() or any(map(_holds_segments, partitions)):
        return DataDir(path, tuple(partitions))
    if parse_partition_dir(real_path(path).name) is not None:
        return partition_dir(path)
    raise NotALogError("no Kafka log: neither segments (<20 digits>.log) in it nor partitions below it", str(path))


def _partitions(path: Path) -> list[PartitionDir]:
    found = []
    if isinstance(path, RemotePath):
        named = (each for each in path.iterdir() if parse_partition_dir(each.name) is not None)
        found = [partition_dir(path / each.name) for each in named if each.is_dir()]
    else:
        with os.scandir(path) as entries:
            for each in entries:
                if parse_partition_dir(each.name) is not None and _is_directory(each):
                    # Finding out where a path leads costs more than all the rest, where there are a thousand.
                    place = path / each.name
                    found.append(partition_dir(place) if each.is_symlink() else _named(place, each.name))
    return sorted(found, key=lambda each: (each.topic_partition or ("", 0), each.mark or "", each.path.name))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Also where that cannot be told, as of a link through a place that may not be entered: whoever opens it is."""
    try:
        return entry.is_dir()
    except OSError:
        return True


def _holds_segments(partition: PartitionDir) -> bool:
    try:
        return bool(segment_files(partition.path))
    except OSError:
        return False


def partition_dir(path: Path) -> PartitionDir:
    """The directory at `path`, as its name tells; it is not looked at."""
    return _named(path, real_path(path).name)


def _named(path: Path, name: str) -> PartitionDir:
    mark = _MARK.search(name)
    return PartitionDir(path, parse_partition_dir(name), mark[1] if mark else None)


def _check_file(path: Path) -> None:
    """NotALogError: another of Kafka's files, or of somebody else.

    A file that has a segment's name is one, whatever is in it. In another, an entry with one wrong field is damage, for
    its reader to find; where neither size nor magic can be, it was no log.
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
