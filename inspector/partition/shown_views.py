"""The views of a partition that have been made, the one that is shown, and the way back.

    way      segments -> batches -> records          records is shown; escape goes to batches
    key 4    segments -> batches                     the way is cut back to where the view was shown before

A view is made when it is first shown, and kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING

from .. import messages

if TYPE_CHECKING:
    from textual.widget import AwaitMount

    from ..screens.partition import PartitionScreen
    from ..views.view import View

# In which one match after another can be seen.
VIEWS_OF_RECORDS = ("records", "record", "hex")
# In which a batch can be seen; from the others one goes to the batches.
VIEWS_OF_PLACES = ("map", "batches", *VIEWS_OF_RECORDS)


class ShownViews:
    """The views of one screen.

    Attributes:
        current: The view that is shown; None before the first is.
        way: The names of the views on the way back; the last is the one that is shown.
    """

    def __init__(self, screen: PartitionScreen) -> None:
        self.current: View | None = None
        self.way: list[str] = []
        self._screen = screen
        self._made: dict[str, tuple[View, AwaitMount]] = {}
        self._showing = asyncio.Lock()

    def is_one_of(self, names: Collection[str]) -> bool:
        """Return whether one of these is shown."""
        return bool(self.way) and self.way[-1] in names

    async def show(self, name: str) -> None:
        """Show a view; the way back ends at it, or is cut back to where it was shown before."""
        async with self._showing:
            await self._change(name)

    async def _change(self, name: str) -> None:
        self.way = [*self.way[: self.way.index(name)], name] if name in self.way else [*self.way, name]
        view, mount = self._view(name)
        if not view.is_mounted:
            # Begun before, perhaps, and then a key came in between.
            await mount
        if self.current is not view:
            # Of the view before; this one tells what it knows.
            self._screen.on_told(messages.Told(None))
        self.current = view
        # Whoever was about to be shown and was not: a key came in between.
        for each, _ in self._made.values():
            each.display = each is view
        await view.appear()
        if view.focus_target is not None:
            self._screen.give_keys(view.focus_target)
        self._screen.refresh_bindings()
        self._screen.show_lines()

    def _view(self, name: str) -> tuple[View, AwaitMount]:
        if name not in self._made:
            module = import_module(f"..views.{name}", __package__)
            view: View = getattr(module, f"{name.capitalize()}View")(self._screen.opened)
            self._made[name] = view, self._screen.query_one("#views").mount(view)
        return self._made[name]

    def one_back(self) -> str | None:
        """Return the name of the view before, which is to be shown; None: there is none."""
        if len(self.way) <= 1:
            return None
        self.way.pop()
        return self.way[-1]

    async def appear(self) -> None:
        """Show the view anew: what it shows may be another thing altogether."""
        if self.current is not None:
            await self.current.appear()

    async def refreshed(self) -> None:
        """Tell the view that the state of the partition is new."""
        if self.current is not None:
            await self.current.refreshed()

    async def indexed(self) -> None:
        """Tell the view that more of the segment has been read."""
        if self.current is not None:
            await self.current.indexed()
