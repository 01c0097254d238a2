"""The list of partitions: names at once, then what is in them as it is read; again and again while it is seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from .. import columns, messages, text
from ..charts import BLOCKS, has_blocks
from ..keys import bindings
from ..model.types import TopicRow
from ..session import Session
from ..tables import Row
from ..views.view import start
from ..widgets.item_table import ItemTable
from ..widgets.lines import TopLine
from ..widgets.prompt import Prompt
from .base import InspectorScreen

# The list is drawn anew after so much reading. Between two passes there is a pause of at least so much, and so many
# times as long as the pass took, if it found something new or nothing; whoever comes back to the list need not wait.
STEP_SECONDS = 0.04
PAUSE_SECONDS = 2.0
PAUSE_AFTER_NEWS = 10
PAUSE_AFTER_NOTHING = 200
LISTING = "listing the directory …"


def take(rows: Iterator[TopicRow]) -> tuple[list[TopicRow], bool]:
    """Return what comes within a step, and whether there may be more."""
    taken, until = [], time.monotonic() + STEP_SECONDS
    for row in rows:
        taken.append(row)
        if time.monotonic() >= until:
            return taken, True
    return taken, False


class TopicsScreen(InspectorScreen):
    """The list of partitions; Enter opens one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("topics")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        shown = columns.topics(session.times, BLOCKS if has_blocks() else "")
        self.table = ItemTable(shown, columns.look_of_topic, columns.good, lambda row: row.name)
        self._found: dict[str, TopicRow] = {}
        # Whether the directory has been listed once.
        self._listed = False
        self._drawn: list[Row] = []
        self._text = ""
        self._unfolded = False
        self._seen = False
        # Ends the pause between two passes.
        self._wake = asyncio.Event()

    def compose_middle(self) -> ComposeResult:
        yield self.table

    def on_mount(self) -> None:
        self.table.when_empty = LISTING
        self._top()
        start(self, "topics", self._watch)

    def on_screen_resume(self) -> None:
        self._seen = True
        self._wake.set()
        self.table.focus()

    def on_screen_suspend(self) -> None:
        self._seen = False

    async def _watch(self) -> None:
        if not self._found:
            self._found = {row.name: row for row in await self.session.desk(self.session.model.names)}
            self._listed = True
            self.table.when_empty = "no partitions"
            self._show()
        while True:
            began = time.monotonic()
            self._wake.clear()
            has_news = await self._pass()
            took = time.monotonic() - began
            pause = max(PAUSE_SECONDS, took * (PAUSE_AFTER_NEWS if has_news else PAUSE_AFTER_NOTHING))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)
            if not self._seen:
                await self._wake.wait()

    async def _pass(self) -> bool:
        """Read all rows, and return whether something has changed."""
        seen: list[str] = []
        has_news = False
        rows = await self.session.desk(self.session.model.topics, seen)
        names: set[str] = set()
        more = True
        while more:
            # What is on the screen is read first, also after it was scrolled.
            seen[:] = [row.name for row in self._rows_seen()]
            taken, more = await self.session.desk(take, rows)
            for row in taken:
                names.add(row.name)
                before = self._found.get(row.name)
                # What was known before stays until it is known anew.
                if row != before and (row.filled or before is None):
                    self._found[row.name] = row
                    has_news = True
            if has_news:
                self._show()
        if gone := self._found.keys() - names:
            self._found = {name: row for name, row in self._found.items() if name not in gone}
        if gone or self._cells_seen() != self._drawn:
            self._show()
        self._tell_current()
        return has_news or bool(gone)

    def _rows_seen(self) -> Sequence[TopicRow]:
        top = self.table.scroll_offset.y
        return self.table.items[top : top + self.size.height]

    def _cells_seen(self) -> list[Row]:
        """Return the rows on the screen as they are now: ages grow, and checks end."""
        return [self.table.source.row(self.session.with_check(row)) for row in self._rows_seen()]

    # What is shown of what was found.

    def _show(self) -> None:
        self.table.when_empty = "no name has this in it" if self._found and self._text else "no partitions"
        self.table.show_items([self.session.with_check(row) for row in self._found.values() if self._is_wanted(row)])
        self._drawn = self._cells_seen()
        self._tell_current()
        self._top()

    def _is_wanted(self, row: TopicRow) -> bool:
        if self._text:
            return self._text in row.name.casefold()
        return self._unfolded or not row.is_internal or all(each.is_internal for each in self._found.values())

    def _top(self) -> None:
        what = self._what() if self._listed else LISTING
        self.query_one(TopLine).shown = text.printable(str(self.session.model.path)), what, self.session.zone_name

    def _what(self) -> str:
        count = self.table.count
        hidden = len(self._found) - count
        what = f"{count:,} {'partition' if count == 1 else 'partitions'}"
        if self._text:
            return f"{what} of {len(self._found):,} with {text.printable(self._text, 20)!r} (esc: all)"
        return f"{what}, {hidden} internal hidden (i)" if hidden else what

    def _tell_current(self) -> None:
        current = self.table.current
        self.tell((None if current is None else current.problem) or self.session.model.problem)

    def on_paged_view_moved(self) -> None:
        self._tell_current()

    def on_paged_view_chosen(self) -> None:
        if (current := self.table.current) is not None:
            self.post_message(messages.OpenPartition(current.name))

    def times_changed(self) -> None:
        self._show()

    def action_reload(self) -> None:
        start(self, "topics", self._watch)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Return whether a key does something: there is nothing to go back to but the names that a filter hides."""
        return action != "back" or bool(self._text)

    def action_back(self) -> None:
        """Show all names again."""
        self._filter("")

    def action_verify_all(self) -> None:
        from .verify_all import VerifyScreen

        self.app.push_screen(VerifyScreen(self.session))

    def action_fold_internal(self) -> None:
        self._unfolded = not self._unfolded
        self._show()

    def _filter(self, wanted: str) -> None:
        self._text = wanted.casefold()
        self._show()
        self.refresh_bindings()

    def action_filter_topics(self) -> None:
        before = self._text

        def ended(value: str | None) -> None:
            self._filter(before if value is None else value)

        self.ask(partial(Prompt, "show names with: ", changed=self._filter, value=before, replaced=True), ended)
