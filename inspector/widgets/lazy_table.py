"""A table over millions of rows that costs what is seen of it.

    >  OFFSET  TIME                 KEY      VALUE       the titles stay; the column the keys are at is underlined
       1040    2026-01-31 10:00:00  alice    signed in
    >  1041    2026-01-31 10:00:01  bob      signed out  > is the cursor (reversed too: neither needs a colour)
    *! 1042    2026-01-31 10:00:02                       * a row that was marked; ! the symbol of the row itself

Rows are asked for by `read(first, count)`, a page at a time and only for pages that are seen, in a worker's thread;
until they come, an ellipsis stands for them. No cell is ever taken for markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from ..desk import Desk
from ..keys import bindings
from ..tables import MARKS, TONES, Column, ReadRows, Row
from .paged import PagedView

PAGE = 64
# Cursor, mark, the symbol of the row, a blank.
GUTTER = 4
NARROWEST, WIDEST = 3, 400


class LazyTable(PagedView[Sequence[Row]]):
    """A table of rows: `show` says how they are read, `grow` that there are more; the keys are at the row `cursor`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "lazy-table--titles",
        "lazy-table--column",
        "lazy-table--cursor",
        *(f"lazy-table--{mark}" for mark in MARKS),
        *(f"lazy-table--{tone}" for tone in TONES),
    }
    BINDINGS: ClassVar[list[BindingType]] = bindings("table")

    @dataclass
    class PastEnd(Message):
        """A key wants a row after the last one, or before the first."""

        forwards: bool

    @dataclass
    class SortWanted(Message):
        """The column to sort by; None: as the rows come."""

        column: int | None
        reverse: bool

    def __init__(self, columns: Sequence[Column], *, titles: bool = True) -> None:
        super().__init__(PAGE, titles=titles, unreadable=())
        self.columns = tuple(columns)
        self.widths = [column.width for column in columns]
        self.column = 0
        self.sorted_by: tuple[int, bool] | None = None
        self.marked: set[int] = set()
        self.sortable = True
        # Columns that the user has made wider or narrower.
        self._chosen: set[int] = set()

    # What is shown.

    def show(self, read: ReadRows, count: int, desk: Desk | None = None, *, cursor: int = 0) -> None:
        """Show other rows; without a desk they are asked for at once, as they are in memory."""
        self._show_pieces(read, desk)
        self.marked.clear()
        self._set_count(count)
        self._move(cursor, tell=True)

    def grow(self, count: int) -> None:
        """Take in a larger number of rows; those that were there are as they were."""
        if count < self.count:
            self.reread(count)
        elif count > self.count:
            self._forget(self.count)
            self._set_count(count)
            if self.following:
                self._move(count - 1, tell=True)

    def reread(self, count: int | None = None) -> None:
        """Read the same rows again, which may have changed; cursor and marks stay where they are."""
        self._forget()
        self._set_count(self.count if count is None else count)
        self.marked = {row for row in self.marked if row < self.count}
        self._move(self.cursor, tell=self.cursor >= self.count)

    def _row(self, row: int) -> Row | None:
        page, within = self._piece_with(row), row % PAGE
        return page[within] if page is not None and within < len(page) else None

    def _most_wanted(self) -> int:
        return 2 * (1 + self.size.height // PAGE)

    def _set_count(self, count: int) -> None:
        self.count = count
        self._resized()

    def _resized(self) -> None:
        self._share_room()
        width = GUTTER + sum(self.widths) + 2 * max(0, len(self.widths) - 1)
        self.virtual_size = Size(width, self.count + self.titles)
        self.refresh()

    def _share_room(self) -> None:
        """Divide the room that other columns leave among those with a share."""
        shares = {i: each.share for i, each in enumerate(self.columns) if each.share and i not in self._chosen}
        others = [i for i in range(len(self.columns)) if i not in shares]
        # The bar at the side comes only after this; without room for it another would come below.
        outer = self.outer_size
        bar = self.styles.scrollbar_size_vertical if self.count + self.titles > outer.height else 0
        room = outer.width - bar - GUTTER - 2 * (len(shares) - 1)
        room -= sum(self.widths[i] + 2 for i in others if not self.columns[i].aside)
        for i in (i for i in others if self.columns[i].aside):
            if room - self.widths[i] - 2 < 2 * sum(self.columns[i].width for i in shares):
                # For the mark at the end of the titles.
                room -= 2
                break
            room -= self.widths[i] + 2
        parts = sum(shares.values())
        for i, share in shares.items():
            self.widths[i] = max(self.columns[i].width, room * share // parts)
            room, parts = room - self.widths[i], parts - share

    # Drawing.

    def render_line(self, y: int) -> Strip:
        """Return a line of what is seen.

        `>` at the end of the titles says that there are columns to the right, `…` that a cell goes on there.
        """
        strip = super().render_line(y)
        width = self.scrollable_content_region.width
        edge = self.scroll_offset.x + width
        if self.virtual_size.width <= edge:
            return strip
        if self.titles and y == 0:
            return Strip([*strip.crop(0, width - 1), Segment(">", self.get_component_rich_style("lazy-table--titles"))])
        line = self._line(self.scroll_offset.y + y - self.titles)
        begin, end = next((each for each in self._edges() if each[0] < edge < each[1]), (edge, edge))
        # Of what is not seen at all, the titles tell.
        if not (line.crop(begin, edge).text.strip() and line.crop(edge, end).text.strip()):
            return strip
        (last,) = strip.crop(width - 1, width)
        return Strip([*strip.crop(0, width - 1), Segment("…", last.style)])

    def _edges(self) -> list[tuple[int, int]]:
        """Return where each column begins and ends, cells from the left of all."""
        ends = accumulate((width + 2 for width in self.widths), initial=GUTTER - 2)
        return [(end + 2, end + 2 + width) for end, width in zip(ends, self.widths, strict=False)]

    def _titles(self) -> Strip:
        plain = self.get_component_rich_style("lazy-table--titles")
        current = self.get_component_rich_style("lazy-table--column")
        segments = [Segment(" " * GUTTER, plain)]
        for i, column in enumerate(self.columns):
            title = self._title(i)
            text = _fitted(title, self.widths[i], column)
            segments.append(Segment(text, current if i == self.column and self.has_focus else plain))
            segments.append(Segment("  ", plain))
        return Strip(segments)

    def _title(self, i: int) -> str:
        if self.sorted_by is None or self.sorted_by[0] != i:
            return self.columns[i].title
        return ("v" if self.sorted_by[1] else "^") + self.columns[i].title

    def _line(self, number: int) -> Strip:
        if not 0 <= number < self.count:
            text = f"  {self.when_empty}" if self.count == 0 and number == 0 else ""
            return Strip([Segment(text, self.get_component_rich_style("lazy-table--muted"))])
        row = self._row(number)
        style = self.get_component_rich_style(f"lazy-table--{row.tone if row else 'muted'}")
        here = number == self.cursor
        if here and self.has_focus:
            style = style + self.get_component_rich_style("lazy-table--cursor", partial=True)
        gutter = f"{'>' if here else ' '}{'*' if number in self.marked else ' '}{row.symbol if row else ' '} "
        text = gutter + ("…" if row is None else "  ".join(self._cells(row)))
        text = text.ljust(self.size.width) if here else text
        if row is not None and row.marks:
            return Strip(list(self._marked(text, row, style)))
        return Strip([Segment(text, style)])

    def _marked(self, text: str, row: Row, style: Style) -> Iterator[Segment]:
        """Yield the text of a row in pieces, those that stand out in a style of their own."""
        cells = self._cells(row)
        done = 0
        for cell, start, end, kind in sorted(row.marks):
            begin = GUTTER + sum(len(each) + 2 for each in cells[:cell])
            left, right = (begin + min(each, len(cells[cell])) for each in (start, end))
            if done <= left < right:
                yield Segment(text[done:left], style)
                yield Segment(
                    text[left:right], style + self.get_component_rich_style(f"lazy-table--{kind}", partial=True)
                )
                done = right
        yield Segment(text[done:], style)

    def _cells(self, row: Row) -> list[str]:
        together = zip(row.cells, self.widths, self.columns, strict=True)
        return [_fitted(cell, width, column) for cell, width, column in together]

    # Moving.

    def _by_key(self, cursor: int) -> None:
        forwards = cursor > self.cursor
        if self.count and self.cursor == (self.count - 1 if forwards else 0) and not 0 <= cursor < self.count:
            self.post_message(self.PastEnd(forwards))
        super()._by_key(cursor)

    def has_room(self, keys: int) -> bool:
        """Return whether so many keys, each of a page at most, stay within the rows, either way."""
        return keys * self._lines_seen() < min(self.cursor, self.count - 1 - self.cursor)

    def action_move_column(self, step: int) -> None:
        """Go to another column, and scroll so that it is seen."""
        self.column = max(0, min(self.column + step, len(self.columns) - 1))
        begin, right = self._edges()[self.column]
        left = begin if self.column else 0
        seen = self.scrollable_content_region.width
        x = self.scroll_offset.x
        if left < x or right - left > seen:
            self.scroll_to(x=left, animate=False, immediate=True, force=True)
        elif right > x + seen:
            self.scroll_to(x=right - seen, animate=False, immediate=True, force=True)
        self.refresh()

    def action_widen(self, cells: int) -> None:
        """Make the column wider, or narrower."""
        self._chosen.add(self.column)
        self.widths[self.column] = max(NARROWEST, min(WIDEST, self.widths[self.column] + cells))
        self._resized()

    # Choosing, marking, sorting.

    def action_mark(self) -> None:
        if self.count:
            self.marked ^= {self.cursor}
            self._move(self.cursor + 1, by_user=True)

    def action_sort(self) -> None:
        """Sort up, down, and as the rows come, by turns."""
        is_up, is_down = (self.sorted_by == (self.column, reverse) for reverse in (False, True))
        self.post_message(self.SortWanted(None if is_down else self.column, is_up))

    def show_sorted(self, column: int | None, reverse: bool = False) -> None:
        """Show in the titles what the rows are sorted by."""
        self.sorted_by = None if column is None else (column, reverse)
        self.refresh()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Return whether a key does something here, and is in the footer."""
        if action in {"choose", "sort", "widen", "move_column"} and not self.titles:
            return False
        return self.sortable if action == "sort" else True

    # The mouse.

    def _at(self, x: int, y: int) -> int | None:
        del x
        row = self.scroll_offset.y + y - self.titles
        return row if y >= self.titles and 0 <= row < self.count else None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if not self.titles or event.y != 0:
            return
        x = self.scroll_offset.x + int(event.x)
        self.column = next((i for i, (_, end) in enumerate(self._edges()) if x < end + 2), len(self.widths) - 1)
        if self.sortable:
            self.action_sort()
        self.refresh()


def _fitted(text: str, width: int, column: Column) -> str:
    """Return the text padded or cut to exactly `width` cells; … marks where it was cut."""
    length = cell_len(text)
    if length > width:
        end = text[-(width // 2) :] if column.keeps_end and text.isascii() else ""
        return set_cell_size(text, width - 1 - len(end)) + "…" + end
    return " " * (width - length) + text if column.right else text + " " * (width - length)
