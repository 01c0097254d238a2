"""A table over millions of rows that costs what is seen of it.

    >  OFFSET  TIME                 KEY      VALUE       the titles stay; the column the keys are at is underlined
       1040    2026-01-31 10:00:00  alice    signed in
    >  1041    2026-01-31 10:00:01  bob      signed out  > is the cursor (reversed too: neither needs a colour)
    *! 1042    2026-01-31 10:00:02                       * a row that was marked; ! the symbol of the row itself

A source is asked for `rows(first, count)`, a page at a time and only for pages that are seen, in a worker's thread;
until they come, an ellipsis stands for them. No cell is ever taken for markup.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.desk import Desk
from inspector.keys import bindings
from inspector.rows import TONES, Column, Row, Rows, Source

if TYPE_CHECKING:
    from textual.worker import WorkType

PAGE = 64
PAGES_KEPT = 16
# Cursor, mark, the symbol of the row, a blank.
GUTTER = 4
NARROWEST, WIDEST = 3, 400


class LazyTable(ScrollView, can_focus=True):
    """See above. `show` gives it what to show, `grow` says that there is more, `cursor` is the row the keys are at."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "lazy-table--titles",
        "lazy-table--column",
        "lazy-table--cursor",
        "lazy-table--mark",
        *(f"lazy-table--{tone}" for tone in TONES),
    }
    BINDINGS: ClassVar[list[BindingType]] = bindings("table")

    class Moved(Message):
        """The cursor is at another row. by_user: somebody has moved it."""

        def __init__(self, table: LazyTable, row: int, *, by_user: bool = True) -> None:
            self.table = table
            self.row = row
            self.by_user = by_user
            super().__init__()

        @property
        def control(self) -> LazyTable:
            """The table."""
            return self.table

    class Chosen(Moved):
        """Enter, or a click at the row where the cursor was."""

    class SortWanted(Message):
        """The column to sort by; None: as the source has them."""

        def __init__(self, table: LazyTable, column: int | None, reverse: bool) -> None:
            self.table = table
            self.column = column
            self.reverse = reverse
            super().__init__()

        @property
        def control(self) -> LazyTable:
            """The table."""
            return self.table

    class Failed(Message):
        """Rows could not be read; they stay away."""

        def __init__(self, error: Exception) -> None:
            self.error = error
            super().__init__()

    class Paused(Message):
        """The user has scrolled up, away from the end that was followed."""

    class Resumed(Message):
        """The user has gone to the end."""

    def __init__(self, columns: Sequence[Column], *, titles: bool = True, flexible: int | None = None) -> None:
        """flexible: the column that takes what room the others leave."""
        super().__init__()
        self.columns = tuple(columns)
        self.titles = titles
        self.widths = [column.width for column in columns]
        self.cursor = 0
        self.count = 0
        self.column = 0
        self.sorted_by: tuple[int, bool] | None = None
        self.marked: set[int] = set()
        self.following = False
        self.when_empty = ""
        self.sortable = True
        self._source: Source = Rows()
        self._desk: Desk | None = None
        self._pages: OrderedDict[int, Sequence[Row]] = OrderedDict()
        self._wanted: list[int] = []
        self._loading = False
        # Rows that are on their way when this rises are of something that is shown no more.
        self._generation = 0
        self._dragged: int | None = None
        self._flexible = flexible

    # What is shown.

    def show(self, source: Source, count: int, desk: Desk | None = None, *, cursor: int = 0) -> None:
        """Rows of another source; without a desk they are asked for at once, as they are in memory."""
        self._source, self._desk = source, desk
        self.marked.clear()
        self._forget()
        self._set_count(count)
        self._go(cursor, tell=True)

    def grow(self, count: int) -> None:
        """So many rows now; those that were there are as they were."""
        if count < self.count:
            self.reread(count)
        elif count > self.count:
            self._pages.pop(self.count // PAGE, None)
            self._set_count(count)
            if self.following:
                self._go(count - 1, tell=True)

    def reread(self, count: int | None = None) -> None:
        """The same source, whose rows may have changed; cursor and marks stay where they are."""
        self._forget()
        self._set_count(self.count if count is None else count)
        self.marked = {row for row in self.marked if row < self.count}
        self._go(self.cursor, tell=self.cursor >= self.count)

    def row_under_cursor(self) -> Row | None:
        """None: it is not there, or not there yet."""
        return self._row(self.cursor) if self.cursor < self.count else None

    def _forget(self) -> None:
        self._generation += 1
        self._pages.clear()
        self._wanted.clear()

    def _set_count(self, count: int) -> None:
        self.count = count
        self._resized()

    def _resized(self) -> None:
        if self._flexible is not None:
            others = sum(width + 2 for i, width in enumerate(self.widths) if i != self._flexible)
            # The bar at the side comes only after this; without room for it another would come below.
            outer = self.outer_size
            bar = self.styles.scrollbar_size_vertical if self.count + self.titles > outer.height else 0
            room = outer.width - bar - GUTTER - others
            self.widths[self._flexible] = max(self.columns[self._flexible].width, room)
        width = GUTTER + sum(self.widths) + 2 * max(0, len(self.widths) - 1)
        self.virtual_size = Size(width, self.count + self.titles)
        self.refresh()

    # Reading.

    def _row(self, row: int) -> Row | None:
        number, within = divmod(row, PAGE)
        page = self._pages.get(number)
        if page is None and self._desk is None:
            page = self._keep(number, self._source.rows(number * PAGE, PAGE))
        if page is None:
            self._want(number)
            return None
        self._pages.move_to_end(number)
        return page[within] if within < len(page) else None

    def _keep(self, number: int, rows: Sequence[Row]) -> Sequence[Row]:
        self._pages[number] = rows
        while len(self._pages) > PAGES_KEPT:
            self._pages.popitem(last=False)
        return rows

    def _want(self, page: int) -> None:
        if page not in self._wanted:
            self._wanted.append(page)
        if not self._loading and self.is_attached:
            self._loading = True
            load: WorkType[None] = self._load
            self.run_worker(load, group="rows", exit_on_error=False)

    async def _load(self) -> None:
        """Page after page, the one that was asked for last first: it is the one that is seen."""
        try:
            while self._wanted and self._desk is not None:
                generation, page = self._generation, self._wanted.pop()
                rows = await self._read(page)
                if generation == self._generation:
                    self._keep(page, rows)
                    del self._wanted[: -2 * (1 + self.size.height // PAGE)]
                    self.refresh()
        except asyncio.CancelledError:
            self._wanted.clear()
            raise
        finally:
            self._loading = False

    async def _read(self, page: int) -> Sequence[Row]:
        assert self._desk is not None
        try:
            return await self._desk(self._source.rows, page * PAGE, PAGE)
        except Exception as error:  # noqa: BLE001 - told in its place; the program goes on
            self.post_message(self.Failed(error))
            return ()

    # Drawing.

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        x, top = self.scroll_offset
        strip = self._titles_strip() if self.titles and y == 0 else self._row_strip(top + y - self.titles, y)
        strip = strip.crop_extend(x, x + self.size.width, self.rich_style)
        return strip.apply_offsets(x, y)

    def _titles_strip(self) -> Strip:
        plain = self.get_component_rich_style("lazy-table--titles")
        current = self.get_component_rich_style("lazy-table--column")
        segments = [Segment(" " * GUTTER, plain)]
        for i, column in enumerate(self.columns):
            title = self._title(i)
            text = _fitted(title, self.widths[i], column.right)
            segments.append(Segment(text, current if i == self.column and self.has_focus else plain))
            segments.append(Segment("  ", plain))
        return Strip(segments)

    def _title(self, i: int) -> str:
        if self.sorted_by is None or self.sorted_by[0] != i:
            return self.columns[i].title
        return ("v" if self.sorted_by[1] else "^") + self.columns[i].title

    def _row_strip(self, number: int, y: int) -> Strip:
        if not 0 <= number < self.count:
            text = f"  {self.when_empty}" if self.count == 0 and y == self.titles else ""
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
        """The text of a row in pieces, those that stand out in a style of their own."""
        cells = self._cells(row)
        marked = style + self.get_component_rich_style("lazy-table--mark", partial=True)
        done = 0
        for cell, start, end in sorted(row.marks):
            begin = GUTTER + sum(len(each) + 2 for each in cells[:cell])
            left, right = (begin + min(each, len(cells[cell])) for each in (start, end))
            if done <= left < right:
                yield Segment(text[done:left], style)
                yield Segment(text[left:right], marked)
                done = right
        yield Segment(text[done:], style)

    def _cells(self, row: Row) -> list[str]:
        together = zip(row.cells, self.widths, self.columns, strict=True)
        return [_fitted(cell, width, column.right) for cell, width, column in together]

    # Moving.

    def _go(self, row: int, *, tell: bool = False, by_user: bool = False) -> None:
        """The cursor to a row; tell: also where it was there already."""
        before, self.cursor = self.cursor, max(0, min(row, self.count - 1))
        self._scroll_to_cursor()
        self.refresh()
        if tell or before != self.cursor:
            self.post_message(self.Moved(self, self.cursor, by_user=by_user))

    def go(self, row: int) -> None:
        """The cursor to a row, which is brought to the middle if it was not seen."""
        height = self._page_height()
        if self.size.height and not self.scroll_offset.y <= row < self.scroll_offset.y + height:
            self.scroll_to(y=max(0, row - height // 2), animate=False, immediate=True, force=True)
        self._go(row)

    def _page_height(self) -> int:
        return max(1, self.scrollable_content_region.height - self.titles)

    def _scroll_to_cursor(self) -> None:
        if not self.size.height:
            # Where rows will be seen is known only once there is room for them.
            return
        top, height = self.scroll_offset.y, self._page_height()
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True, force=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True, force=True)

    def _by_key(self, row: int) -> None:
        if row < self.cursor:
            self.pause()
        self._go(row, by_user=True)

    def action_cursor_up(self) -> None:
        self._by_key(self.cursor - 1)

    def action_cursor_down(self) -> None:
        self._by_key(self.cursor + 1)

    def action_page_up(self) -> None:
        self._by_key(self.cursor - self._page_height())

    def action_page_down(self) -> None:
        self._by_key(self.cursor + self._page_height())

    def action_half_page_up(self) -> None:
        self._by_key(self.cursor - max(1, self._page_height() // 2))

    def action_half_page_down(self) -> None:
        self._by_key(self.cursor + max(1, self._page_height() // 2))

    def action_first_row(self) -> None:
        self._by_key(0)

    def action_last_row(self) -> None:
        self._go(self.count - 1, by_user=True)
        self.post_message(self.Resumed())

    def action_column_left(self) -> None:
        self._at_column(self.column - 1)

    def action_column_right(self) -> None:
        self._at_column(self.column + 1)

    def _at_column(self, column: int) -> None:
        self.column = max(0, min(column, len(self.columns) - 1))
        left = sum(self.widths[: self.column]) + 2 * self.column + (GUTTER if self.column else 0)
        right = left + self.widths[self.column] + (0 if self.column else GUTTER)
        seen = self.scrollable_content_region.width
        x = self.scroll_offset.x
        if left < x or right - left > seen:
            self.scroll_to(x=left, animate=False, immediate=True, force=True)
        elif right > x + seen:
            self.scroll_to(x=right - seen, animate=False, immediate=True, force=True)
        self.refresh()

    def action_narrower(self) -> None:
        self._widen(self.column, self.widths[self.column] - 2)

    def action_wider(self) -> None:
        self._widen(self.column, self.widths[self.column] + 2)

    def _widen(self, column: int, width: int) -> None:
        if column == self._flexible:
            self._flexible = None
        self.widths[column] = max(NARROWEST, min(WIDEST, width))
        self._resized()

    # Choosing, marking, sorting.

    def action_choose(self) -> None:
        if self.count:
            self.post_message(self.Chosen(self, self.cursor))

    def action_mark(self) -> None:
        if self.count:
            self.marked ^= {self.cursor}
            self._go(self.cursor + 1, by_user=True)

    def action_sort(self) -> None:
        """Up, down, and as the source has them, by turns."""
        if self.sorted_by is None or self.sorted_by[0] != self.column:
            self._want_sorted(self.column, reverse=False)
        elif not self.sorted_by[1]:
            self._want_sorted(self.column, reverse=True)
        else:
            self._want_sorted(None, reverse=False)

    def _want_sorted(self, column: int | None, *, reverse: bool) -> None:
        self.post_message(self.SortWanted(self, column, reverse))

    def show_sorted(self, column: int | None, reverse: bool = False) -> None:
        """What the rows are sorted by, in the titles."""
        self.sorted_by = None if column is None else (column, reverse)
        self.refresh()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Keys that do nothing here are not in the footer."""
        if action in {"choose", "sort", "narrower", "wider", "column_left", "column_right"} and not self.titles:
            return False
        return self.sortable if action == "sort" else True

    # The mouse.

    def _row_at(self, event: events.MouseEvent) -> int | None:
        row = self.scroll_offset.y + int(event.y) - self.titles
        return row if event.y >= self.titles and 0 <= row < self.count else None

    def _column_at(self, x: int) -> tuple[int, bool] | None:
        """The column at so many cells from the left, and whether it is its right border."""
        end = GUTTER
        for i, width in enumerate(self.widths):
            end += width + 2
            if x < end:
                return i, x >= end - 2
        return None

    def on_click(self, event: events.Click) -> None:
        row = self._row_at(event)
        if row is None:
            return
        if row == self.cursor and event.chain == 2:
            self.action_choose()
        else:
            self._by_key(row)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if not self.titles or event.y != 0:
            return
        found = self._column_at(self.scroll_offset.x + int(event.x))
        if found is None:
            return
        self.column, at_border = found
        if at_border:
            self._dragged = self.column
            self.capture_mouse()
        elif self.sortable:
            self.action_sort()
        self.refresh()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged is not None:
            left = GUTTER + sum(width + 2 for width in self.widths[: self._dragged])
            self._widen(self._dragged, self.scroll_offset.x + int(event.x) - left)

    def on_mouse_up(self) -> None:
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()

    def pause(self) -> None:
        """The end is followed no more."""
        if self.following:
            self.following = False
            self.post_message(self.Paused())

    def on_mouse_scroll_up(self) -> None:
        self.pause()

    def on_resize(self) -> None:
        self._resized()
        self._scroll_to_cursor()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def watch_has_focus(self, value: bool) -> None:
        """The cursor looks another way."""
        super().watch_has_focus(value)
        self.refresh()


def _fitted(text: str, width: int, right: bool) -> str:
    """`text` in exactly `width` cells; … where something was cut off."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - length) + text if right else text + " " * (width - length)
