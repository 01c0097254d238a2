"""The next damage or transaction of a partition, looked for from segment to segment, in steps.

    here        segment 0     read to its end: no damage behind the cursor
    then        segment 20    34% read: none so far
    found       segment 40    position 10848

What is behind the cursor is known once the headers up to there, and the checksums for damage, have been read. Each step
is one of some ms in the partition's own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        # Whose transaction the batch is of that was found last, or is begun from; it may go on in the next segment.
        self._producer: int | None = None
        here = browsing.place_here
        self._steps = self._through(browsing.segment, None if here is None else here.position)

    async def next(self) -> Place | None:
        """Return where the next one begins; None: there is no more."""
        while (place := await self._browsing.ask(next, self._steps, None)) == "reading":
            self._stepped()
        return place

    # In the partition's thread; each step takes some ms.

    def _through(self, segment: SegmentReader | None, start: int | None) -> Iterator[Place | Literal["reading"]]:
        """Yield the places in one segment after the other; "reading" after a step in which none was found."""
        base_offset = self.base_offset
        while segment is not None and base_offset is not None:
            yield from self._in_segment(segment, base_offset, start)
            start = None
            if (base_offset := self._browsing.neighbour(base_offset, self.forwards)) is not None:
                segment = self._browsing.reader.segment(base_offset, "hunt")
                self.base_offset, self.progress = base_offset, None
                self.unread += segment.problem is not None
                yield "reading"

    def _in_segment(
        self, segment: SegmentReader, base_offset: int, start: int | None
    ) -> Iterator[Place | Literal["reading"]]:
        """Begin at a position; None: at the end that one comes to first."""
        row = -1 if start is None and self.forwards else None
        is_stuck = False
        while True:
            known = self._known(segment)
            if row is None and (row := self._begun_from(segment, start, known)) is not None:
                self._producer = segment.producer_at(row)
            found = None if row is None else self._found(segment, row)
            batch = None if found is None else segment.batch(found)
            if found is not None and batch is not None and (not self.forwards or known > batch.position or is_stuck):
                yield Place(base_offset, batch.position, None, found, segment.generation)
                row, self._producer = found, segment.producer_at(found)
                continue
            is_looked_through = row is not None and batch is None and (not self.forwards or known >= segment.size)
            if is_looked_through or is_stuck:
                return
            if row is not None and batch is None and self.what == "transaction":
                # Not to be looked through again; the last row may be a tail that becomes a batch.
                row = max(row, segment.batches - 2)
            before, self.progress = self.progress, segment.index_more()
            is_stuck = self.progress == before
            yield "reading"

    def _found(self, segment: SegmentReader, row: int) -> int | None:
        if self.what == "damage":
            return segment.next_damage(row, self.forwards)
        return segment.next_transaction(row, self.forwards, self._producer)

    def _begun_from(self, segment: SegmentReader, start: int | None, known: int) -> int | None:
        """Return the batch that is begun from, once all is known that matters; None: reading on will tell."""
        if not self.forwards and known < (segment.size if start is None else min(segment.size, start)):
            return None
        row = None if start is None else segment.batch_at(position=start)
        return segment.batches if row is None and (start is None or segment.is_walked) else row

    def _known(self, segment: SegmentReader) -> int:
        """Return the number of bytes of which all that matters is known."""
        if self.what == "damage":
            return segment.checked_bytes
        return segment.size if segment.is_walked else segment.indexed_bytes
