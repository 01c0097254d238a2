"""Where logs begin and end, for the price of a look: checkpoints read once for all partitions, ends by the index.

index   ... | 940 -> position 61,000      the last entry leads close to the end of the active segment;
log     ... | 940.. | 960.. | 975..       from there on the headers tell the offset after the last batch
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog.errors import KafkaLogError
from kafkalog.storage.checkpoint.checkpoint_file import OffsetCheckpointFile

if TYPE_CHECKING:
    from kafkalog import Log, TopicPartition

_NAMES = ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")
# Offset, size, checksum or leader epoch, magic: in the same place in all formats.
_HEAD = struct.Struct(">q8xb")


@dataclass(frozen=True, slots=True)
class Marks:
    """What the checkpoints of a data directory say of a partition; None: nothing. missing: some could not be read."""

    log_start: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    missing: bool = False


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


def damage_of(log: Log, marks: Marks, end: int | None) -> str | None:
    """What one look tells of damage: no batch where the active segment begins, or an end before what was flushed or
    replicated. end: the log's, found after the marks were read; None = not known. OSError: it cannot be read.
    """
    active = log.segments[-1] if log.segments else None
    if active is not None and not _begins_with_batch(active):
        return f"{active.path.name}: it does not begin with a batch of this segment"
    told = (("high watermark", marks.high_watermark, _NAMES[2]), ("recovery point", marks.recovery_point, _NAMES[1]))
    for what, offset, name in told:
        if end is not None and offset is not None and offset > end:
            return f"the log ends at {end:,}, before its {what}, which is {offset:,} in {name}"
    return None


def _begins_with_batch(segment: Any) -> bool:
    """Whether magic and offset can be a batch's; what is empty, or nothing but zeros, is to become one."""
    with segment.path.open("rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not any(head):
        return True
    offset, magic = _HEAD.unpack(head)
    return bool(0 <= magic <= 2 and 0 <= offset - segment.base_offset < 1 << 31)


def _led_to(segment: Any) -> int:
    """Where the index leads to, if there is a batch: 0 where it does not."""
    entry = segment.offset_index.last_entry
    try:
        found = segment.log.first_entry(entry.position) if entry.position else None
    except (KafkaLogError, ValueError):
        return 0
    return entry.position if found is not None and found.base_offset <= entry.offset else 0
