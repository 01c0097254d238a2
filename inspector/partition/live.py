"""What a partition's screen does by itself: it asks whether the log has changed, and reads headers.

One worker asks every so often, one reads the headers of the segment that is looked at, then of the others; both in
steps, in the partition's own thread, so that what a view asks for comes in between. With `F` the end is followed: a new
segment is gone to, and each table stays at its end until somebody scrolls up.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..views.view import start
from ..widgets.lazy_table import LazyTable

if TYPE_CHECKING:
    from ..browsing import Browsing
    from ..model.types import Change, PartitionState
    from ..screens.partition import PartitionScreen

FOLLOWING_SECONDS = 0.5
WATCHING_SECONDS = 1.0
# What has been read of a segment is drawn no more often: a step of reading takes less time than to draw it.
BETWEEN_DRAWINGS_SECONDS = 0.1
# Whose last row is known only when all headers have been read.
VIEWS_READ_THROUGH = ("batches", "records")
OTHERS_READ = 100
OTHERS_BYTES = 4 << 30


class Following:
    """Keeps one screen true to its log, once the partition is open."""

    def __init__(self, screen: PartitionScreen) -> None:
        self._screen = screen
        self._wake = asyncio.Event()
        self._paused = False
        # Changes of the log that were seen while headers were read, for the next look.
        self._unhandled: frozenset[Change] = frozenset()

    # Whether the log has changed.

    def watch(self) -> None:
        """Look for changes from now on."""
        start(self._screen, "watch", self._watch)

    def look_now(self) -> None:
        """Look without waiting for the next time."""
        self._wake.set()

    async def _watch(self) -> None:
        browsing = self._screen.opened
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), FOLLOWING_SECONDS if browsing.following else WATCHING_SECONDS)
            self._wake.clear()
            if self._screen.app.screen_stack[-1] is self._screen or browsing.following:
                await self._refresh()

    async def _refresh(self) -> None:
        browsing = self._screen.opened
        state = await browsing.ask(browsing.reader.refresh)
        state = replace(state, changed=state.changed | self._unhandled)
        self._unhandled = frozenset()
        before, browsing.state = browsing.state, state
        if state == before:
            return
        if state.changed or state.problem != before.problem:
            self._tell_state(state)
        if "truncated" in state.changed and browsing.row is not None:
            await self.select(browsing.row.base_offset)
        elif browsing.row is None or (browsing.following and "rolled" in state.changed):
            await self._another_segment(state)
        elif state.changed:
            self.index()
        await self._screen.views.refreshed()
        self._screen.show_lines()

    def _tell_state(self, state: PartitionState) -> None:
        words = {"truncated": "the log was truncated", "gone": "the directory has gone"}
        told = [words[change] for change in ("truncated", "gone") if change in state.changed]
        self._screen.tell(state.problem or ("; ".join(told) if told else None))

    async def _another_segment(self, state: PartitionState) -> None:
        """Select another segment: the one that was looked at has gone, or a new one is followed."""
        browsing = self._screen.opened
        if not state.segments:
            return
        if browsing.row is None and browsing.base_offset is not None:
            self._screen.notify(f"segment {browsing.base_offset} was deleted", markup=False)
        chosen = state.segments[-1 if browsing.following else 0]
        await self.select(chosen.base_offset)

    async def select(self, base_offset: int) -> None:
        """Select another segment, or the same from its beginning, in the view that is shown."""
        browsing = self._screen.opened
        browsing.place = None
        await browsing.select(base_offset)
        # Before anything waits: who selects may be stopped there, and the headers would never be read.
        self.index()
        await self._screen.views.appear()
        self._screen.show_lines()

    # Headers.

    def index(self) -> None:
        """Read the headers of the selected segment, and no more of the one before."""
        start(self._screen, "index", self._read_headers)

    async def _read_headers(self) -> None:
        browsing = self._screen.opened
        drawn = 0.0
        while browsing.segment is not None:
            before = browsing.progress
            await browsing.read_more()
            ends = browsing.is_indexed or browsing.progress == before
            if ends or browsing.is_waiting or time.monotonic() - drawn > BETWEEN_DRAWINGS_SECONDS:
                await self._show_indexed(browsing)
                drawn = time.monotonic()
            if ends:
                break
        if browsing.base_offset is not None:
            await self._show_read()
            await self._read_others()

    async def _show_read(self) -> None:
        """Show what reading headers has told of segments.

        A change of the log waits for the next look: handled here, it would begin to read headers anew, without end
        beside a fast writer.
        """
        browsing = self._screen.opened
        browsing.state = await browsing.ask(browsing.reader.refresh)
        self._unhandled |= browsing.state.changed
        await self._screen.views.refreshed()

    async def _read_others(self) -> None:
        """Read the headers of the other segments, if they are few, so that the list of segments knows of them."""
        browsing = self._screen.opened
        others = [row for row in browsing.state.segments if row.records is None][:OTHERS_READ]
        if sum(row.bytes for row in others) > OTHERS_BYTES:
            return
        shown = time.monotonic()
        for row in others:
            await browsing.read_through(row.base_offset)
            if time.monotonic() - shown > WATCHING_SECONDS / 2 or row is others[-1]:
                shown = time.monotonic()
                await self._show_read()

    async def _show_indexed(self, browsing: Browsing) -> None:
        views = self._screen.views
        if browsing.is_waiting and browsing.is_reached:
            browsing.is_waiting = False
            await views.appear()
        else:
            await views.indexed()
        if browsing.is_read:
            self.stop_ending()
        self._screen.show_lines()

    # The end.

    def toggle(self) -> None:
        """Follow the end, or follow it no more."""
        if self._screen.opened.following:
            self._set_following(False)
        else:
            self._screen.going.begin(self._follow)

    async def _follow(self) -> None:
        browsing = self._screen.opened
        browsing.following = True
        if browsing.state.segments and browsing.base_offset != browsing.state.segments[-1].base_offset:
            await self.select(browsing.state.segments[-1].base_offset)
        self._set_following(True)
        await self._screen.views.indexed()

    def _set_following(self, following: bool) -> None:
        self._screen.opened.following = following
        self._stay_at_end(following)
        self._wake.set()

    def _stay_at_end(self, stays: bool) -> None:
        for table in self._screen.query(LazyTable):
            table.following = stays
            if stays:
                table.go(table.count - 1)
        self._screen.show_lines()

    def pause(self) -> None:
        """Pause following until somebody goes to the end."""
        browsing = self._screen.browsing
        if browsing is not None and browsing.following:
            browsing.following = False
            self._screen.notify("following paused; end goes on", timeout=2)
            self._stay_at_end(False)
            self._paused = True
        elif browsing is not None and browsing.ending:
            self.stop_ending()

    def resume(self) -> None:
        """Go on following: somebody has gone to the end."""
        browsing = self._screen.browsing
        if self._paused:
            self._paused = False
            self._screen.going.begin(self._follow)
        elif browsing is not None and not browsing.is_read and self._screen.views.is_one_of(VIEWS_READ_THROUGH):
            browsing.ending = True
            for table in self._screen.views.current.query(LazyTable) if self._screen.views.current else ():
                table.following = True
            self._screen.show_lines()

    def stop_ending(self) -> None:
        """Stop staying at the end: all is read, or somebody has gone elsewhere."""
        browsing = self._screen.opened
        if browsing.ending:
            browsing.ending = False
            self._stay_at_end(browsing.following)
