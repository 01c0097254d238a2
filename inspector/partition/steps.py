"""Steps to the next damage, transaction or match, each key press one of them, also while the one before is under way.

    n n n       the third match from here, or as far as there are any; those that come later are waited for
    e           the next damage, in whatever segment it is; E takes it back while it is looked for

What takes long is told in the line at the top; escape ends it, and so does whatever else is gone to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model.types import Offset, Place
from .find_next import Hunt, Kind
from .shown_views import VIEWS_OF_PLACES, VIEWS_OF_RECORDS

if TYPE_CHECKING:
    from ..jobs.runs import SearchRun
    from ..screens.partition import PartitionScreen

# Then keys do not wait any longer for what is looked for.
BRIEF_SECONDS = 0.3
BETWEEN_DRAWINGS_SECONDS = 0.1


@dataclass(slots=True)
class _Steps:
    """Steps under way. left: how many are still to be done."""

    what: str
    forwards: bool
    left: int = 1


class Stepping:
    """The steps of one screen."""

    def __init__(self, screen: PartitionScreen) -> None:
        self._screen = screen
        self._steps: _Steps | None = None
        self._hunt: Hunt | None = None
        self._began = self._drawn = 0.0

    @property
    def said(self) -> str:
        """What is under way, for the line at the top; "" = nothing that takes long."""
        if self._steps is None or time.monotonic() - self._began < BRIEF_SECONDS:
            return ""
        more = f" ({self._steps.left})" if self._steps.left > 1 else ""
        if self._hunt is None:
            return f"waiting for a match{more}, esc ends it"
        progress = self._hunt.progress
        share = f" {100 * progress.done_bytes // max(1, progress.total_bytes)}%" if progress is not None else ""
        return f"looking for {self._hunt.what}{more} in segment {self._hunt.base_offset}{share}, esc ends it"

    def stop(self) -> bool:
        """Stop the steps under way; return whether there were some."""
        was, self._steps = self._steps is not None, None
        if was:
            self._screen.going.begin(_nothing)
            self._screen.show_lines()
        return was

    def _is_counted(self, what: str, forwards: bool) -> bool:
        """Count a step among those under way; return whether there are such."""
        steps = self._steps
        if steps is None or steps.what != what:
            return False
        steps.left += 1 if forwards == steps.forwards else -1
        if steps.left <= 0:
            self.stop()
        self._screen.show_lines()
        return True

    @contextmanager
    def _under_way(self, steps: _Steps, hunt: Hunt | None = None) -> Iterator[None]:
        self._steps, self._hunt = steps, hunt
        self._began = self._drawn = time.monotonic()
        self._screen.set_timer(BRIEF_SECONDS, self._screen.show_lines)
        try:
            yield
        finally:
            if self._steps is steps:
                self._steps = self._hunt = None
            self._screen.show_lines()

    # Batches.

    def to_batch(self, what: Kind, forwards: bool) -> None:
        """Go from the batch at the cursor to the next one, in whatever segment."""
        from ..views.transactions import TransactionsView

        view = self._screen.views.current
        if what == "transaction" and isinstance(view, TransactionsView):
            view.step(forwards)
        elif not self._is_counted(what, forwards):
            self._screen.going.begin(self._to_batch, what, forwards)

    async def _to_batch(self, what: Kind, forwards: bool) -> None:
        browsing = self._screen.opened
        begun_in, steps, found = browsing.base_offset, _Steps(what, forwards), None
        hunt = Hunt(browsing, what, forwards, self._show_progress)
        with self._under_way(steps, hunt):
            while steps.left and (place := await hunt.next()) is not None:
                found, steps.left = place, steps.left - 1
        self._tell_batch(hunt, begun_in, found, is_short=steps.left > 0)
        if found is not None:
            self._screen.going.remember()
            view = None if self._screen.views.is_one_of(VIEWS_OF_PLACES) else "batches"
            await self._screen.going.to_place(found, view)

    def _tell_batch(self, hunt: Hunt, begun_in: int | None, found: Place | None, *, is_short: bool) -> None:
        none = f"no {hunt.what} {'after' if hunt.forwards else 'before'} this in"
        unread = f"; segments not readable: {hunt.unread}" if hunt.unread else ""
        if is_short:
            self._screen.notify(f"{none} the log{unread}", timeout=2)
        elif found is not None and found.base_offset != begun_in:
            self._screen.notify(f"{none} segment {begun_in}: on to segment {found.base_offset}{unread}", timeout=2)

    def _show_progress(self) -> None:
        now = time.monotonic()
        if now - self._began > BRIEF_SECONDS:
            self._screen.going.still.set()
        if now - self._drawn > BETWEEN_DRAWINGS_SECONDS:
            self._drawn = now
            self._screen.show_lines()

    # Matches.

    def to_match(self, forwards: bool) -> None:
        """Go to the next match, or the one before, in the list of them or in the log."""
        from ..views.search import SearchView

        browsing, view = self._screen.opened, self._screen.views.current
        if browsing.search is None:
            self._screen.notify("nothing has been searched for; / begins", timeout=2)
            return
        if isinstance(view, SearchView):
            view.step(forwards)
        elif not self._is_counted("match", forwards):
            self._screen.going.begin(self._to_matches, browsing.search, forwards)

    async def _to_matches(self, run: SearchRun, forwards: bool) -> None:
        steps = _Steps("match", forwards)
        with self._under_way(steps):
            while steps.left and await self._to_match(run, steps):
                pass

    async def _to_match(self, run: SearchRun, steps: _Steps) -> bool:
        """Go to matches after the cursor, or after the one just gone to; return whether there is one."""
        offset = await self._match_beside(run, steps.forwards)
        if offset is None:
            self._tell_search(f"no match {'after' if steps.forwards else 'before'} this")
            return False
        steps.left -= 1
        while steps.left and (further := run.beside(offset, steps.forwards)) is not None:
            offset, steps.left = further, steps.left - 1
        run.current, run.on_the_way = offset, True
        self._screen.going.remember()
        view = None if self._screen.views.is_one_of(VIEWS_OF_RECORDS) else "records"
        await self._screen.going.to_target(Offset(offset), view)
        return True

    async def _match_beside(self, run: SearchRun, forwards: bool) -> int | None:
        """Return the next match, which may have to be waited for; None: there is none."""
        place = self._screen.opened.place
        here = run.current if run.on_the_way else None if place is None else place.offset
        is_told = False
        while (offset := run.beside(here, forwards)) is None and run.may_find(forwards):
            if not is_told:
                self._tell_search("searching …")
            is_told = True
            # It may take long: keys are for now.
            self._show_progress()
            self._screen.going.still.set()
            await run.changed()
        return offset

    def _tell_search(self, what: str) -> None:
        from ..views.search import found, reached

        run = self._screen.opened.search
        assert run is not None
        self._screen.notify(f"{what}: {found(run)}; {reached(run)}", timeout=2, markup=False)


async def _nothing() -> None:
    """Do nothing, in the place of what is under way."""
