"""What all views of a partition have in common, and the way work is begun that may fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec

from textual.containers import Vertical
from textual.widget import Widget
from textual.worker import WorkType

from .. import messages
from ..browsing import Browsing
from ..session import Session

P = ParamSpec("P")


def start(
    widget: Widget, group: str, work: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **kwargs: P.kwargs
) -> None:
    """Run `work` in the place of what this widget has begun in the same group. Errors are shown in its place."""
    # A function, not a coroutine: what is replaced before it has begun is never made.
    guarded: WorkType[None] = partial(_guarded, widget, partial(work, *args, **kwargs))
    widget.run_worker(guarded, group=group, exclusive=True, exit_on_error=False)


async def _guarded(widget: Widget, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await work()
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - told in its place; the program goes on
        widget.post_message(messages.Told.of(error))


class View(Vertical):
    """A view of a partition.

    The screen calls `appear` when it is shown, and again when what it shows may be another thing altogether (another
    segment, a jump, another time zone); `refreshed` when the partition's state is new, `indexed` when more headers of
    the segment have been read. Only the view that is shown is called.
    """

    def __init__(self, browsing: Browsing) -> None:
        super().__init__()
        self.browsing = browsing

    @property
    def session(self) -> Session:
        """What all screens share."""
        return self.browsing.session

    @property
    def focus_target(self) -> Widget | None:
        """The widget that gets the focus, and with it the keys, when the view appears: the first that can."""
        return next((each for each in self.query(Widget) if each.can_focus), None)

    @property
    def restriction(self) -> str:
        """The filter of the rows as text for the top line; empty if all rows are shown."""
        return ""

    async def appear(self) -> None:
        """Show what is looked at now."""

    async def refreshed(self) -> None:
        """Show the new state of the partition."""

    async def indexed(self) -> None:
        """Show what more of the segment has been read."""

    async def settle(self) -> None:
        """Make what is under the cursor the place that views agree on, where it is not read so far."""

    def back(self) -> bool:
        """Do what escape means here; return False if that is to go one level back."""
        return False

    async def copied(self) -> str:
        """Return what `c` copies; "" = nothing."""
        return ""
