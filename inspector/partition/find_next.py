"""The next damage or transaction of a partition, looked for from segment to segment, in steps.

    here        segment 0     read to its end: no damage behind the cursor
    then        segment 20    34% read: none so far
    found       segment 40    position 10848

What is behind the cursor is known once the headers up to there, and the checksums for damage, have been read. Each step
is one of some ms in the partition's own thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from kafkalog.scan.progress import Progress

from ..browsing import Browsing
from ..model.segment import SegmentReader
from ..model.types import Place

Kind: TypeAlias = Literal["damage", "transaction"]


class Hunt:
    """A search for damage or transactions. base_offset: of the segment reached; progress: what of it has been read.

    unread: segments that could not be read, and were passed over. stepped: called between steps.
    """

    def __init__(self, browsing: Browsing, what: Kind, forwards: bool, stepped: Callable[[], None]) -> None:
        self.what = what
        self.forwards = forwards
        self.unread = 0
        self.base_offset = browsing.base_offset
        self.progress: Progress | None = None
        self._browsing = browsing
        self._stepped = stepped
        self._segment: SegmentReader | None = browsing.segment
        here = browsing.place
        # Where it begins in a segment: None = at the end that one comes to first.
        self._start = here.position if here is not None and here.base_offset == self.base_offset else None
        # The batch that was found last, or is begun from; None: reading on will tell.
        self._row: int | None = -1 if self._start is None else None
        # Whose transaction that batch is of.
        self._producer: int | None = None

    async def next(self) -> Place | None:
        """Return where the next one begins; None: there is no more."""
        while self._segment is not None:
            place = await self._next_in_segment(self._segment)
            if place is not None:
                return place
            await self._go_on()
        return None

    async def _next_in_segment(self, segment: SegmentReader) -> Place | None:
        ask, before = self._browsing.ask, None
        while True:
            is_sure, place = await ask(self._look, segment)
            if is_sure:
                return place
            self.progress = await ask(segment.index_more)
            self._stepped()
            if self.progress == before:
                return place
            before = self.progress

    async def _go_on(self) -> None:
        """Go to the segment beside."""
        self._segment, self._row, self._start, self.progress = None, None, None, None
        following = self._browsing.neighbour(self.base_offset, self.forwards)
        if following is not None:
            self.base_offset = following
            self._segment = await self._browsing.ask(self._opened, following)

    # In the partition's thread.

    def _opened(self, base_offset: int) -> SegmentReader:
        segment = self._browsing.reader.segment(base_offset, "hunt")
        self.unread += segment.problem is not None
        return segment

    def _look(self, segment: SegmentReader) -> tuple[bool, Place | None]:
        """Return whether reading on would tell nothing else, and where the next one is, as far as it is known."""
        row = self._row_begun_from(segment)
        if row is None:
            return False, None
        found = self._found(segment, row)
        batch = None if found is None else segment.batch(found)
        if found is None or batch is None or self.base_offset is None:
            return not self.forwards or self._known(segment) >= segment.size, None
        place = Place(self.base_offset, batch.position, None, found, segment.generation)
        if self.forwards and self._known(segment) <= batch.position:
            return False, place
        self._row, self._producer = found, segment.producer_at(found)
        return True, place

    def _found(self, segment: SegmentReader, row: int) -> int | None:
        if self.what == "damage":
            return segment.next_damage(row, self.forwards)
        found = segment.next_transaction(row, self.forwards, self._producer)
        if found is None and self.forwards:
            # Not to be looked through again; the last row may be a tail that becomes a batch.
            self._row = max(row, segment.batches - 2)
        return found

    def _row_begun_from(self, segment: SegmentReader) -> int | None:
        if self._row is None and self._start is not None:
            self._row = segment.batch_at(position=self._start)
            if self._row is not None:
                self._producer = segment.producer_at(self._row)
            elif segment.is_walked:
                self._row = segment.batches
        elif self._row is None and self.forwards:
            self._row = -1
        elif self._row is None and self._known(segment) >= segment.size:
            self._row = segment.batches
        is_known = self.forwards or self._known(segment) >= min(segment.size, self._start or 0)
        return self._row if is_known else None

    def _known(self, segment: SegmentReader) -> int:
        """Return the number of bytes of which all that matters is known."""
        if self.what == "damage":
            return segment.checked_bytes
        return segment.size if segment.is_walked else segment.indexed_bytes
