"""Where logs begin and end, for the price of a look: checkpoints read once for all partitions, ends by the index.

index   ... | 940 -> position 61,000      the last entry leads close to the end of the active segment;
log     ... | 940.. | 960.. | 975..       from there on the headers tell the offset after the last batch
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafkalog import Log, TopicPartition
from kafkalog.errors import KafkaLogError
from kafkalog.storage.checkpoints import OffsetCheckpointFile

_NAMES = ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")


@dataclass(frozen=True, slots=True)
class Marks:
    """What the checkpoints of a data directory say of a partition; None: nothing."""

    log_start: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None


class Checkpoints:
    """The checkpoints of a data directory, read again when they have been replaced."""

    def __init__(self, directory: Path) -> None:
        self._files = [OffsetCheckpointFile(directory / name) for name in _NAMES]

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
        return Marks(*found), problem


def log_end_of(log: Log) -> int:
    """The offset the next record will get, by the active segment's index. OSError, KafkaLogError: it cannot be read."""
    segments = log.segments
    return segments[-1].read_next_offset() if segments else 0
