"""The map of a segment: a cell for so many bytes, with the symbol and the colour of the worst batch in them.

    1--1----2-112-1--tttttttt3-1--2-----!!--1-------      1-9 batches begin, + more, - none of plain data
    1----ttttttttcaaaac2----1------      t transactional   c control   a aborted   ! corrupt

A . has not been read yet, _ is room for what is to come. The cell of the cursor is reversed and underlined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ..columns import SYMBOLS
from ..keys import bindings
from ..model.types import Cell


class SegmentStrip(Widget, can_focus=True):
    """A segment as a strip of `cells_wanted` cells, which `show` is given; keys move `cursor`, the index of a cell."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"segment-strip--{kind}" for kind in (*SYMBOLS, "cursor")}
    BINDINGS: ClassVar[list[BindingType]] = bindings("map")

    class Moved(Message):
        """The cursor is at another cell."""

    class Chosen(Message):
        """Enter, or a click at the cell where the cursor was."""

    class ShadeWanted(Message):
        """Message: the user wants the cells to show their next property."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: Sequence[Cell] = ()
        self.shades: Sequence[str] = ()
        self.cursor = 0

    @property
    def cells_wanted(self) -> int:
        """How many have room."""
        return self.size.width * self.size.height

    def show(self, cells: Sequence[Cell], shades: Sequence[str] = ()) -> None:
        """Show other cells; the cursor stays where it is, as far as it can.

        Args:
            cells: The cells.
            shades: A symbol for each cell, "" for that of its kind; empty: those of the kinds.
        """
        self.cells, self.shades = cells, shades
        self.cursor = max(0, min(self.cursor, len(cells) - 1))
        self.refresh()

    def go(self, cell: int) -> None:
        """Move the cursor to a cell."""
        before, self.cursor = self.cursor, max(0, min(cell, len(self.cells) - 1))
        self.refresh()
        if before != self.cursor:
            self.post_message(self.Moved())

    def render_line(self, y: int) -> Strip:
        """Return one line of the map."""
        width = self.size.width
        first = y * width
        segments = []
        for i, cell in enumerate(self.cells[first : first + width], first):
            style = self.get_component_rich_style(f"segment-strip--{cell.kind}")
            if i == self.cursor:
                style = style + self.get_component_rich_style("segment-strip--cursor", partial=True)
            segments.append(Segment((self.shades[i] if self.shades else "") or _symbol(cell), style))
        return Strip(segments).extend_cell_length(width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        cell = int(event.y) * self.size.width + int(event.x)
        if cell == self.cursor and event.chain == 2:
            self.post_message(self.Chosen())
        elif cell < len(self.cells):
            self.go(cell)

    def action_move(self, count: int) -> None:
        self.go(self.cursor + count)

    def action_move_lines(self, lines: int) -> None:
        """Move by lines; in the first one stay in the column."""
        if lines > 0 or self.cursor >= self.size.width:
            self.go(self.cursor + lines * self.size.width)

    def action_move_to_start(self) -> None:
        self.go(0)

    def action_move_to_end(self) -> None:
        self.go(len(self.cells) - 1)

    def action_shade(self) -> None:
        self.post_message(self.ShadeWanted())

    def action_choose(self) -> None:
        if self.cells:
            self.post_message(self.Chosen())


def _symbol(cell: Cell) -> str:
    """Return the symbol of the kind; of plain data the number of batches that begin in the cell."""
    if cell.kind != "data" or not cell.batches:
        return SYMBOLS[cell.kind]
    return str(cell.batches) if cell.batches < 10 else "+"
