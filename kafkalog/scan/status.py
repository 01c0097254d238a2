"""The state of a data directory at a glance: `status_of` a partition, `DirectoryStatus`.

    log start ... last stable offset ... high watermark ... log end       from checkpoints, indexes and newest snapshots
    health        no segment is read in full: `verify` does that; but all that keeps a broker from starting is found,
                  topic ids for which it sets partitions aside, and partitions without a directory

A checkpoint that cannot be read is a problem of the directory; its partitions are then judged without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from kafkalog.errors import KafkaLogError, os_error_text
from kafkalog.fsck.checkpoint_checks import Checkpoints
from kafkalog.fsck.consequences import Consequence
from kafkalog.fsck.findings import Finding
from kafkalog.fsck.health import damage_of, is_hidden_by_index, near_end_of
from kafkalog.fsck.layout_checks import directory_layout, names_in
from kafkalog.fsck.recovering import bytes_to_recover
from kafkalog.fsck.start_checks import obstacles_of_partition
from kafkalog.fsck.state_checks import metadata_findings
from kafkalog.scan.transactions import hanging_in
from kafkalog.storage.checkpoint.checkpoint_file import OffsetCheckpointFile
from kafkalog.storage.checkpoint.clean_shutdown_file import was_clean_shutdown
from kafkalog.storage.data_dir.discover import DataDir, PartitionDir, discover
from kafkalog.storage.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from kafkalog.storage.log import Log
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.read_only_log import ReadOnlyLog

# One for all logs: it takes time to make.
CONFIG = LogConfig()


class Health(StrEnum):
    """The result of a quick look. OK: no problem was found, but the bytes of segments were not checked."""

    OK = "ok"
    HANGING = "hanging transaction"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """The state of a partition.

    Attributes:
        partition: The partition.
        segments: The number of segments.
        size_in_bytes: The size of its `.log` files.
        log_start_offset: The log start offset; this and the following are None if unknown.
        log_end_offset: The offset of the next record.
        high_watermark: The high watermark of the checkpoint, limited to [log start, log end].
        last_stable_offset: The offset before which every transaction is completed.
        recovery_point: The offset of the checkpoint, before which everything is synced to disk.
        health: The result of a quick look.
        problem: What is wrong, for people; None if `health` is OK.
    """

    partition: PartitionDir
    segments: int = 0
    size_in_bytes: int = 0
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    recovery_point: int | None = None
    health: Health = Health.OK
    problem: str | None = None


class DirectoryStatus:
    """The state of a data directory; its partitions are looked at one by one.

    Attributes:
        path: The data directory.
        was_clean: Whether the last writer stopped cleanly.
        problems: The checkpoints that cannot be read, what else of the directory keeps a broker from starting, and the
            partitions that have no directory.
    """

    def __init__(self, path: Path, *, is_data_dir: bool = False) -> None:
        """Read what concerns all partitions.

        Args:
            path: The directory.
            is_data_dir: Whether to look at the other names in it, which may keep a broker from starting; not in the
                parent of a partition, whatever else is there.

        Raises:
            OSError: The directory cannot be listed.
        """
        self.path = path
        self._is_data_dir = is_data_dir
        self._findings = _of_directory(path, is_data_dir)
        self._files = [
            OffsetCheckpointFile(path / name)
            for name in (LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT)
        ]
        self._cleaner = OffsetCheckpointFile(path / CLEANER_OFFSET_CHECKPOINT)
        self.refresh()
        self.was_clean = was_clean_shutdown(path)

    def refresh(self) -> None:
        """Read the checkpoints again that have been replaced."""
        self._unread: dict[str, KafkaLogError | OSError] = {}
        self._offsets = [self._read(file) for file in self._files]
        reported = {each.path for each in self._findings}
        self.problems: list[Finding | KafkaLogError | OSError] = [
            *self._findings,
            *(each for each in self._unread.values() if _path_of(each) not in reported),
        ]

    def _read(self, file: OffsetCheckpointFile) -> Mapping[TopicPartition, int]:
        try:
            return file.read()
        except (KafkaLogError, OSError) as error:
            self._unread[file.path.name] = error
            return {}

    @cached_property
    def to_recover(self) -> int | None:
        """The number of bytes that a broker reads when it recovers the directory at its start; None: unknown."""
        if self._unread:
            return None
        try:
            return bytes_to_recover(self.path)
        except (KafkaLogError, OSError) as error:
            self.problems.append(error)
            return None

    @cached_property
    def _set_aside(self) -> Mapping[Path, Finding]:
        """The findings about topic ids, by partition."""
        place = discover(self.path) if self._is_data_dir else None
        partitions = place.partitions if isinstance(place, DataDir) else ()
        served = {each.path: each.topic_partition for each in partitions if each.mark is None}
        known = Checkpoints(self.path)
        return metadata_findings(served, known.cluster, known.node[0], kraft=known.is_of_kraft)

    def checkpointed(self, partition: PartitionDir) -> tuple[int | None, int | None, int | None]:
        """Return log start offset, high watermark and recovery point of the checkpoints; None: there is none."""
        # The checkpoints are not about a partition that is being deleted or moved.
        known = partition.topic_partition if partition.mark is None else None
        start, mark, point = (offsets.get(known) if known else None for offsets in self._offsets)
        return start, mark, point

    def cleaned(self, partition: PartitionDir) -> int | None:
        """Return the offset up to which a partition is compacted; None if it is not, or unknown."""
        try:
            return self._cleaner.read().get(partition.topic_partition) if partition.topic_partition else None
        except (KafkaLogError, OSError):
            return None

    def status_of(self, partition: PartitionDir) -> PartitionStatus:
        """Return the state of a partition of the directory. Errors are part of it."""
        try:
            with ReadOnlyLog(partition.path, config=CONFIG) as log:
                return self.status_of_log(partition, log)
        except OSError as error:
            return PartitionStatus(partition=partition, health=Health.UNREADABLE, problem=os_error_text(error))

    def status_of_log(self, partition: PartitionDir, log: Log, *, quick: bool = False) -> PartitionStatus:
        """Return the state of a partition that is open.

        Args:
            partition: The partition.
            log: Its log.
            quick: Whether to leave out what may take long: the end of a log whose index does not lead near it, the
                last stable offset and hanging transactions.

        Raises:
            OSError: A file was not read.
        """
        start, mark, point = self.checkpointed(partition)
        segments, size = log.segments, log.size_in_bytes
        first = max(segments[0].base_offset if segments else 0, start or 0)
        end = stable = problem = None
        health = Health.DAMAGED
        try:
            # By the offset index: nothing before its last entry is read.
            end = first if not segments else near_end_of(segments[-1]) if quick else segments[-1].read_next_offset()
            problem = damage_of(log, end, high_watermark=mark, recovery_point=point)
            if self.was_clean and segments and end is not None and is_hidden_by_index(segments[-1]):
                base = segments[-1].base_offset
                hidden = f"the last index leads to no whole batch, and a broker takes {base:,} for the log's end"
                problem = f"{hidden}: it hides offsets {base:,}..{end - 1:,}" if base < end else problem
            # It does not depend on the recovery point.
            is_known = self._unread.keys() <= {RECOVERY_POINT_CHECKPOINT}
            if is_known and end is not None and (not quick or end == first):
                stable = min(end, log.last_stable_offset)
                if problem is None and stable < log.high_watermark and (problem := hanging_in(log)) is not None:
                    health = Health.HANGING
        except KafkaLogError as error:
            problem = str(error)
        if not quick and (problem is None or health is Health.HANGING):
            refused = next(obstacles_of_partition(partition), None) or self._set_aside.get(partition.path)
            if refused is not None:
                problem = str(refused)
                health = Health.UNREADABLE if refused.code == "unreadable" else Health.DAMAGED
        return PartitionStatus(
            partition=partition,
            segments=len(segments),
            size_in_bytes=size,
            log_start_offset=first,
            log_end_offset=end,
            high_watermark=None if mark is None or end is None else min(end, max(first, mark)),
            last_stable_offset=stable,
            recovery_point=point,
            health=Health.OK if problem is None else health,
            problem=problem,
        )


def _path_of(error: KafkaLogError | OSError) -> str | None:
    return error.path if isinstance(error, KafkaLogError) else error.filename


def _of_directory(path: Path, is_data_dir: bool) -> list[Finding]:
    """Return the findings about a directory as a whole; see `DirectoryStatus.problems`."""
    checkpoints = Checkpoints(path)
    found, gone = list(checkpoints.file_findings()), list[Finding]()
    if is_data_dir:
        names = names_in(path)
        found += (each for each in directory_layout(path, names) if each not in found)
        gone += checkpoints.gone(names)
    refused = (each for each in found if each in checkpoints.faults or each.consequence is Consequence.NO_START)
    return [*refused, *gone]
