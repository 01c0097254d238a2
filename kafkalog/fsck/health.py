"""A quick check of a log for damage, without reading all of it.

checkpoints   recovery point ...... high watermark        the log once had both offsets,
log           |------------------------------| end        so a log that ends before one of them has lost records

log           |------------------------------| end  ...  log start       no consumer gets a record of it
"""

import struct
from contextlib import closing
from pathlib import Path

from kafkalog.errors import CorruptCheckpointError, CorruptRecordError, KafkaLogError
from kafkalog.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    INDEX_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    dangling_segments,
)
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.log import Log
from kafkalog.storage.segment.log_segment import LogSegment

# The offset, then size and checksum or leader epoch, and the magic, which all formats have at the same position.
_HEAD = struct.Struct(">q8xb")
# Headers after the last entry of the index are read for so many bytes; more take a noticeable time.
NEAR_BYTES = 16 << 20
_ENTRY_BYTES = 8


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


def is_hidden_by_index(segment: LogSegment) -> bool:
    """Return whether a broker that trusts a log's last segment takes its base offset for the log's end.

    It looks up the last offset of the index, and finds no batch: that batch is gone, or not whole.

    Raises:
        OSError: A file was not read.
        KafkaLogError: A file is damaged there.
    """
    return segment.translate_offset(segment.offset_index.last_offset) is None


def dangling_links(directory: Path) -> list[CorruptRecordError]:
    """Return an error for each link that is named like a segment and leads to nothing. The others can be read.

    Raises:
        OSError: The directory is not readable.
    """
    message = "a link to nothing: the segment is missing, the others are read"
    return [CorruptRecordError(message, str(path)) for path in dangling_segments(directory)]


def _begins_with_batch(segment: LogSegment) -> bool:
    """Return whether magic and offset at the beginning can be those of a batch; also for an empty or zeroed file."""
    head = _beginning(segment.path, _HEAD.size)
    if len(head) < _HEAD.size or not any(head):
        return True
    offset, magic = _HEAD.unpack(head)
    return bool(0 <= magic <= 2 and 0 <= offset - segment.base_offset < 1 << 31)


def _beginning(path: Path, length: int) -> bytes:
    """Return the first `length` bytes of a file, or all of a shorter one."""
    with closing(open_source(path)) as file:
        return bytes(file.view(0, min(length, file.size)))


def near_end_of(segment: LogSegment) -> int | None:
    """Return the offset after a segment's last batch if its offset index leads near it, else None.

    Raises:
        OSError: A file was not read.
        KafkaLogError: The bytes after the last index entry are damaged.
    """
    entry, led_to = segment.offset_index.last_entry, 0
    try:
        found = segment.log.first_entry(entry.position) if entry.position else None
        led_to = entry.position if found is not None and found.base_offset <= entry.offset else 0
    except (KafkaLogError, ValueError):
        pass
    return segment.read_next_offset() if segment.size_in_bytes - led_to <= NEAR_BYTES else None


def index_state(segment: LogSegment) -> str | None:
    """Return the state of an offset index by its last entry: "ok", "empty", "missing" or "damaged"; None: unknown.

    It is unknown if a file changed meanwhile: a writer that truncates cuts the log before the index.

    Raises:
        OSError: A file was not read.
    """
    index = segment.path.with_suffix(INDEX_SUFFIX)
    before = _written(segment.path), _written(index)
    state = _index_state(segment, index)
    return state if before == (_written(segment.path), _written(index)) else None


def _written(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _index_state(segment: LogSegment, path: Path) -> str:
    if not path.exists():
        return "missing"
    length, entry = path.stat().st_size, segment.offset_index.last_entry
    if length % _ENTRY_BYTES and segment.sealed:
        return "damaged"
    if not segment.offset_index.entries:
        return "damaged" if any(_beginning(path, _ENTRY_BYTES)) else "empty"
    if entry.position >= segment.path.stat().st_size:
        return "damaged"
    try:
        found = segment.log.first_entry(entry.position)
    except KafkaLogError:
        return "damaged"
    return "ok" if found is not None and found.base_offset <= entry.offset <= found.last_offset else "damaged"
