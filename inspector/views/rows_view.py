"""A table of what is in a segment, batches or records, with a panel about the row under the cursor.

The table is given rows as they are asked for. Sorting and filtering look at all of them once, a step at a time, and
only where there are not too many.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from .. import columns, messages, text
from ..browsing import Browsing
from ..keys import bindings
from ..model.types import BatchRow, Place, RecordRow
from ..tables import MOST_ARRANGED, STEP, Arrangement, ItemSource, Mark, Shown, arranged, in_order, matching
from ..widgets.facts import Facts, Pairs
from ..widgets.lazy_table import LazyTable
from ..widgets.prompt import Prompt
from .view import View, start

T = TypeVar("T", BatchRow, RecordRow)
# Seconds after which ages are written anew.
TICK_SECONDS = 1.0


class RowsView(View, Generic[T]):
    """Subclasses say which columns there are, how rows are read, and where in the log a row is."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("records")
    NOUN = "rows"
    ONE = "row"

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self._source: ItemSource[T] = ItemSource(self.read, self.columns(), columns.look, self.marks)
        self.table = LazyTable(self._source.shown)
        self._arrangement = Arrangement()
        self._order: list[int] | None = None
        # What the table shows is of this version of what is looked at.
        self._version = -1
        self._item: T | None = None
        # The row under the cursor while it is read.
        self._unread: int | None = None

    @abstractmethod
    def columns(self) -> list[Shown[T]]:
        """Return the columns of the table."""

    @abstractmethod
    def read(self, first: int, count: int) -> Sequence[T]:
        """Read rows, in the partition's thread."""

    def marks(self, item: T, cells: tuple[str, ...]) -> tuple[Mark, ...]:
        """Return what stands out in a row."""
        del item, cells
        return ()

    @abstractmethod
    def total(self) -> int:
        """Return how many rows there are so far."""

    @abstractmethod
    async def row_at_place(self) -> int | None:
        """Return the row at the place that all views share."""

    @abstractmethod
    async def place_of(self, item: T) -> Place | None:
        """Return where a row is."""

    @abstractmethod
    def facts(self, item: T) -> Pairs:
        """Return facts about the row under the cursor."""

    def compose(self) -> ComposeResult:
        yield self.table
        with VerticalScroll(classes="panel", can_focus=False) as panel:
            panel.border_title = self.ONE
            yield Facts()
            yield from self.compose_more()

    def on_mount(self) -> None:
        self.set_interval(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        """Let ages grow."""
        if self.display and self.screen.is_current:
            self._show_facts()

    def compose_more(self) -> ComposeResult:
        """Compose what stands below the facts."""
        yield from ()

    async def show_more(self, item: T) -> None:
        """Show more about the row under the cursor than its facts."""

    async def appear(self) -> None:
        self.table.following = self.browsing.at_end
        if self._version != self.browsing.version:
            self._show_anew(await self.row_at_place() or 0)
        else:
            self.table.reread(self.total() if self._order is None else None)
        if not self.browsing.at_end:
            await self._go_to_place()
        elif self.table.count:
            self.table.go(self.table.count - 1)
        self._show_facts()
        if self._item is None and self._unread is None:
            self._start_to_look_at(self.table.cursor)
        self._tell_problem()

    def _tell_problem(self) -> None:
        """Report the problem of the row under the cursor, or of the segment if there is no row."""
        segment = self.browsing.segment
        unread = None if segment is None else segment.problem
        problem = unread if self._item is None else self._item.problem
        if problem is not None:
            self.post_message(messages.Told(problem))

    def _show_anew(self, cursor: int) -> None:
        # Whoever is stopped where it waits has shown nothing: so nothing here waits.
        self._version = self.browsing.version
        self._arrangement, self._order, self._item = Arrangement(), None, None
        self.table.show_sorted(None)
        self._say_empty()
        self.query_one(Facts).show([])
        self.table.show(self._source.rows, self.total(), self.browsing.desk, cursor=cursor)

    async def _go_to_place(self) -> None:
        row = await self.row_at_place()
        if row is None:
            return
        if self._order is None:
            self.table.go(row)
        elif row in self._order:
            self.table.go(self._order.index(row))

    async def indexed(self) -> None:
        self._say_empty()
        if self.browsing.is_read and not self.total():
            self._tell_problem()
        if self._order is None and self._version == self.browsing.version:
            self.table.grow(self.total())
            # Begun once, not over again with every step of reading: it would never come to its end.
            if self._item is None and self._unread is None:
                self._start_to_look_at(self.table.cursor)

    def _say_empty(self) -> None:
        self.table.when_empty = f"no {self.NOUN}" if self.browsing.is_read else "reading …"

    # The row under the cursor.

    def on_paged_view_moved(self, message: LazyTable.Moved) -> None:
        self._start_to_look_at(message.cursor)

    def _start_to_look_at(self, row: int) -> None:
        self._unread = row
        start(self, "row", self._look_at, row)

    async def _look_at(self, row: int) -> None:
        try:
            await self._tell_row(row)
        finally:
            if self._unread == row:
                self._unread = None

    async def settle(self) -> None:
        if self._unread is not None or self._item is None:
            await self._tell_row(self.table.cursor)

    async def _tell_row(self, row: int) -> None:
        if self._order is not None:
            row = self._order[row] if row < len(self._order) else 0
        if row >= self.total():
            return
        for item in await self.browsing.ask(self.read, row, 1):
            self._item = item
            self._show_facts()
            await self.show_more(item)
            self.post_message(messages.Told(item.problem))
            place = await self.place_of(item)
            if place is not None and not self.browsing.is_waiting and self.display:
                self.browsing.place = place

    def _show_facts(self) -> None:
        if self._item is not None:
            self.query_one(Facts).show(self.facts(self._item), listed=self.screen.has_class("-wide"))

    def on_resize(self) -> None:
        self._show_facts()

    def on_lazy_table_past_end(self, message: LazyTable.PastEnd) -> None:
        if self._order is None and not self.browsing.following and (self.browsing.is_read or not message.forwards):
            self.post_message(messages.FlowOn(message.forwards))

    # Sorting and filtering.

    @property
    def restriction(self) -> str:
        if not self._arrangement.text or self._order is None:
            return ""
        wanted = text.printable(self._arrangement.text, 20)
        return f"{len(self._order):,} of {self.total():,} with {wanted!r} (esc: all)"

    def back(self) -> bool:
        """Show all rows again, if some are filtered out."""
        if not self._arrangement.text:
            return False
        self._arrange(Arrangement(self._arrangement.column, self._arrangement.reverse))
        return True

    def on_lazy_table_sort_wanted(self, message: LazyTable.SortWanted) -> None:
        self._arrange(Arrangement(message.column, message.reverse, self._arrangement.text))

    def action_filter_rows(self) -> None:
        def ended(value: str | None) -> None:
            if value is not None:
                self._arrange(Arrangement(self._arrangement.column, self._arrangement.reverse, value))

        prompt = partial(Prompt, "show rows with: ", value=self._arrangement.text, replaced=True)
        self.post_message(messages.Ask(prompt, ended))

    def _arrange(self, wanted: Arrangement) -> None:
        if not wanted.is_plain and self.total() > MOST_ARRANGED:
            few = f"{MOST_ARRANGED:,}"
            self.notify(f"{self.total():,} {self.NOUN}: more than {few} are neither sorted nor filtered", timeout=4)
            return
        self._arrangement = wanted
        start(self, "arrange", self._work_out, wanted)

    async def _work_out(self, wanted: Arrangement) -> None:
        total = self.total()
        order = None
        if not wanted.is_plain:
            found: list[tuple[Any, int]] = []
            for first in range(0, total, STEP):
                self.table.when_empty = f"{100 * first // total}% …"
                found += await self.browsing.ask(matching, self._source, wanted, first, min(STEP, total - first))
            order = await self.browsing.ask(in_order, found, wanted)
        self._order = order
        read = self._source.rows if order is None else arranged(self._source.rows, order)
        self.table.show_sorted(wanted.column, wanted.reverse)
        self.table.when_empty = f"no {self.NOUN} with {text.printable(wanted.text)!r}" if wanted.text else ""
        self.table.show(read, total if order is None else len(order), self.browsing.desk)
        self.post_message(messages.Told(None))
        if not wanted.text:
            await self._go_to_place()

    # Copying.

    async def copied(self) -> str:
        rows = sorted(self.table.marked) or [self.table.cursor]
        lines = []
        for row in rows:
            number = row if self._order is None else self._order[row]
            for each in await self.browsing.ask(self._source.rows, number, 1):
                lines.append("\t".join(each.cells))
        return "\n".join(lines)
