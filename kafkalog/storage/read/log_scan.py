"""`Walk`: a scan over the segments of a log, while another process may write to it.

    segment | segment | active segment
        ^ cursor: the next offset to return                     ^ stop

Segments may be rolled, merged, truncated and deleted during the scan. It continues at the cursor in the segments that
exist by then.
"""

import operator
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog.errors import CorruptRecordError, OffsetOutOfRangeError
from kafkalog.record.record_batch import RecordBatch
from kafkalog.record.record_columns import RecordColumns
from kafkalog.storage.read.aborted_transactions import AbortedBatches
from kafkalog.storage.read.retry import Found, retry, retry_each
from kafkalog.storage.segment.file_message_set import FileMessageSet
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# Offsets are Java longs.
NO_END = INT64_MAX
_BATCHES: Callable[[FileMessageSet], Iterator[RecordBatch]] = operator.methodcaller("batches")


class Walk:
    """A scan of the offsets from `start` to before `stop`. It may be iterated over once.

    Args:
        segments: Returns the current segments of the log.
        directory: The partition directory, for errors.
        start: The first offset.
        stop: The offset after the last.
    """

    def __init__(self, segments: Callable[[], LogSegments], directory: Path, start: int, stop: int) -> None:
        self._segments_now = segments
        self._directory = directory
        self._stop = stop
        # The next offset to return, and whether the scan has left its first segment.
        self._cursor = start
        self._moved = False

    # --- iteration

    def columns(self, aborted: AbortedBatches | None, *, threads: int, check_crcs: bool) -> Iterator[RecordColumns]:
        """Yield the records, without those of `aborted`. Raise errors as `Log.records`."""
        walk: Callable[[FileMessageSet], Iterator[RecordColumns]]
        walk = operator.methodcaller("columns", threads=threads, check_crcs=check_crcs)
        for segment, following, message_set in self.message_sets(loaded=threads == 1):
            for part in self._results(walk, segment, message_set):
                wanted, lowest, highest = part.narrowed(self._cursor, self._stop)
                own = len(part)
                if lowest < segment.base_offset or highest >= following:
                    own = _own(segment.base_offset, following, part)
                    wanted = part[:own].between(self._cursor, self._stop)
                if aborted is not None:
                    wanted = aborted.left_out_of(wanted)
                if len(wanted):
                    yield wanted
                if own:
                    self._cursor = int(part.offset[own - 1]) + 1
                if own < len(part):
                    self._check_is_now_own(segment, following, part, own)
                    break

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches. Raise errors as `Log.records`."""
        for segment, _, message_set in self.message_sets():
            for batch in self._results(_BATCHES, segment, message_set):
                if batch.magic >= 2 and batch.base_offset >= self._stop:
                    return
                if batch.last_offset >= self._cursor:
                    yield batch
                    self._cursor = batch.last_offset + 1
                if self._cursor >= self._stop:
                    return

    def message_sets(self, *, loaded: bool = False) -> Iterator[tuple[LogSegment, int, FileMessageSet]]:
        """Yield the segments from the cursor on, with the offset where each ends and its entries.

        For a segment that is read from its start, a file is opened and closed again. So a full scan does not evict the
        open files of other readers.

        Args:
            loaded: As `FileMessageSet.starting_at`.
        """
        while self._cursor < self._stop and (found := retry(partial(self._opened, loaded))) is not None:
            segment, following, entries = found
            with entries:
                yield segment, NO_END if following is None else following.base_offset, entries
            if not self._leave(following, self._segments_now().higher(segment.base_offset)):
                return

    # --- from segment to segment

    def _opened(self, loaded: bool) -> tuple[LogSegment, LogSegment | None, FileMessageSet] | None:
        """Return the segment at the cursor, the one after it and the entries; None at the end.

        Raises:
            FileNotFoundError, OffsetOutOfRangeError: The records at the cursor have been deleted.
        """
        segments, at = self._segments_now(), self._cursor
        segment = segments.floor(at) or segments.first
        if segment is None or segment.base_offset >= self._stop:
            return None
        if segment.base_offset > at and self._moved:
            raise self._deleted_meanwhile(segment)
        following = segments.higher(segment.base_offset)
        entries = segment.opened() if segment.base_offset >= at else segment.entries_from(at, loaded=loaded)
        return segment, following, entries

    def _leave(self, following: LogSegment | None, now: LogSegment | None) -> bool:
        """Move the cursor past a segment that has been read. Return whether there may be more to read.

        If another segment follows now than at the start of reading, the segment's end may have changed: it was merged,
        or was truncated and is active again. The cursor then stays.

        Args:
            following: The segment that followed when reading began.
            now: The segment that follows now.
        """
        if following is None:
            return now is not None
        self._moved = True
        if now is not None and now.base_offset == following.base_offset:
            self._cursor = max(self._cursor, now.base_offset)
        return True

    def _results(
        self, walk: Callable[[FileMessageSet], Iterator[Found]], segment: LogSegment, entries: FileMessageSet
    ) -> Iterator[Found]:
        """Yield the results of `walk` over a segment's entries; after a failed read, over those from the cursor on."""

        def current() -> FileMessageSet:
            # The segment may have become active again; its torn tail is no damage then.
            return (self._segments_now().get(segment.base_offset) or segment).entries_from(self._cursor)

        return retry_each(walk, entries, current)

    # --- errors

    def _check_is_now_own(self, segment: LogSegment, following: int, part: RecordColumns, wrong: int) -> None:
        """Raise an error for an offset outside the segment, unless the segments have changed since.

        After a truncation, the offset may be in its range now.

        Raises:
            CorruptRecordError: The segments have not changed.
        """
        segments = self._segments_now()
        now = segments.higher(segment.base_offset)
        is_there = segments.get(segment.base_offset) is segment
        if is_there and following == (NO_END if now is None else now.base_offset):
            raise _foreign_offset(segment, following, part, wrong)

    def _deleted_meanwhile(self, segment: LogSegment) -> OffsetOutOfRangeError:
        message, expected = "records were deleted before they were read", f"{segment.base_offset} or more"
        return OffsetOutOfRangeError(message, str(self._directory), None, expected, self._cursor)


def _own(base: int, following: int, part: RecordColumns) -> int:
    """Return how many records precede the first whose offset is outside the segment. No checksum covers offsets."""
    return int(((part.offset < base) | (part.offset >= following)).argmax())


def _foreign_offset(segment: LogSegment, following: int, part: RecordColumns, wrong: int) -> CorruptRecordError:
    return CorruptRecordError(
        "an offset that is not of this segment",
        str(segment.path),
        int(part.batches["position"][part.batch[wrong]]),
        f"{segment.base_offset}..{following - 1}",
        int(part.offset[wrong]),
    )
