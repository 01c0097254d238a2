"""Lines of something long, read in pieces, and only where they are seen; a cursor in it.

    pieces     0        1        2        3        4           of so many rows, or bytes, each
    seen                         ======
    kept       x                 x                             the last that were seen, sixteen at most
    wanted                                3                    the last that was asked for is read first

A worker asks for one piece after another in the thread of the desk. A piece that is forgotten on its way (of what is
shown no more, or of an end that has grown) is thrown away when it comes. Subclasses say what a line looks like and
where the cursor is in it.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.worker import WorkType

from ..desk import Desk
from ..messages import Told

P = TypeVar("P")
PIECES_KEPT = 16
# Lines: fewer have no middle. So low is a view on its way to the place that it will have, too.
LEAST_WITH_MIDDLE = 3


class PagedView(ScrollView, Generic[P], can_focus=True):
    """A view of many lines.

    Attributes:
        cursor: The row, or byte, that the keys are at.
        count: The number of rows or bytes.
        following: Whether the cursor stays at the end.
    """

    when_empty: reactive[str] = reactive("")

    @dataclass
    class Moved(Message):
        """The cursor is at another row, or byte. by_user: somebody has moved it."""

        cursor: int
        by_user: bool

    class Chosen(Message):
        """Enter, or a double click."""

    class Paused(Message):
        """The user has gone up, away from the end that was followed."""

    class Resumed(Message):
        """The user has gone to the end."""

    def __init__(self, piece: int, *, titles: bool = True, unreadable: P | None = None) -> None:
        """Prepare the view. piece: its length. unreadable: kept for a piece that fails; None: asked for again."""
        super().__init__()
        self.titles = titles
        self.cursor = 0
        self.count = 0
        self.following = False
        self._piece = piece
        self._unreadable = unreadable
        self._read: Callable[[int, int], P] | None = None
        self._desk: Desk | None = None
        self._pieces: OrderedDict[int, P] = OrderedDict()
        self._wanted: list[int] = []
        self._loading = False
        # The piece on its way; None also when it has been forgotten since.
        self._awaited: int | None = None
        # Whether the cursor's line is to be brought to the middle once there is one.
        self._unplaced = False

    # What differs.

    @abstractmethod
    def _titles(self) -> Strip:
        """Return the line at the top, which stays."""

    @abstractmethod
    def _line(self, number: int) -> Strip:
        """Return a line, or a blank one after the last."""

    @abstractmethod
    def _resized(self) -> None:
        """Set `virtual_size`: there is other room, or more to show."""

    @abstractmethod
    def _at(self, x: int, y: int) -> int | None:
        """Return where the cursor goes with a click: x cells from the left of all, y lines below the top seen."""

    def _line_of(self, cursor: int) -> int:
        return cursor

    def _most_wanted(self) -> int:
        """Return twice the number of pieces seen at once; what was asked for before them is seen no more."""
        return 4

    # Reading.

    def _show_pieces(self, read: Callable[[int, int], P] | None, desk: Desk | None) -> None:
        """Show others: `read(first, count)` is called in the desk's thread; without a desk at once."""
        self._read, self._desk = read, desk
        self._forget()

    def _forget(self, first: int = 0) -> None:
        """Forget what was read from a row, or byte, on; the piece that it is in too."""
        start = first // self._piece
        for number in [each for each in self._pieces if each >= start]:
            del self._pieces[number]
        self._wanted = [each for each in self._wanted if each < start]
        if self._awaited is not None and self._awaited >= start:
            self._awaited = None

    def _piece_with(self, place: int) -> P | None:
        """Return the piece with a row, or byte. None: it is not there yet, and has been asked for."""
        number = place // self._piece
        piece = self._pieces.get(number)
        if piece is None and self._desk is None and self._read is not None:
            piece = self._keep(number, self._read(number * self._piece, self._piece))
        if piece is None:
            self._want(number)
            return None
        self._pieces.move_to_end(number)
        return piece

    def _keep(self, number: int, piece: P) -> P:
        self._pieces[number] = piece
        while len(self._pieces) > PIECES_KEPT:
            self._pieces.popitem(last=False)
        return piece

    def _want(self, number: int) -> None:
        if number not in self._wanted:
            self._wanted.append(number)
        if not self._loading and self.is_attached:
            self._loading = True
            load: WorkType[None] = self._load
            self.run_worker(load, group="pieces", exit_on_error=False)

    async def _load(self) -> None:
        """Read what was asked for last first: it is what is seen."""
        try:
            while self._wanted and self._desk is not None and self._read is not None:
                number = self._awaited = self._wanted.pop()
                piece = await self._read_at(self._desk, self._read, number)
                if piece is not None and self._awaited is not None:
                    self._keep(number, piece)
                    del self._wanted[: -self._most_wanted()]
                    self.refresh()
        except asyncio.CancelledError:
            self._wanted.clear()
            raise
        finally:
            self._loading, self._awaited = False, None

    async def _read_at(self, desk: Desk, read: Callable[[int, int], P], number: int) -> P | None:
        try:
            return await desk(read, number * self._piece, self._piece)
        except Exception as error:  # noqa: BLE001 - told in its place; the program goes on
            self.post_message(Told.of(error))
            return self._unreadable

    # Drawing.

    def render_line(self, y: int) -> Strip:
        """Return one line of what is seen."""
        x, top = self.scroll_offset
        strip = self._titles() if self.titles and y == 0 else self._line(top + y - self.titles)
        return strip.crop_extend(x, x + self.size.width, self.rich_style).apply_offsets(x, y)

    def _lines_seen(self) -> int:
        return max(1, self.scrollable_content_region.height - self.titles)

    # Moving.

    def go(self, cursor: int, *, tell: bool = False) -> None:
        """Move the cursor to a place, brought to the middle if it was not seen; tell: also if it was there."""
        self._show_line(self._line_of(cursor), in_middle=True)
        self._move(cursor, tell=tell)

    def _move(self, cursor: int, *, tell: bool = False, by_user: bool = False) -> None:
        before, self.cursor = self.cursor, max(0, min(cursor, self.count - 1))
        self._show_line(self._line_of(self.cursor))
        self.refresh()
        if tell or before != self.cursor:
            self.post_message(self.Moved(self.cursor, by_user))

    def _show_line(self, line: int, *, in_middle: bool = False) -> None:
        """Scroll, as far as is needed, to a line that is not seen."""
        top, height = self.scroll_offset.y, self._lines_seen()
        if top <= line < top + height and not self._unplaced:
            return
        in_middle = in_middle or self._unplaced
        self._unplaced = in_middle and height < LEAST_WITH_MIDDLE
        if not self.size.height:
            # Where lines will be seen is known only once there is room for them.
            return
        nearest = line if line < top else line - height + 1
        y = max(0, line - height // 2) if in_middle else nearest
        self.scroll_to(y=y, animate=False, immediate=True, force=True)

    def _by_key(self, cursor: int) -> None:
        if cursor < self.cursor:
            self.pause()
        self._move(cursor, by_user=True)

    def action_move_lines(self, lines: int) -> None:
        self._by_key(self.cursor + lines)

    def action_move_pages(self, pages: float) -> None:
        lines = max(1, int(abs(pages) * self._lines_seen()))
        self.action_move_lines(lines if pages > 0 else -lines)

    def action_move_to_start(self) -> None:
        self._by_key(0)

    def action_move_to_end(self) -> None:
        self._move(self.count - 1, by_user=True)
        self.post_message(self.Resumed())

    def action_choose(self) -> None:
        if self.count:
            self.post_message(self.Chosen())

    def pause(self) -> None:
        """Follow the end no more."""
        if self.following:
            self.following = False
            self.post_message(self.Paused())

    def on_click(self, event: events.Click) -> None:
        at = self._at(self.scroll_offset.x + int(event.x), int(event.y))
        if at is None:
            return
        if at == self.cursor and event.chain == 2:
            self.action_choose()
        else:
            self._by_key(at)

    def on_mouse_scroll_up(self) -> None:
        self.pause()

    def on_resize(self) -> None:
        self._resized()
        self._show_line(self._line_of(self.cursor))
