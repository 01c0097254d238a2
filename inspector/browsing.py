"""The state of browsing a partition, shared by all of its views, and their calls of the model.

All access to files goes through the desk (the worker thread) of the partition, so that the model has one call at a
time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from .desk import Desk
from .model.decoders import Formats

if TYPE_CHECKING:
    from kafkalog.scan.progress import Progress

    from .jobs.runs import SearchRun
    from .model.partition import PartitionReader
    from .model.segment import SegmentReader
    from .model.types import PartitionState, Place, SegmentRow
    from .session import Session

P = ParamSpec("P")
T = TypeVar("T")


class Browsing:
    """The selected segment and place of a partition.

    Attributes:
        session: What all screens share.
        reader: The reader of the partition.
        desk: The worker thread of the partition.
        state: The state of the partition when it was last read.
        formats: The formats of its keys and values.
        segment: The reader of the selected segment; None: none is selected.
        base_offset: The base offset of the selected segment.
        progress: How many bytes of the segment are indexed; None: unknown so far.
        batches: The number of batches read so far.
        records: The number of records read so far.
        place: The position and offset that all views show.
        is_waiting: Whether `place` is after the headers of the segment that have been read.
        following: Whether the views stay at the end of the log as it grows.
        ending: Whether the views stay at the end of the rows until all are read.
        search: The current or last search.
        version: A number that rises when rows read before are not valid any more.
    """

    def __init__(self, session: Session, reader: PartitionReader, desk: Desk, state: PartitionState) -> None:
        self.session = session
        self.reader = reader
        self.desk = desk
        self.state = state
        self.formats = Formats.of(state.name, session.schemas)
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
        # Set when the user goes to the end before all rows are read.
        self.ending = False
        self.search: SearchRun | None = None
        # Rises when another segment is selected, or the segment was truncated.
        self.version = 0

    async def ask(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the thread of the partition and return its result."""
        return await self.desk(function, *args, **kwargs)

    @property
    def row(self) -> SegmentRow | None:
        """The row of the selected segment; None: it does not exist any more."""
        return next((row for row in self.state.segments if row.base_offset == self.base_offset), None)

    @property
    def is_indexed(self) -> bool:
        """Whether all headers and checksums of the segment have been read."""
        return self.progress is not None and self.progress.is_done

    @property
    def at_end(self) -> bool:
        """Whether the views stay at the end as it moves."""
        return self.following or self.ending

    @property
    def is_read(self) -> bool:
        """Whether all rows of the selected segment are read; True if none is selected."""
        return self.segment is None or self._is_walked

    def neighbour(self, base_offset: int | None, forwards: bool) -> int | None:
        """Return the base offset of the segment after (or before) another, the first (or last) of all after None.

        None if there is none. The other may have been deleted.
        """
        bases = [row.base_offset for row in self.state.segments]
        here = base_offset
        beyond = [base for base in bases if here is None or (base > here if forwards else base < here)]
        return None if not beyond else beyond[0 if forwards else -1]

    async def select(self, base_offset: int) -> None:
        """Select a segment, and forget the progress of the one before."""
        # The caller may be cancelled while it waits, so all fields are assigned after that.
        segment = await self.ask(self.reader.segment, base_offset)
        counts = await self.ask(_counts, segment)
        self.segment, self.base_offset = segment, base_offset
        self.batches, self.records, self._walked, self._is_walked = counts
        self.progress = None
        self.version += 1

    async def read_more(self) -> None:
        """Read the next headers of the selected segment."""
        segment = self.segment
        if segment is None:
            return
        progress = await self.ask(segment.index_more)
        counts = await self.ask(_counts, segment)
        if segment is self.segment:
            self.progress = progress
            self.batches, self.records, self._walked, self._is_walked = counts

    async def read_through(self, base_offset: int) -> None:
        """Read all headers of a segment that is not selected."""
        segment = await self.ask(self.reader.segment, base_offset, "count")
        before = None
        # At least once: it may have been read before, and have grown since.
        while (progress := await self.ask(segment.index_more)) != before and not segment.is_walked:
            before = progress

    @property
    def place_here(self) -> Place | None:
        """The place, if it is in the selected segment."""
        place = self.place
        return place if place is not None and place.base_offset == self.base_offset else None

    @property
    def is_reached(self) -> bool:
        """Whether the headers at `place` have been read."""
        place = self.place_here
        return place is not None and self.progress is not None and (self._walked > place.position or self._is_walked)

    async def batch_at_place(self) -> int | None:
        """Return the row of the batch at `place`; None if there is none in the selected segment."""
        segment, place = self.segment, self.place_here
        return None if segment is None or place is None else await self.ask(segment.batch_of, place)

    async def record_at_place(self) -> int | None:
        """Return the row of the record at `place`, or else of the first record of its batch; None if there is none."""
        segment, place = self.segment, self.place_here
        return None if segment is None or place is None else await self.ask(segment.record_of, place)


def _counts(segment: SegmentReader) -> tuple[int, int, int, bool]:
    return segment.batches, segment.records, segment.indexed_bytes, segment.is_walked
