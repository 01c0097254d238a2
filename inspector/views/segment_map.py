"""The segment as a strip of cells, each of so many bytes, and what lies in the cell under the cursor."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Static

from .. import messages, text
from ..browsing import Browsing
from ..model.types import Place
from ..widgets.strip import SegmentStrip
from .view import View, start

if TYPE_CHECKING:
    from ..model.types import BatchRow, Cell

BETWEEN_DRAWINGS_SECONDS = 0.3
CELL_BYTES = 64
LEGEND = "1-9 + batches begin  t txn  c control  a aborted  ! damaged  . unread  _ empty"


class SegmentMapView(View):
    """Enter opens the batches of a cell."""

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self._cells: list[Cell] = []
        self._drawn = 0.0

    def compose(self) -> ComposeResult:
        yield Static(Text(LEGEND), classes="heading")
        yield SegmentStrip()
        yield Static(classes="facts")

    @property
    def _strip(self) -> SegmentStrip:
        return self.query_one(SegmentStrip)

    @property
    def focus_target(self) -> Widget | None:
        return self._strip

    async def appear(self) -> None:
        await self._draw()
        place = self.browsing.place
        if place is not None and place.base_offset == self.browsing.base_offset:
            self._strip.go(self._cell_at(place.position))
            await self._tell_cell()
        else:
            await self._look_at()

    async def indexed(self) -> None:
        if self.browsing.is_indexed or time.monotonic() - self._drawn > BETWEEN_DRAWINGS_SECONDS:
            await self._draw()
            await self._tell_cell()

    async def _draw(self) -> None:
        segment, wanted = self.browsing.segment, self._cells_wanted()
        if segment is None or wanted == 0:
            return
        self._cells = await self.browsing.ask(segment.strip, wanted)
        self._drawn = time.monotonic()
        self._strip.show(self._cells)
        if self.browsing.at_end:
            self._strip.go(len(self._cells) - 1)

    def _cells_wanted(self) -> int:
        """Return the number of cells: as many as fit, but beyond the first line none of less than `CELL_BYTES`."""
        row = self.browsing.row
        return min(self._strip.cells_wanted, max(self._strip.size.width, (row.bytes if row else 0) // CELL_BYTES))

    def _cell_at(self, position: int) -> int:
        return max((i for i, cell in enumerate(self._cells) if cell.position <= position), default=0)

    def on_segment_strip_resized(self, message: SegmentStrip.Resized) -> None:
        message.stop()
        if self.display:
            start(self, "draw", self.appear)

    def on_segment_strip_moved(self, message: SegmentStrip.Moved) -> None:
        message.stop()
        start(self, "cell", self._look_at)

    async def _look_at(self) -> None:
        batch = await self._tell_cell()
        if batch is not None and self.browsing.base_offset is not None and not self.browsing.is_waiting:
            self.browsing.place = Place(self.browsing.base_offset, batch.position)

    async def _tell_cell(self) -> BatchRow | None:
        """Show what is in the cell, and its first batch."""
        facts, segment = self.query_one(".facts", Static), self.browsing.segment
        if segment is None or not self._cells:
            facts.update(Text("no batches" if self.browsing.is_read else "reading …"))
            return None
        cell = self._cells[min(self._strip.cursor, len(self._cells) - 1)]
        place = f"cell {self._strip.cursor + 1:,} of {len(self._cells):,}: {cell.kind}, "
        place += f"{text.size(cell.bytes)} from position {cell.position:,}"
        if cell.first_row < 0:
            facts.update(Text(f"{place}\nno batch begins here"))
            row = await self.browsing.ask(segment.batch_at, position=cell.position)
            return None if row is None else await self.browsing.ask(segment.batch, row)
        batch = await self.browsing.ask(segment.batch, cell.first_row)
        count = cell.batches
        begins = None if batch is None else batch.base_offset
        offsets = "" if begins is None else f", from offset {text.number(begins)}"
        when = "" if batch is None else self.session.times.full(batch.max_timestamp)
        facts.update(Text(f"{place}\n{count:,} {'batch' if count == 1 else 'batches'}{offsets}  {when}"))
        if batch is not None:
            self.post_message(messages.Told(batch.problem))
        return batch

    def on_segment_strip_chosen(self, message: SegmentStrip.Chosen) -> None:
        message.stop()
        self.post_message(messages.OpenView("batches"))
