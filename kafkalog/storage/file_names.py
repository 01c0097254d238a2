"""Names of files and directories in a Kafka data directory.

    topic-0/                            a partition: topic, the last '-', partition
      00000000000000000000.log          a segment; the number (20 digits) is its base offset
      00000000000000000000.index        and its indexes: .index .timeindex .txnindex
      00000000000000000000.snapshot     producer state up to that offset
      ....deleted .cleaned .swap        files being removed, or being put in place
      leader-epoch-checkpoint, partition.metadata
    recovery-point-offset-checkpoint, log-start-offset-checkpoint, replication-offset-checkpoint, ...,
    meta.properties, .lock

Source: storage/.../internals/log/{LogFileUtils,LocalLog}.java.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX
from kafkalog.storage.remote_path import RemotePath, to_path

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
# The log of the KRaft controllers, which may be in the same directory. Brokers do not modify it.
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

_SEGMENT = re.compile(r"([0-9]{20})\.log")
_TOO_LONG = re.compile(r"0+([0-9]{20}\.log)")
_JAVA_LONG = re.compile(r"[+-]?\d{1,400}")
_GOING_AWAY = re.compile(r"^(\S+)-(\S+)\.([0-9a-f]{32})-(delete|future|stray)$")
_PARTITION = re.compile(r"\d+", re.ASCII)
_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}", re.ASCII)


class TopicPartition(NamedTuple):
    """A partition of a topic.

    Attributes:
        topic: The name of the topic.
        partition: The number of the partition.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def parse_partition_dir(name: str) -> TopicPartition | None:
    """Return the partition in a directory's name, also of one being deleted or moved; None for other names."""
    going_away = _GOING_AWAY.match(name)
    if going_away:
        name = f"{going_away[1]}-{going_away[2]}"
    elif name.endswith(("-delete", "-future", "-stray")):
        return None
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and _PARTITION.fullmatch(partition) and int(partition) <= INT32_MAX):
        return None
    return TopicPartition(topic, int(partition))


def partition_of_dir(name: str) -> TopicPartition | None:
    """Return the partition that a directory of this name contains; None for other names.

    A partition that is being deleted or moved, or whose topic name is not valid in Kafka, gives None.
    """
    partition = parse_partition_dir(name)
    return partition if partition and str(partition) == name and _TOPIC.fullmatch(partition.topic) else None


def segment_base_offset(name: str) -> int | None:
    """Return the base offset in a segment file's name; None for other names."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match and int(match[1]) <= INT64_MAX else None


def offset_of_broker(name: str) -> int | None:
    """Return the offset that a broker takes from a file's name, the number before the first dot; None if it has none.

    It then opens the file of this offset with 20 digits, whatever the name was.
    """
    number = name.partition(".")[0]
    offset = int(number) if _JAVA_LONG.fullmatch(number) else None
    return offset if offset is not None and -INT64_MAX - 1 <= offset <= INT64_MAX else None


def meant_segment(name: str) -> str | None:
    """Return the correct name of a segment whose name has too many leading zeros; None for other names."""
    match = _TOO_LONG.fullmatch(name)
    return match[1] if match else None


def segment_files(directory: Path) -> list[tuple[int, Path]]:
    """Return (base offset, path) of every segment of a partition directory, in order.

    Links to nothing are left out, as a broker passes over them: the segment is missing, see `dangling_segments`.

    Raises:
        OSError: The directory is not readable.
    """
    found = ((segment_base_offset(path.name), path) for path in directory.iterdir())
    lost = {*dangling_segments(directory)}
    return sorted((base, path) for base, path in found if base is not None and path not in lost)


def dangling_segments(directory: Path) -> list[Path]:
    """Return the links of a partition directory that are named like segments and lead to nothing, in order.

    Raises:
        OSError: The directory is not readable.
    """
    if isinstance(directory, RemotePath):
        return []
    with os.scandir(directory) as entries:
        links = sorted(
            each.name for each in entries if each.is_symlink() and segment_base_offset(each.name) is not None
        )
    return [path for name in links if not (path := directory / name).exists()]


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the target of a path, with all links resolved. Its name identifies the partition."""
    path = to_path(path)
    # Not Path.resolve(): before Python 3.13 it raises RuntimeError for a link to itself.
    return path if isinstance(path, RemotePath) else Path(os.path.realpath(path))


def offset_file(directory: Path, offset: int, suffix: str) -> Path:
    """Return the path of a segment, index or snapshot: an offset as 20 digits and a suffix."""
    return directory / f"{offset:020d}{suffix}"


def position_file(directory: Path, consumer: str) -> Path:
    """Return the path of the committed position of a consumer of a log.

    Raises:
        ValueError: The name of the consumer has other characters than the name of a topic may have.
    """
    if not _TOPIC.fullmatch(consumer):
        raise ValueError(f"{consumer!r} is no name of a consumer: it has up to 249 of the characters a-z A-Z 0-9 . _ -")
    return directory / f"{consumer}.position"


def file_names(directory: Path) -> list[str]:
    """Return the names of the files (not the directories) in a directory, in order.

    Raises:
        OSError: The directory is not readable.
    """
    if isinstance(directory, RemotePath):
        return [path.name for path in directory.iterdir() if path.is_file()]
    with os.scandir(directory) as entries:
        return sorted(entry.name for entry in entries if entry.is_file())
