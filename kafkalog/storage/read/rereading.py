"""Reading beside somebody who cuts, deletes and writes anew: what fails is looked at again before it is called damage.

    read      batch | batch | half of a batch that is cut off meanwhile, half of one that is written in its place
    again     batch | batch | another batch, or the end

Damage is still there when it is looked at again; what was going on is not.
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
    """The answer; asked again as long as another thing is wrong each time. Raises what is wrong twice alike."""
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
    """What `walk` gives of a segment's entries. Where it ends in damage that is not there any more it goes on.

    segment: gives the segment as it is now: one that others came behind is the last one again when these are cut off,
    and may then end in what is just being written. reached: the offset of the next record that is wanted.
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
    """Whether it is found in the file as it is now, too."""
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
    """Whether a batch begins at a position, or the file's batches end there: else others lie across it since.

    CorruptRecordError: the framing is damaged, there or before.
    """
    end = 0
    for rows in log._runs():
        starts = rows["position"]
        end = int(starts[-1]) + int(rows["size_in_bytes"][-1])
        if position < end:
            return bool((starts == position).any())
    return position == end
