"""What is being looked at in a partition: one value that all of its views share, and what they ask of the model.

All that touches files goes through the desk of the partition, so that the model is asked one thing at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from inspector.desk import Desk

if TYPE_CHECKING:
    from inspector.background.runs import SearchRun
    from inspector.reading.answers import PartitionState, Place, SegmentRow
    from inspector.reading.batches import SegmentReader
    from inspector.reading.partition import PartitionReader
    from kafkalog.scan.progress import Progress

P = ParamSpec("P")
T = TypeVar("T")


class Browsing:
    """state, segment, progress: as last heard of. place: the position and offset that the views agree on.

    is_waiting: `place` has been asked for, but the segment's headers have not been read so far.
    """

    def __init__(self, reader: PartitionReader, desk: Desk, state: PartitionState) -> None:
        self.reader = reader
        self.desk = desk
        self.state = state
        self.segment: SegmentReader | None = None
        self.base_offset: int | None = None
        self.progress: Progress | None = None
        self.batches = 0
        self.records = 0
        # Bytes of the segment whose headers have been read, and whether these are all.
        self._walked = 0
        self._is_walked = False
        self.place: Place | None = None
        self.is_waiting = False
        self.following = False
        # The end of what is read of the segment is stayed at until all is read: somebody went to the end before.
        self.ending = False
        # What is searched for, or was.
        self.search: SearchRun | None = None
        # Rises when rows that were read before are of something else: another segment, or one that was cut.
        self.version = 0

    async def ask(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In the partition's own thread."""
        return await self.desk(function, *args, **kwargs)

    @property
    def row(self) -> SegmentRow | None:
        """The segment that is looked at; None: it is no longer there."""
        return next((row for row in self.state.segments if row.base_offset == self.base_offset), None)

    @property
    def is_indexed(self) -> bool:
        """Whether all headers and checksums of the segment have been read."""
        return self.progress is not None and self.progress.is_done

    @property
    def at_end(self) -> bool:
        """Whether the end is stayed at, as it moves."""
        return self.following or self.ending

    @property
    def is_read(self) -> bool:
        """Whether no more rows are to come of what is looked at: also where there is nothing."""
        return self.segment is None or self._is_walked

    def neighbour(self, step: int) -> int | None:
        """The base offset of the segment so many further on."""
        bases = [row.base_offset for row in self.state.segments]
        if self.base_offset not in bases:
            return bases[-1] if bases else None
        i = bases.index(self.base_offset) + step
        return bases[i] if 0 <= i < len(bases) else None

    async def select(self, base_offset: int) -> None:
        """Another segment; nothing of it has been read yet."""
        # All of it or nothing: who asks may be stopped where it waits.
        segment, counts = await self.ask(_counted, self.reader, base_offset)
        self.segment, self.base_offset = segment, base_offset
        self.batches, self.records, self._walked, self._is_walked = counts
        self.progress = None
        self.version += 1

    async def read_more(self) -> None:
        """The next headers of the segment."""
        segment = self.segment
        if segment is None:
            return
        progress = await self.ask(segment.index_more)
        counts = await self.ask(_counts, segment)
        if segment is self.segment:
            self.progress = progress
            self.batches, self.records, self._walked, self._is_walked = counts

    async def read_through(self, base_offset: int) -> None:
        """All headers of a segment that is not looked at."""
        segment = await self.ask(self.reader.segment_in_passing, base_offset)
        before = None
        while not segment.is_walked and (progress := await self.ask(segment.index_more)) != before:
            before = progress

    async def is_reached(self) -> bool:
        """Whether the headers at `place` have been read."""
        if self.place is None or self.progress is None or self.place.base_offset != self.base_offset:
            return False
        return self._walked > self.place.position or self._is_walked

    async def batch_at_place(self) -> int | None:
        """The row of the batch at `place`."""
        if self.place is None or self.segment is None or self.place.base_offset != self.base_offset:
            return None
        return await self.ask(self.segment.batch_at, position=self.place.position)

    async def record_at_place(self) -> int | None:
        """The row of the record at `place`, or of the first of its batch."""
        if self.place is None or self.segment is None or self.place.base_offset != self.base_offset:
            return None
        if self.place.offset is None:
            return await self.ask(_first_record, self.segment, self.place.position)
        return await self.ask(self.segment.record_at, self.place.offset)


def _counted(reader: PartitionReader, base_offset: int) -> tuple[SegmentReader, tuple[int, int, int, bool]]:
    segment = reader.segment(base_offset)
    return segment, _counts(segment)


def _counts(segment: SegmentReader) -> tuple[int, int, int, bool]:
    return segment.batches, segment.records, segment.indexed_bytes, segment.is_walked


def _first_record(segment: SegmentReader, position: int) -> int | None:
    row = segment.batch_at(position=position)
    return None if row is None else segment.first_record_of(row)
