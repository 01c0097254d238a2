"""Ways through a partition: to a segment, to a place, to the next damaged batch, to the next match of a search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec

from inspector import messages
from inspector.screens.shown_views import VIEWS_OF_PLACES, VIEWS_OF_RECORDS
from inspector.screens.view import start

if TYPE_CHECKING:
    from inspector.background.runs import SearchRun
    from inspector.reading.answers import Target
    from inspector.screens.partition import PartitionScreen

P = ParamSpec("P")


class Going:
    """Of one screen."""

    def __init__(self, screen: PartitionScreen) -> None:
        self._screen = screen
        # Where a jump goes that is not there so far; what is begun meanwhile is begun from there.
        self._target: Target | None = None
        # Set while nothing is on its way that keys had better wait for.
        self.still = asyncio.Event()
        self.still.set()
        self._at_work: object = None

    def begin(self, work: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Does it in the place of what was begun before; a jump alone is not left halfway."""
        self._start(partial(self._from_there, partial(work, *args, **kwargs)))

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._at_work = work
        self.still.clear()
        start(self._screen, "view", self._do, work)

    async def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        finally:
            if self._at_work is work:
                self.still.set()

    async def _from_there(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._target is not None:
            await self._move(self._target)
        await work()

    # Segments.

    async def to_segment(self, base_offset: int, view: str | None) -> None:
        """view: None = the one that is shown."""
        if base_offset != self._screen.opened.base_offset:
            await self._screen.following.select(base_offset)
        if view is not None:
            await self._screen.views.show(view)

    def step_segment(self, step: int) -> None:
        """The one so many further on, where there is one."""
        if self._screen.browsing is not None:
            self.begin(self._to_neighbour, step)

    async def _to_neighbour(self, step: int) -> None:
        browsing = self._screen.opened
        base_offset = browsing.neighbour(step)
        if base_offset is None:
            none = "there is no segment before" if step < 0 else "there is no further segment"
            self._screen.notify(none, timeout=2)
        else:
            browsing.following = browsing.ending = False
            await self.to_segment(base_offset, None)

    # Places.

    def jump(self, target: Target, view: str | None) -> None:
        """In the place of whatever was begun before; view: None = the one that is shown."""
        self._target = target
        self._start(partial(self.to_target, target, view))

    async def to_target(self, target: Target, view: str | None) -> None:
        """view: None = the one that is shown."""
        if await self._move(target):
            await self._show(view)
            self._screen.show_lines()

    async def _move(self, target: Target) -> bool:
        """Whether the place that views agree on is there now; else there is none."""
        try:
            moved = await self._place_at(target)
        except Exception:
            self._target = None
            raise
        self._target = None
        return moved

    async def _place_at(self, target: Target) -> bool:
        from inspector.reading.answers import Byte

        screen, browsing = self._screen, self._screen.opened
        place = await browsing.ask(browsing.reader.locate, target)
        if place is None:
            screen.notify("there is no such place in the log", severity="warning", markup=False)
            return False
        # What was wrong on other ways.
        screen.on_told(messages.Told(None))
        if isinstance(target, Byte) and place.position < target.position:
            screen.notify(f"the segment has {place.position + 1:,} bytes", severity="warning", markup=False)
        browsing.following = browsing.ending = False
        if place.base_offset != browsing.base_offset:
            await browsing.select(place.base_offset)
            screen.following.index()
        browsing.place = place
        browsing.is_waiting = not await browsing.is_reached()
        if browsing.search is not None:
            browsing.search.on_the_way = False
        # Of a long segment all headers before it are read first: what is waited for is told meanwhile.
        screen.show_lines()
        return True

    async def _show(self, view: str | None) -> None:
        if view is not None:
            await self._screen.views.show(view)
        else:
            await self._screen.views.appear()

    # Batches.

    def step_batch(self, what: str, forwards: bool) -> None:
        """From the batch at the cursor to the next one; what: as the segment's reader names it."""
        from inspector.screens.transactions import TransactionsView

        view = self._screen.views.current
        if what == "next_transaction" and isinstance(view, TransactionsView):
            view.step(forwards)
        elif self._screen.browsing is not None:
            self.begin(self._step_batch, what, forwards)

    async def _step_batch(self, what: str, forwards: bool) -> None:
        browsing = self._screen.opened
        if browsing.segment is None:
            return
        row = await browsing.batch_at_place()
        found = await browsing.ask(getattr(browsing.segment, what), -1 if row is None else row, forwards)
        if found is None:
            kind = "damage" if what == "next_damage" else "transaction"
            way, other = ("after", "] goes to the next") if forwards else ("before", "[ goes to the one before")
            step = 1 if forwards else -1
            more = "" if browsing.neighbour(step) is None else f"; {other}"
            self._screen.notify(f"no {kind} {way} this in the segment{more}", timeout=2)
            return
        await self._to_batch(found)

    async def _to_batch(self, row: int) -> None:
        from inspector.reading.answers import Place

        browsing = self._screen.opened
        assert browsing.segment is not None
        assert browsing.base_offset is not None
        for batch in await browsing.ask(browsing.segment.batch_rows, row, 1):
            browsing.place = Place(browsing.base_offset, batch.position)
            await self._show(None if self._screen.views.is_one_of(VIEWS_OF_PLACES) else "batches")

    # Matches.

    def step_match(self, forwards: bool) -> None:
        """The next one, or the one before, in the list of them or in the log."""
        from inspector.screens.search import SearchView

        browsing, view = self._screen.browsing, self._screen.views.current
        if browsing is None or browsing.search is None:
            return
        if isinstance(view, SearchView):
            view.step(forwards)
        else:
            self.begin(self._to_match, browsing.search, forwards)

    async def _to_match(self, run: SearchRun, forwards: bool) -> None:
        """From the record at the cursor, or from the match that is just gone to, to the next one there is."""
        from inspector.reading.answers import Offset

        browsing = self._screen.opened
        here = None if browsing.place is None else browsing.place.offset
        here = run.current if run.on_the_way else here
        while (offset := run.beside(here, forwards)) is None and run.may_find(forwards):
            self._tell_search("searching …")
            # It may take long: keys are for now.
            self.still.set()
            await run.changed()
        if offset is None:
            self._tell_search(f"no match {'after' if forwards else 'before'} this")
            return
        run.current, run.on_the_way = offset, True
        await self.to_target(Offset(offset), None if self._screen.views.is_one_of(VIEWS_OF_RECORDS) else "records")

    def _tell_search(self, what: str) -> None:
        from inspector.screens.search import found, reached

        run = self._screen.opened.search
        assert run is not None
        self._screen.notify(f"{what}: {found(run)}; {reached(run)}", timeout=2, markup=False)
