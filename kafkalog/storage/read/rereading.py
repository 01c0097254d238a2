"""Reads concurrent with truncation, deletion and rewriting: failed reads are repeated before they count as damage.

    read      batch | batch | half of a batch being truncated, half of one written in its place
    again     batch | batch | another batch, or the end

Damage is found again by the second read; effects of concurrent changes are not.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from kafkalog.errors import CorruptRecordError, KafkaLogError
from kafkalog.storage.segment.file_message_set import FileMessageSet
from kafkalog.storage.segment.log_segment import LogSegment

_PASSING = FileNotFoundError, CorruptRecordError, ValueError, IndexError
_TRIES = 8

Found = TypeVar("Found")


def steadily(ask: Callable[[], Found]) -> Found:
    """Call `ask`, retrying while it fails with a new error each time. Raise an error that occurs twice."""
    before = None
    for _ in range(_TRIES):
        try:
            return ask()
        except _PASSING as error:
            if str(error) == before:
                raise
            before = str(error)
    return ask()


def read_on(
    segment: Callable[[], LogSegment],
    message_set: FileMessageSet,
    walk: Callable[[FileMessageSet], Iterator[Found]],
    reached: Callable[[], int],
) -> Iterator[Found]:
    """Yield the results of `walk` over a segment's entries, resuming after damage that has since disappeared.

    Args:
        segment: Returns the current segment. A sealed segment becomes the last one again if those after it are
            truncated, and may then end in a batch that is being written.
        message_set: The entries to start with.
        walk: Yields the results for a set of entries.
        reached: Returns the offset of the next record wanted.
    """
    failed = None
    while True:
        try:
            yield from walk(message_set)
        except CorruptRecordError as error:
            now = segment()
            if str(error) == failed or _is_damage(now, error):
                raise
            failed = str(error)
        else:
            return
        message_set = now.entries_from(reached())


def _is_damage(segment: LogSegment, error: CorruptRecordError) -> bool:
    """Return whether the error occurs again in the file as it is now."""
    if error.position is None:
        return True
    with segment.opened() as log:
        if error.position >= log.size_in_bytes:
            return False
        try:
            batch = next(log.batches(error.position), None) if _may_begin(log, error.position) else None
            if batch is not None:
                batch.ensure_valid()
        except KafkaLogError as again:
            return str(again) == str(error)
    return False


def _may_begin(log: FileMessageSet, position: int) -> bool:
    """Return whether a batch begins at a position, or the batches of the file end there.

    If not, the file has been rewritten, and another batch spans the position.

    Raises:
        CorruptRecordError: The framing is damaged at or before the position.
    """
    end = 0
    for rows in log._runs():
        starts = rows["position"]
        end = int(starts[-1]) + int(rows["size_in_bytes"][-1])
        if position < end:
            return bool((starts == position).any())
    return position == end
