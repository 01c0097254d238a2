"""The segment as a strip of cells, each of so many bytes, and what lies in the cell under the cursor."""

from __future__ import annotations

import math
import time

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from .. import messages, text
from ..browsing import Browsing
from ..charts import BLOCKS, has_blocks
from ..model.types import BatchRow, Cell, Place
from ..widgets.strip import SegmentStrip
from .view import View, start

BETWEEN_DRAWINGS_SECONDS = 0.3
CELL_BYTES = 64
LEGEND = "1-9 + batches begin  t txn  c control  a aborted  ! damaged  . unread  _ empty"
SHADES = ("batches", "bytes a record", "time")
# Symbols of growing values.
BARS, PLAIN_BARS = BLOCKS[1:], "12345678"


class MapView(View):
    """Enter opens the batches of a cell."""

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self._cells: list[Cell] = []
        self._shade = SHADES[0]
        self._bars = BARS if has_blocks() else PLAIN_BARS
        self._drawn = 0.0
        self._strip = SegmentStrip()

    def compose(self) -> ComposeResult:
        yield Static(Text(LEGEND), classes="heading")
        yield self._strip
        yield Static(classes="facts")

    async def appear(self) -> None:
        before = self._strip.cursor
        await self._draw()
        place = self.browsing.place_here
        # A key that came while the cells were read has moved the cursor, and the place follows later.
        is_moved = self._strip.cursor != max(0, min(before, len(self._cells) - 1))
        if not is_moved and place is not None:
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
        self._show_cells()
        if self.browsing.at_end:
            self._strip.go(len(self._cells) - 1)

    def _show_cells(self) -> None:
        """Show the cells and the legend: kinds, or how large a value is between the least and the greatest."""
        values = [self._value(cell) for cell in self._cells]
        known = [value for value in values if value is not None]
        legend, shades = LEGEND, []
        if self._shade != SHADES[0]:
            least, most = min(known, default=0), max(known, default=0)
            last = len(self._bars) - 1
            shades = ["" if value is None else self._bars[round(last * _share(value, least, most))] for value in values]
            low, high = (self._written(value) for value in (least, most)) if known else ("", "unknown")
            legend = f"{self._shade}: {self._bars[0]} {low} .. {self._bars[-1]} {high}  ! damaged  . unread  _ empty"
        self.query_one(".heading", Static).update(Text(legend))
        self._strip.show(self._cells, shades)

    def _value(self, cell: Cell) -> float | None:
        """Return what the shade of a cell stands for; sizes on a logarithmic scale."""
        if cell.kind == "corrupt":
            return None
        if self._shade == "time":
            return cell.time
        return None if cell.record_bytes is None else math.log2(cell.record_bytes or 1)

    def _written(self, value: float) -> str:
        return self.session.times.short(int(value)) if self._shade == "time" else text.size(round(2**value))

    def on_segment_strip_shade_wanted(self) -> None:
        self._shade = SHADES[(SHADES.index(self._shade) + 1) % len(SHADES)]
        self._show_cells()

    def _cells_wanted(self) -> int:
        """Return the number of cells: as many as fit, but beyond the first line none of less than `CELL_BYTES`."""
        row = self.browsing.row
        return min(self._strip.cells_wanted, max(self._strip.size.width, (row.bytes if row else 0) // CELL_BYTES))

    def _cell_at(self, position: int) -> int:
        return max((i for i, cell in enumerate(self._cells) if cell.position <= position), default=0)

    def on_resize(self) -> None:
        if self.display:
            start(self, "draw", self.appear)

    def on_segment_strip_moved(self) -> None:
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
            return await self.browsing.ask(segment.batch_over, cell.position)
        batch = await self.browsing.ask(segment.batch, cell.first_row)
        count = cell.batches
        begins = None if batch is None else batch.base_offset
        offsets = "" if begins is None else f", from offset {text.number(begins)}"
        when = "" if batch is None else self.session.times.full(batch.max_timestamp)
        size = "" if cell.record_bytes is None else f"  {text.size(cell.record_bytes)} a record"
        facts.update(Text(f"{place}\n{count:,} {'batch' if count == 1 else 'batches'}{offsets}  {when}{size}"))
        if batch is not None:
            self.post_message(messages.Told(batch.problem))
        return batch

    def on_segment_strip_chosen(self) -> None:
        self.post_message(messages.OpenView("batches"))


def _share(value: float, least: float, most: float) -> float:
    """Return where a value is between the least and the greatest, 0 to 1."""
    return (value - least) / (most - least) if most > least else 0
