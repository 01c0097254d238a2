"""What one look at a log tells of damage, without reading it through.

checkpoints   recovery point ...... high watermark        both are offsets that the log once had,
log           |------------------------------| end        so that one that ends before them has lost records
"""

import struct

from kafkalog.storage.file_names import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kafkalog.storage.log import Log
from kafkalog.storage.segment.log_segment import LogSegment

# The offset, then size and checksum or leader epoch, and the magic: at the same place in all formats.
_HEAD = struct.Struct(">q8xb")


def damage_of(log: Log, end: int | None, *, high_watermark: int | None, recovery_point: int | None) -> str | None:
    """Return what is wrong with a log, as far as its end and its active segment tell.

    Args:
        log: The log.
        end: Its end, found after the checkpoints were read; None: unknown.
        high_watermark: What the checkpoint says; None: nothing.
        recovery_point: What the checkpoint says; None: nothing.

    Returns:
        A sentence; None: nothing is wrong.

    Raises:
        OSError: The active segment cannot be read.
    """
    active = log.segments[-1] if log.segments else None
    if active is not None and not _begins_with_batch(active):
        return f"{active.path.name}: it does not begin with a batch of this segment"
    for what, offset, name in (
        ("high watermark", high_watermark, HIGH_WATERMARK_CHECKPOINT),
        ("recovery point", recovery_point, RECOVERY_POINT_CHECKPOINT),
    ):
        if end is not None and offset is not None and offset > end:
            return f"the log ends at {end:,}, before its {what}, which is {offset:,} in {name}"
    return None


def _begins_with_batch(segment: LogSegment) -> bool:
    """Return whether magic and offset can be a batch's; an empty or zeroed file is to get one."""
    with segment.path.open("rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not any(head):
        return True
    offset, magic = _HEAD.unpack(head)
    return bool(0 <= magic <= 2 and 0 <= offset - segment.base_offset < 1 << 31)
