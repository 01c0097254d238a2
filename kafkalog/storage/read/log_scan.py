"""`Walk`: a scan over the segments of a log, while another thread or process may write to it.

    segment | segment | active segment
        ^ next: the next offset to return                       ^ stop

Segments may be rolled, merged, truncated and deleted during the scan. The log is read in chunks of about a megabyte.
Two rules make the result the records of one log, in order, although nothing is locked:

  - A chunk is read as it was at one moment: again, if its file was written to meanwhile, until it is the same twice.
  - After each chunk, the batch before it is compared with the log. If it is not there any more, the chunk is not used,
    and reading starts again behind the last batch that was returned; or it fails, if that was cut off itself.

Reading also starts again after an error that may be due to a change.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog.errors import ChangedWhileReading, CorruptRecordError, LogTruncatedError, OffsetOutOfRangeError
from kafkalog.record.decoding import Entries, Reading, pays_in_threads, read_pieces
from kafkalog.record.message_set import MOST_WAITING_BYTES, RUN_BYTES, RUN_GROWTH, THREAD_RUN_BYTES, memory_of
from kafkalog.record.ordered_map import ordered_map
from kafkalog.record.record_batch import RecordBatch, batches_of
from kafkalog.record.record_columns import RecordColumns
from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.read.aborted_transactions import AbortedBatches
from kafkalog.storage.read.detect_truncation import LastBatch
from kafkalog.storage.read.retry import at_one_moment, retry, retry_each
from kafkalog.storage.segment.file_message_set import FileMessageSet
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# Offsets are Java longs.
NO_END = INT64_MAX
# How long, and how often, a reader waits for the deletion of the last old segment of a log that begins anew.
_BEGINS_ANEW_SECONDS = 1.0
_PAUSE_SECONDS = 0.01


class _Chunk(NamedTuple):
    """Consecutive batches of one segment.

    Attributes:
        segment: The segment.
        following: The base offset of the next segment; NO_END for the last one.
        file: The open file of the segment, as in `LastBatch`.
        reading: How to read the batches.
        entries: The batches with their bytes.
    """

    segment: LogSegment
    following: int
    file: int | ByteSource
    reading: Reading
    entries: Entries


class Walk:
    """A scan of the offsets from `start` to before `stop`. It may be iterated over once, and again after `goes_on_to`.

    Args:
        segments: Returns the current segments of the log.
        log_end: Returns the log end offset and its place.
        end_to_reach: Returns the same, quickly; None if the scan is not to reach it.
        directory: The partition directory.
        start: The first offset.
        stop: The offset after the last.
    """

    def __init__(
        self,
        segments: Callable[[], LogSegments],
        log_end: Callable[[], LogOffsetMetadata],
        end_to_reach: Callable[[], LogOffsetMetadata | None],
        directory: Path,
        *,
        start: int,
        stop: int,
    ) -> None:
        self._segments_now = segments
        self._log_end = log_end
        self._end_to_reach = end_to_reach
        self._directory = directory
        self._stop = stop
        # The next offset to return, and the last batch before it; None before the first one.
        self._next = start
        self._last: LastBatch | None = None
        # The end that the scan has to reach, once it is known.
        self._goal: LogOffsetMetadata | None = None

    # --- iteration

    @property
    def next_offset(self) -> int:
        """The next offset to return."""
        return self._next

    def goes_on_to(self, stop: int) -> bool:
        """Set another offset after the last. Return whether there is anything to read before it.

        Raises:
            LogTruncatedError: The log ends before the next offset.
        """
        self._stop, self._goal = stop, None
        if stop > self._next:
            return True
        if retry(self._log_end).message_offset < self._next:
            raise retry(partial(self._truncated, self._next))
        return False

    def columns(self, aborted: AbortedBatches | None, *, threads: int, check_crcs: bool) -> Iterator[RecordColumns]:
        """Yield the records, without those of `aborted`. Raise errors as `Log.records`."""
        parts = retry_each(partial(self._columns, threads, check_crcs))
        return parts if aborted is None else filter(len, map(aborted.left_out_of, parts))

    def _columns(self, threads: int, check_crcs: bool) -> Iterator[RecordColumns]:
        """Yield the records from the next one on.

        Raises:
            CorruptRecordError: Damage, an offset outside its segment, or a change of the log.
        """
        rows, start = None, self._next
        for chunk, part in _decoded(self._chunks(RUN_BYTES if threads == 1 else THREAD_RUN_BYTES), threads, check_crcs):
            if part is None:
                self._pass(chunk)
                continue
            if part.batches is not rows:
                # Parts of the same batches begin at the same offset, as if they were one.
                rows, start = part.batches, self._next
            wanted, lowest, highest = part.narrowed(start, self._stop)
            own, foreign = len(part), -1
            if lowest < chunk.segment.base_offset or highest >= chunk.following:
                own, foreign = _own(chunk, part)
                wanted = part[:own].between(start, self._stop)
            # What is read beyond the end is not returned, and is read again if the scan goes on.
            done = own if highest < self._stop else int((part.offset[:own] < self._stop).sum())
            if len(wanted):
                yield wanted
            if done:
                self._last = self._batch(chunk, part.batches[part.batch[done - 1]])
                self._next = max(start, int(part.offset[done - 1]) + 1)
            if foreign >= 0:
                raise self._foreign_offset(chunk, part, foreign)
            # A reference would keep the decompressed bytes alive while the next ones are decompressed.
            del part, wanted

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches. Raise errors as `Log.records`."""
        for chunk in retry_each(partial(self._chunks, RUN_BYTES)):
            for batch in batches_of(chunk.entries, chunk.reading):
                if batch.magic >= 2 and batch.base_offset >= self._stop:
                    return
                if batch.last_offset >= self._next:
                    self._next = batch.last_offset + 1
                    yield batch
                if self._next >= self._stop:
                    return
            self._pass(chunk)

    def _pass(self, chunk: _Chunk) -> None:
        """Note that the records of a chunk have been returned, unless it reaches beyond the end."""
        last = self._batch(chunk, chunk.entries.rows[-1])
        if last.last_offset < self._stop:
            self._last, self._next = last, max(self._next, last.last_offset + 1)

    def _batch(self, chunk: _Chunk, row: np.void) -> LastBatch:
        return LastBatch(self._directory, chunk.segment.base_offset, row, chunk.file)

    # --- reading

    def _chunks(self, span: int) -> Iterator[_Chunk]:
        """Yield the batches from the next offset on, in chunks of about `span` bytes.

        Raises:
            ChangedWhileReading: The batch before a chunk is not in the log any more.
            LogTruncatedError: The last batch that was returned is not in the log any more, or the log ends before the
                end to reach.
            CorruptRecordError: Damage in the framing.
            FileNotFoundError, OffsetOutOfRangeError: Records were deleted before they were read.
        """
        at, last = self._next, self._last
        if last is not None and last.was_cut_off(self._segments_now):
            raise self._truncated(at)
        while at < self._stop and (found := self._segment(at, last)) is not None:
            segment, following = found
            message_set, position, entries = _first(segment, at, last)
            reach = span if entries is None else RUN_GROWTH * len(entries.view)
            if entries is None:
                self._set_out()
                entries = _read(message_set, position, reach)
            while entries is not None:
                self._check_is_there(last, segment)
                chunk = _Chunk(segment, following, message_set.source.scanned, message_set._reading, entries)
                yield chunk
                last = self._batch(chunk, entries.rows[-1])
                at, position = max(at, last.last_offset + 1), last.end
                if at >= self._stop:
                    return
                self._set_out()
                reach = min(span, reach)
                entries, reach = _read(message_set, position, reach), RUN_GROWTH * reach
            if following >= self._stop:
                # Otherwise the next chunk checks it.
                self._check_is_there(last, segment)
            if following != _base(self._segments_now().higher(segment.base_offset)):
                # The segment may have become longer.
                continue
            if following == NO_END:
                if last is not None:
                    self._check_end(at, segment, message_set, position)
                return
            at = max(at, following)

    def _segment(self, at: int, last: LastBatch | None) -> tuple[LogSegment, int] | None:
        """Return the segment of an offset and the base offset of the next one; None at the end.

        Raises:
            OffsetOutOfRangeError: The records at the offset have been deleted.
            LogTruncatedError: There are no segments any more.
        """
        segment, following = self._segments_now().floor_and_next(at)
        if segment is None and last is not None:
            raise self._truncated(at)
        if segment is None:
            return None
        if segment.base_offset > at and last is not None:
            message, expected = "records were deleted before they were read", f"{segment.base_offset} or more"
            raise OffsetOutOfRangeError(message, str(self._directory), None, expected, at)
        if segment.base_offset >= self._stop:
            return None
        return segment, _base(following)

    # --- changes

    def _set_out(self) -> None:
        """Note the present end of the log, unless it is known."""
        if self._goal is None:
            self._goal = retry(self._end_to_reach)

    def _check_end(self, at: int, segment: LogSegment, message_set: FileMessageSet, position: int) -> None:
        """Check that the log may end at a position of its last segment.

        Raises:
            ChangedWhileReading: There are other bytes than batches before the end to reach.
            LogTruncatedError: The log ends before the end to reach.
        """
        goal = self._goal
        if goal is None or at >= min(self._stop, goal.message_offset):
            return
        if segment.base_offset == goal.segment_base_offset:
            end = goal.relative_position_in_segment
            if position == end:
                # Offsets may be left out before the log end: a truncation removes whole batches.
                return
            if position < end <= message_set.size_in_bytes:
                message = f"no batch follows, but the log ended at offset {goal.message_offset} when reading began"
                found = f"an end at offset {self._log_end().message_offset}"
                # A writer may have truncated the file, and be writing a batch.
                raise ChangedWhileReading(message, message_set.path, position, f"batches up to {end}", found)
        raise self._truncated(at)

    def _check_is_there(self, last: LastBatch | None, segment: LogSegment) -> None:
        """Check that what was read of a segment, or is to be read, follows the batch `last`.

        Raises:
            ChangedWhileReading: The batch is not in the log any more, or another one follows it in its segment.
        """
        if last is None:
            return
        if last.was_cut_off(self._segments_now, is_last=last.base_offset != segment.base_offset):
            raise ChangedWhileReading("the log changed while it was read", str(last.path), last.position)

    def _truncated(self, at: int) -> LogTruncatedError:
        return LogTruncatedError.of(str(self._directory), at - 1, self._log_end().message_offset)

    def _foreign_offset(self, chunk: _Chunk, part: RecordColumns, wrong: int) -> CorruptRecordError:
        """Return the error for an offset outside its segment, which is a change if the segments are others now."""
        batch = self._batch(chunk, part.batches[part.batch[wrong]])
        deadline = time.monotonic() + _BEGINS_ANEW_SECONDS
        while True:
            segments = self._segments_now()
            following = segments.higher(batch.base_offset)
            if segments.get(batch.base_offset) is not chunk.segment or _base(following) != chunk.following:
                return ChangedWhileReading("the log changed while it was read", str(batch.path), batch.position)
            # A log begins anew with an empty segment, before the last of the old ones is deleted.
            if following is None or following.size_in_bytes or time.monotonic() > deadline:
                what, expected = "an offset that is not of this segment", f"{batch.base_offset}..{chunk.following - 1}"
                return CorruptRecordError(what, str(batch.path), batch.position, expected, int(part.offset[wrong]))
            time.sleep(_PAUSE_SECONDS)


def _base(following: LogSegment | None) -> int:
    """Return the base offset of the next segment; NO_END if there is none."""
    return NO_END if following is None else following.base_offset


def _first(segment: LogSegment, at: int, last: LastBatch | None) -> tuple[FileMessageSet, int, Entries | None]:
    """Return the file of a segment, the position to read from, and the first batch if a search has loaded it."""
    if segment.base_offset >= at:
        # It is closed once nothing refers to it: a full scan does not evict the open files of other readers.
        return segment.opened(), 0, None
    log = segment.log
    if last is not None and last.base_offset == segment.base_offset and last.is_in_place:
        return log, last.end if last.last_offset < at else last.position, None
    found = at_one_moment(log.source, partial(segment.load_entry, at))
    return log, log.size_in_bytes if found is None else found.position, found


def _read(message_set: FileMessageSet, position: int, span: int) -> Entries | None:
    """Return the batches at a position as they were at one moment; None at the end."""
    return at_one_moment(message_set.source, partial(message_set.load, position, span))


# --- decoding

# A chunk with some of its records, or with None after all of them.
_Decoded = tuple[_Chunk, RecordColumns | None]


def _decoded(chunks: Iterator[_Chunk], threads: int, check_crcs: bool) -> Iterator[_Decoded]:
    work = partial(_parts, check_crcs=check_crcs)
    if threads == 1:
        return chain.from_iterable(map(work, chunks))
    return ordered_map(work, chunks, threads, weigh=_weight, most=MOST_WAITING_BYTES, pays=_pays)


def _parts(chunk: _Chunk, *, check_crcs: bool) -> Iterator[_Decoded]:
    reading = chunk.reading if check_crcs else replace(chunk.reading, check_crcs=False)
    for part in read_pieces(chunk.entries, reading):
        yield chunk, part
        # As in `Walk._columns`.
        del part
    yield chunk, None


def _weight(decoded: _Decoded) -> int:
    return 0 if decoded[1] is None else memory_of(decoded[1])


def _pays(chunk: _Chunk) -> bool:
    return pays_in_threads(chunk.entries)


def _own(chunk: _Chunk, part: RecordColumns) -> tuple[int, int]:
    """Find the first record whose offset is outside the segment: no checksum covers offsets.

    Returns:
        The number of records before its batch, so that the batch is read again before its error is raised; its index.
    """
    foreign = int(((part.offset < chunk.segment.base_offset) | (part.offset >= chunk.following)).argmax())
    return int(np.searchsorted(part.batch, part.batch[foreign])), foreign
