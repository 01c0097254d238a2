"""Keys that are typed faster than what they lead to comes: each waits until the one before has had its effect.

    typed     :   1   2   enter   J   J      a prompt opens, closes, and a place is gone to before the J's count
    passed    :  ... held ... 1   2   enter  ... held ...   J  ... held ...   J

What is held goes on when the prompt or view has come, or when it has not for so long that keys may be meant for now.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from textual import events
from textual.widget import Widget
from textual.widgets import Input

from inspector.keys import ASKING
from inspector.screens.base import InspectorScreen

if TYPE_CHECKING:
    from textual.worker import WorkType

    from inspector.app import InspectorApp

# A prompt, or view, that has not come by then never will, or takes so long that other keys may be meant for now.
HELD_SECONDS = 1.0


class TypedKeys:
    """The keys of one application. pass_on: gives an event to whatever it is for now."""

    def __init__(self, app: InspectorApp, pass_on: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app = app
        self._pass_on = pass_on
        self._waiting: deque[events.Key] = deque()
        self._is_held = False
        # How often keys were held so far: whoever was to release an earlier time comes too late.
        self._times_held = 0
        # The key that has not come back so far from where it was passed to.
        self._passed: events.Key | None = None

    @property
    def are_passed(self) -> bool:
        """Whether none is waiting."""
        return not self._waiting

    async def type(self, key: events.Key) -> None:
        """A key has been pressed. The one that quits waits for nothing."""
        if self._name_of(key.key) == "quit":
            self._is_held = False
            self._waiting.clear()
        self._waiting.append(key)
        await self._pass_all()

    def handled(self, event: events.Event) -> None:
        """An event has been passed on; a key that has come back, so, from where keys go: what it does has begun."""
        if event is self._passed:
            self._passed = None
            focused = self._app.focused or self._app.screen
            settle: WorkType[None] = partial(self._release_when_still, focused, self._times_held)
            self._app.run_worker(settle, exit_on_error=False)

    def release(self) -> None:
        """A prompt has come, or gone, or a view: the keys behind the one that it came, or went, by are passed on."""
        self._is_held = False
        self._app.call_later(self._pass_all)

    async def _pass_all(self) -> None:
        while self._waiting and not self._is_held:
            key = self._waiting.popleft()
            self._passed = None
            if self._is_of_prompt(key.key):
                self._hold()
                await self._pass_on(key)
            elif isinstance(self._app.screen, InspectorScreen) and not isinstance(self._app.focused, Input):
                self._hold()
                self._passed = key
                await self._pass_on(key)
                if not key.is_forwarded:
                    self._is_held = False
            else:
                await self._pass_on(key)

    def _hold(self) -> None:
        self._is_held = True
        self._times_held += 1
        self._app.set_timer(HELD_SECONDS, partial(self._release_if, self._times_held))

    def _release_if(self, times_held: int) -> None:
        if times_held == self._times_held:
            self.release()

    async def _release_when_still(self, widget: Widget, times_held: int) -> None:
        """Once all that the key has begun is done: what it set off has gone up from the widget, view by view."""
        for node in widget.ancestors_with_self:
            if node is self._app or not isinstance(node, Widget):
                break
            # One message may have led to another in the same place.
            for _ in range(2):
                passed = asyncio.Event()
                if node.call_later(passed.set):
                    await passed.wait()
        if isinstance(self._app.screen, InspectorScreen):
            await self._app.screen.until_still()
        self._release_if(times_held)

    def _name_of(self, key: str) -> str | None:
        active = self._app.screen.active_bindings.get(key)
        return None if active is None or not active.enabled else active.binding.id

    def _is_of_prompt(self, key: str) -> bool:
        """Whether it opens a prompt, or may close one."""
        if not isinstance(self._app.screen, InspectorScreen):
            return False
        if isinstance(self._app.focused, Input):
            return key in {"enter", "escape"}
        return self._name_of(key) in ASKING
