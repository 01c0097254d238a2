"""A partition: the segments, the watermarks on one bar, leader epochs and open transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from .. import columns, messages, text
from ..browsing import Browsing
from ..widgets.item_table import ItemTable
from ..widgets.lazy_table import LazyTable
from ..widgets.watermark_bar import WatermarkBar, Watermarks
from .view import View, start

if TYPE_CHECKING:
    from kafkalog.scan.transactions import Transactions

EPOCHS_SHOWN = 4
OPEN_SHOWN = 3
GAPS_SHOWN = 2


class SegmentsView(View):
    """Enter opens the batches of a segment."""

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self._transactions: Transactions | None = None
        self._seen_end: int | None = None
        self._rest_until = 0.0
        self._stable: int | None = None
        shown = columns.segments(self.session.times)
        self._table = ItemTable(shown, columns.look_of_segment, columns.good, lambda row: row.base_offset)

    def compose(self) -> ComposeResult:
        yield WatermarkBar()
        yield self._table
        yield Static(classes="facts")

    async def appear(self) -> None:
        self._table.when_empty = "no segments"
        self._show(self.browsing.base_offset)
        await self.refreshed()

    async def refreshed(self) -> None:
        state = self.browsing.state
        self._show_bar()
        self._show()
        if state.log_end != self._seen_end and time.monotonic() >= self._rest_until:
            self._seen_end = state.log_end
            start(self, "transactions", self._ask_transactions)
        self._facts()

    def _show_bar(self) -> None:
        state = self.browsing.state
        stable = self._stable if state.last_stable is None else state.last_stable
        marks = Watermarks(state.log_start, state.recovery_point, stable, state.high_watermark, state.log_end)
        self.query_one(WatermarkBar).marks = marks

    async def _ask_transactions(self) -> None:
        """Ask for what takes longer; not again before ten times as long has gone by."""
        began = time.monotonic()
        if self.browsing.state.last_stable is None:
            self._stable = await self.session.desk(self.browsing.reader.work_out_last_stable)
            self._show_bar()
        self._transactions = await self.session.desk(self.browsing.reader.transactions)
        self._facts()
        self._rest_until = time.monotonic() + max(1.0, 10 * (time.monotonic() - began))

    def _show(self, base_offset: int | None = None) -> None:
        self._table.show_items(list(map(self.session.with_check, self.browsing.state.segments)), base_offset)

    def _facts(self) -> None:
        epochs = self.browsing.state.epochs
        shown = ", ".join(f"{epoch} from {text.number(offset)}" for epoch, offset in epochs[-EPOCHS_SHOWN:])
        more = f"{len(epochs) - EPOCHS_SHOWN} earlier, " if len(epochs) > EPOCHS_SHOWN else ""
        lines = [f"leader epochs: {more}{shown or 'none'}", *self._gap_lines(), *self._transaction_lines()]
        self.query_one(".facts", Static).update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"))

    def _gap_lines(self) -> list[str]:
        gaps = self.browsing.state.gaps
        further = len(gaps) - GAPS_SHOWN
        more = [f"  and {'one further gap' if further == 1 else f'{further:,} further gaps'}"] if further > 0 else []
        return [f"gap: {gap.note}" for gap in gaps[:GAPS_SHOWN]] + more

    def _transaction_lines(self) -> list[str]:
        found = self._transactions
        if found is None:
            return ["open transactions: …"]
        if found.problem is not None:
            return [f"! transactions: {text.printable(found.problem)}"]
        if not found.open:
            return [f"open transactions: none; aborted: {text.number(found.aborted_count)}"]
        lines = [f"open transactions: {len(found.open)}; aborted: {text.number(found.aborted_count)}"]
        for each in found.open[:OPEN_SHOWN]:
            word = "! hanging" if each.hanging else "open"
            since = self.session.times.short(each.start_timestamp)
            lines.append(
                f"  {word}: producer {each.producer_id} epoch {each.producer_epoch}"
                f" from offset {text.number(each.first_offset)} since {since}"
            )
        return lines

    def on_paged_view_moved(self, message: LazyTable.Moved) -> None:
        if (chosen := self._table.current) is not None:
            if chosen.problem is not None:
                self.post_message(messages.Told(chosen.problem))
            if message.by_user and chosen.base_offset != self.browsing.base_offset:
                self.post_message(messages.SelectSegment(chosen.base_offset))

    def on_paged_view_chosen(self) -> None:
        if (chosen := self._table.current) is not None:
            self.post_message(messages.SelectSegment(chosen.base_offset, "batches"))

    async def copied(self) -> str:
        current = self._table.current
        return "" if current is None else str(current.path)
