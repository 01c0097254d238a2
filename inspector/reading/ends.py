"""Where logs begin and end, for the price of a look: checkpoints read once for all partitions, ends by the index.

index   ... | 940 -> position 61,000      the last entry leads close to the end of the active segment;
log     ... | 940.. | 960.. | 975..       from there on the headers tell the offset after the last batch
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog.errors import KafkaLogError
from kafkalog.storage.checkpoint.checkpoint_file import OffsetCheckpointFile
from kafkalog.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)

if TYPE_CHECKING:
    from kafkalog import Log, TopicPartition

_NAMES = (LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class Marks:
    """What the checkpoints of a data directory say of a partition; None: nothing. missing: some could not be read."""

    log_start: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    missing: bool = False

    def damage_of(self, log: Log, end: int | None) -> str | None:
        """Return what one look at a log tells of damage; None: nothing. See `kafkalog.fsck.health`."""
        from kafkalog.fsck.health import damage_of

        return damage_of(log, end, high_watermark=self.high_watermark, recovery_point=self.recovery_point)


class Checkpoints:
    """The checkpoints of a data directory, read again when they have been replaced."""

    def __init__(self, directory: Path) -> None:
        self._files = [OffsetCheckpointFile(directory / name) for name in _NAMES]
        # What is wrong with one of them, when they were last asked.
        self.problem: str | None = None

    def of(self, partition: TopicPartition | None) -> tuple[Marks, str | None]:
        """What they say of a partition, and what is wrong with them."""
        found: list[int | None] = []
        problem = None
        for file in self._files:
            try:
                found.append(None if partition is None else file.read().get(partition))
            except (OSError, KafkaLogError) as error:
                found.append(None)
                problem = str(error)
        self.problem = problem
        return Marks(found[0], found[1], found[2], problem is not None), problem


# Headers behind the last entry of the index are read for so many bytes; more take a noticeable time.
NEAR_BYTES = 16 << 20


def log_end_of(log: Log) -> int | None:
    """The offset the next record will get, where the active segment's index leads near it; None where it does not.

    OSError, KafkaLogError: it cannot be read.
    """
    segments = log.segments
    if not segments:
        return 0
    return end_of(segments[-1])


def end_of(segment: Any) -> int | None:
    """The offset after a segment's last batch, where its index leads near it; None where it does not.

    OSError, KafkaLogError: it cannot be read.
    """
    return segment.read_next_offset() if segment.size_in_bytes - _led_to(segment) <= NEAR_BYTES else None


def _led_to(segment: Any) -> int:
    """Where the index leads to, if there is a batch: 0 where it does not."""
    entry = segment.offset_index.last_entry
    try:
        found = segment.log.first_entry(entry.position) if entry.position else None
    except (KafkaLogError, ValueError):
        return 0
    return entry.position if found is not None and found.base_offset <= entry.offset else 0
