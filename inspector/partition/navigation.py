"""Ways through a partition: to a segment, to an offset, a time or a byte. One way at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec

from .. import messages
from ..columns import Times
from ..model.types import Byte, Offset, PartitionState, Place, Target, Time
from ..views.view import start

if TYPE_CHECKING:
    from ..screens.partition import PartitionScreen

P = ParamSpec("P")
MOST_REMEMBERED = 100


def not_found(target: Target, state: PartitionState, times: Times) -> str:
    """Return why there is no such place: what the log has."""
    kind = {Offset: "offset", Time: "time"}.get(type(target), "byte")
    if state.log_end is None or state.log_end == state.log_start:
        return f"no such {kind}: no records are known"
    newest = max((row.last_timestamp for row in state.segments if row.last_timestamp is not None), default=None)
    if isinstance(target, Time) and newest is not None:
        return f"no such time: the newest record is of {times.full(newest)}"
    return f"no such {kind}: the log has the offsets {state.log_start or 0:,} to {state.log_end - 1:,}"


class Going:
    """The ways of one screen."""

    def __init__(self, screen: PartitionScreen) -> None:
        self._screen = screen
        # Where a jump goes that is not there so far; what is begun meanwhile is begun from there.
        self._target: Target | None = None
        # Set while nothing is on its way that keys had better wait for.
        self.still = asyncio.Event()
        self.still.set()
        self._at_work: object = None
        # Views, segments and places that jumps came from.
        self._trail: list[tuple[str, int, Place | None]] = []

    def begin(self, work: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Do work in the place of what was begun before; a jump alone is not left halfway."""
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
        """Show a segment; view: None = the one that is shown."""
        if base_offset != self._screen.opened.base_offset:
            await self._screen.following.select(base_offset)
        if view is not None:
            await self._screen.views.show(view)

    async def to_neighbour(self, forwards: bool) -> None:
        """Go to the next segment, or to the one before, if there is one."""
        browsing = self._screen.opened
        base_offset = browsing.neighbour(browsing.base_offset, forwards)
        if base_offset is None:
            self._screen.notify(f"there is no {'further segment' if forwards else 'segment before'}", timeout=2)
        else:
            browsing.following = browsing.ending = False
            await self.to_segment(base_offset, None)

    async def flow_on(self, forwards: bool) -> None:
        """Go to the first record of the next segment, or to the last one of the segment before."""
        browsing = self._screen.opened
        base_offset = browsing.neighbour(browsing.base_offset, forwards)
        place = None
        if base_offset is not None:
            place = await browsing.ask(partial(browsing.reader.edge, base_offset, at_end=not forwards))
        if place is not None:
            await self.to_place(place, None)
        elif self._screen.views.is_one_of(("record",)):
            self._screen.notify(f"this is the {'last' if forwards else 'first'} record of the log", timeout=2)

    # Places.

    def remember(self) -> None:
        """Remember what is shown, for `jump_back`."""
        browsing, way = self._screen.browsing, self._screen.views.way
        if browsing is not None and way and browsing.base_offset is not None:
            self._trail = [*self._trail[1 - MOST_REMEMBERED :], (way[-1], browsing.base_offset, browsing.place)]

    def jump_back(self) -> None:
        """Go to where the last jump came from."""
        if not self._trail:
            self._screen.notify("no jump to go back from", timeout=2)
            return
        view, base_offset, place = self._trail.pop()
        if place is None:
            self.begin(self.to_segment, base_offset, view)
        else:
            self.begin(self.to_place, place, view)

    def jump(self, target: Target, view: str | None) -> None:
        """Go to a target in the place of whatever was begun before; view: None = the one that is shown."""
        self._target = target
        self.remember()
        self._start(partial(self.to_target, target, view))

    async def to_target(self, target: Target, view: str | None) -> None:
        """Go to a target; view: None = the one that is shown."""
        if await self._move(target):
            await self._show(view)
            self._screen.show_lines()

    async def _move(self, target: Target) -> bool:
        """Move all views to a target; return whether it was found."""
        try:
            moved = await self._place_at(target)
        except Exception:
            self._target = None
            raise
        self._target = None
        return moved

    async def _place_at(self, target: Target) -> bool:
        screen, browsing = self._screen, self._screen.opened
        place = await browsing.ask(browsing.reader.locate, target)
        if place is None:
            screen.tell(not_found(target, browsing.state, screen.session.times))
            return False
        # What was wrong on other ways.
        screen.on_told(messages.Told(None))
        if isinstance(target, Byte) and place.position < target.position:
            screen.notify(f"the segment has {place.position + 1:,} bytes", severity="warning", markup=False)
        await self._arrive(place)
        return True

    async def to_place(self, place: Place, view: str | None) -> None:
        """Go to what has been found already; view: None = the one that is shown."""
        self._screen.on_told(messages.Told(None))
        await self._arrive(place)
        await self._show(view)
        self._screen.show_lines()

    async def _arrive(self, place: Place) -> None:
        """Make it the place that views agree on."""
        screen, browsing = self._screen, self._screen.opened
        browsing.following = browsing.ending = False
        if place.base_offset != browsing.base_offset:
            await browsing.select(place.base_offset)
            screen.following.index()
            # So that in a short segment the next key finds all rows.
            await browsing.read_more()
        browsing.place = place
        browsing.is_waiting = not browsing.is_reached
        if browsing.search is not None:
            browsing.search.on_the_way = False
        # Of a long segment all headers before it are read first: what is waited for is told meanwhile.
        screen.show_lines()

    async def _show(self, view: str | None) -> None:
        if view is not None:
            await self._screen.views.show(view)
        else:
            await self._screen.views.appear()
