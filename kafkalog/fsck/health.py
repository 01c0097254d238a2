"""A quick check of a log for damage, without reading all of it.

checkpoints   recovery point ...... high watermark        the log once had both offsets,
log           |------------------------------| end        so a log that ends before one of them has lost records

log           |------------------------------| end  ...  log start       no consumer gets a record of it
"""

import struct
from pathlib import Path

from kafkalog.errors import CorruptCheckpointError, CorruptRecordError, KafkaLogError
from kafkalog.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    dangling_segments,
)
from kafkalog.storage.log import Log
from kafkalog.storage.segment.log_segment import LogSegment

# The offset, then size and checksum or leader epoch, and the magic, which all formats have at the same position.
_HEAD = struct.Struct(">q8xb")


def damage_of(log: Log, end: int | None, *, high_watermark: int | None, recovery_point: int | None) -> str | None:
    """Describe damage of a log, by its end and the first batch of its active segment.

    Args:
        log: The log.
        end: The log end offset, found after the checkpoints were read; None: unknown.
        high_watermark: The offset in the checkpoint; None: it has none.
        recovery_point: The offset in the checkpoint; None: it has none.

    Returns:
        A sentence; None: no damage was found.

    Raises:
        OSError: The active segment was not read.
    """
    missing = dangling_links(log.directory)
    if missing:
        return str(missing[0])
    active = log.segments[-1] if log.segments else None
    if active is not None and not _begins_with_batch(active):
        return f"{active.path.name}: it does not begin with a batch of this segment"
    beyond = start_beyond_end(log)
    if beyond is not None:
        return beyond.message
    for what, offset, name in (
        ("high watermark", high_watermark, HIGH_WATERMARK_CHECKPOINT),
        ("recovery point", recovery_point, RECOVERY_POINT_CHECKPOINT),
    ):
        if end is not None and offset is not None and offset > end:
            return f"the log ends at {end:,}, before its {what}, which is {offset:,} in {name}"
    return None


def start_beyond_end(log: Log) -> CorruptCheckpointError | None:
    """Return the error of a checkpoint whose log start offset is beyond the log's end; None if it is not.

    Consumers get no record of such a log, and a broker deletes its segments when it starts. Damage that hides either
    offset is not reported.

    Raises:
        OSError: The active segment was not read.
    """
    try:
        start, segments = log.log_start_offset, log.segments
        if not segments or start <= segments[-1].base_offset or start <= (end := segments[-1].read_next_offset()):
            return None
        # An error if the log goes on behind damage.
        _ = segments[-1].log.end_of_data
    except KafkaLogError:
        return None
    what = f"before its start, which is {start:,} in {LOG_START_OFFSET_CHECKPOINT}"
    return CorruptCheckpointError(f"the log ends at {end:,}, {what}")


def dangling_links(directory: Path) -> list[CorruptRecordError]:
    """Return an error for each link that is named like a segment and leads to nothing. The others can be read.

    Raises:
        OSError: The directory is not readable.
    """
    message = "a link to nothing: the segment is missing, the others are read"
    return [CorruptRecordError(message, str(path)) for path in dangling_segments(directory)]


def _begins_with_batch(segment: LogSegment) -> bool:
    """Return whether magic and offset at the beginning can be those of a batch; also for an empty or zeroed file."""
    with segment.path.open("rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not any(head):
        return True
    offset, magic = _HEAD.unpack(head)
    return bool(0 <= magic <= 2 and 0 <= offset - segment.base_offset < 1 << 31)
