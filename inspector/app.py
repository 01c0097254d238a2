"""The inspector in a terminal: `InspectorApp(model, settings).run()`.

Nothing here reads a file: the model is asked in threads (`desk`), and screens draw what it answers. No text of a log or
of a path is ever taken for markup.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen
from textual.worker import WorkType

from . import messages, text
from .columns import Times
from .config import TIME_ZONES, Settings
from .ending import end_from_outside, stop_looking
from .keys import ACTIONS, HELP, MOVES, bindings
from .screens.base import InspectorScreen
from .session import Session
from .view_table import VIEWS
from .widgets.lazy_table import LazyTable

if TYPE_CHECKING:
    from .model.model import Model

SETTLED_SECONDS = 2.0
# An effect that takes longer is not waited for.
KEY_SECONDS = 1.0
PALETTE_LINES = 10
DEFAULT_THEME = "textual-dark"
COLOURLESS_THEME = "ansi-dark"
# Terminals that know no colours get none, as with NO_COLOR.
COLOURLESS = ("vt100", "vt102", "vt220", "dumb")


class Warnings(logging.Handler):
    """Shows what the library would write to the terminal, which is taken; each message once."""

    def __init__(self, app: InspectorApp) -> None:
        super().__init__(logging.WARNING)
        self._app = app
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message of the library, each once, from whichever thread."""
        message = text.printable(record.getMessage())
        if message not in self._told:
            self._told.add(message)
            self._app.call_later(self._app.notify, message, severity="warning", markup=False)


class InspectorApp(App[None]):
    """The application. It has a list of partitions if the model is of a data directory."""

    CSS_PATH = "app.tcss"
    TITLE = "kafkalog"
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")
    # Seconds; what they cover is what one looks at.
    NOTIFICATION_TIMEOUT = 3
    # Where there is room, panels stand beside tables; where there is little, they go.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall")]  # noqa: RUF012

    def __init__(self, model: Model, settings: Settings, times: Times | None = None) -> None:
        """Prepare the application. times: None = as the settings say."""
        # Without colours, those of the terminal are left as they are.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.session = Session(model, settings, times)
        # When `q` was pressed last at the top level.
        self._leave_asked = -math.inf
        self._warnings = Warnings(self)
        # Keys that wait until the one before has had its effect.
        self.typed: asyncio.Queue[events.Key] = asyncio.Queue()

    def get_default_screen(self) -> Screen[None]:
        """Return the first screen, the only one that is made before it is wanted."""
        if self.session.has_topics:
            from .screens.topics import TopicsScreen

            return TopicsScreen(self.session)
        return self._partition_screen(None)

    def _partition_screen(self, name: str | None, jump: messages.Jump | None = None) -> Screen[None]:
        from .screens.partition import PartitionScreen

        return PartitionScreen(self.session, name, jump)

    def on_mount(self) -> None:
        pass_keys: WorkType[None] = self._pass_keys
        self.run_worker(pass_keys)
        if not self.is_headless:
            end_from_outside(lambda code: self.exit(return_code=code))
        # The collector looks through all that lives, some 60 ms while a key waits; modules and styles stay anyway.
        self.set_timer(SETTLED_SECONDS, gc.freeze)
        self.set_timer(SETTLED_SECONDS, self._import_jobs)
        logging.getLogger("kafkalog").addHandler(self._warnings)
        self.set_keymap(self.session.settings.keymap)
        mistakes = [*self.session.settings.mistakes, *self._use_theme()]
        if mistakes:
            self.notify("\n".join(mistakes), title="config file", severity="warning", timeout=10, markup=False)

    def _import_jobs(self) -> None:
        """Import the jobs in a thread, so that the first key that begins one does not wait for it."""
        self.run_worker(self.session.desk(import_module, ".jobs.runs", __package__), exit_on_error=False)

    def _use_theme(self) -> list[str]:
        theme = self.session.settings.theme
        if theme is not None and theme not in self.available_themes:
            return [f"theme: no such theme: {theme!r}; there are {', '.join(sorted(self.available_themes))}"]
        self.theme = theme or (COLOURLESS_THEME if self.no_color else DEFAULT_THEME)
        return []

    def on_unmount(self) -> None:
        logging.getLogger("kafkalog").removeHandler(self._warnings)
        self.session.close()

    def on_open_partition(self, message: messages.OpenPartition) -> None:
        self.push_screen(self._partition_screen(message.name, message.jump))

    def on_close_partition(self) -> None:
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.notify("this is the top level; ctrl+q quits", timeout=2)

    # Keys.

    async def on_event(self, event: events.Event) -> None:
        """Queue keys, so that those typed faster than a prompt or a view opens are for it. Quitting does not wait."""
        if isinstance(event, events.Key) and not event.is_forwarded and self._action_of(event.key) != "quit":
            self.typed.put_nowait(event)
        else:
            await super().on_event(event)

    def _action_of(self, key: str) -> str | None:
        active = self.screen.active_bindings.get(key)
        return None if active is None else active.binding.id

    @staticmethod
    def _possible(screen: Screen[object]) -> set[str]:
        """Return the names of the actions that are possible on a screen."""
        bound = (active.binding.id for active in screen.active_bindings.values() if active.enabled)
        return {name for name in bound if name is not None}

    async def _pass_keys(self) -> None:
        event = await self.typed.get()
        # Keys passed on since the last effect was waited for.
        ahead = 0
        while True:
            await super().on_event(event)
            following = None if self.typed.empty() else self.typed.get_nowait()
            # A held key that moves a cursor is not faster than the screen is drawn.
            is_held = following is not None and following.key == event.key and self._action_of(event.key) in MOVES
            ahead = ahead + 1 if is_held else 0
            if not is_held or not self._has_room(ahead):
                await self._until_effective()
                ahead = 0
            event = following or await self.typed.get()

    def _has_room(self, keys: int) -> bool:
        """Return whether so many moves stay within a table's rows: beyond them, the next segment is waited for."""
        table = self.focused
        return not isinstance(table, LazyTable) or table.has_room(keys)

    async def _until_effective(self) -> None:
        """Wait until a key has had its effect, but not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KEY_SECONDS):
                # The key comes to its action, what the action sends to the view, and what the view sends to the screen.
                for _ in range(3):
                    await self._until_handled()
                if isinstance(self.screen, InspectorScreen):
                    await self.screen.until_still()

    async def _until_handled(self) -> None:
        """Wait until all messages are handled from the focused widget up to the application."""
        for node in (self.focused or self.screen).ancestors_with_self:
            handled = asyncio.Event()
            if node.call_later(handled.set):
                await handled.wait()

    def action_press(self, name: str) -> None:
        """Press the key of an action, after a click at it in the last line."""
        for active in self.screen.active_bindings.values():
            if active.binding.id == name:
                self.simulate_key(active.binding.key)
                return

    def action_leave(self) -> None:
        """Go one level back; at the top level quit, if the key is pressed twice."""
        screen = self.screen
        # What is modal has keys of its own.
        assert isinstance(screen, InspectorScreen)
        if len(self.screen_stack) > 1 or screen.has_way_back:
            screen.action_back()
        elif time.monotonic() - self._leave_asked < self.NOTIFICATION_TIMEOUT:
            self.exit()
        else:
            self._leave_asked = time.monotonic()
            self.notify("press q again to quit")

    def action_command_palette(self) -> None:
        """Open Textual's list of commands, which ends in an error where it has no line to itself."""
        if self.size.height < PALETTE_LINES:
            self.notify("the terminal is too low for the palette", timeout=2)
        else:
            super().action_command_palette()

    def action_help(self) -> None:
        from .screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.session.settings.keymap, self._possible(self.screen)))

    def action_time_zone(self) -> None:
        """Show times in UTC, in local time, as ago, and in ms, by turns."""
        times = self.session.times
        times.zone = TIME_ZONES[(TIME_ZONES.index(times.zone) + 1) % len(TIME_ZONES)]
        for screen in self.screen_stack:
            if isinstance(screen, InspectorScreen):
                screen.times_changed()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the commands of the palette: all that keys do here, and the views."""
        yield SystemCommand("Theme", "choose a theme", self.action_change_theme)
        for name, command in _COMMANDS.items():
            if name in self._possible(screen):
                yield SystemCommand(command, HELP[name], partial(self.action_press, name))


def _commands() -> dict[str, str]:
    titles = {f"view_{view.name}": f"Show {view.title}" for view in VIEWS}
    named = {action.name: action.name.replace("_", " ").capitalize() for action in ACTIONS if action.scope != "table"}
    return {**named, **titles}


_COMMANDS = _commands()


def run(path: Path, settings: Settings) -> int:
    """Show what is at a path until the user leaves.

    Args:
        path: A data directory, a partition or a segment file.
        settings: The settings of the config file.

    Returns:
        The exit code.

    Raises:
        NotALogError: The path holds no log.
        OSError: The path was not opened.
    """
    from .model.model import Model

    if os.environ.get("TERM", "") in COLOURLESS:
        os.environ.setdefault("NO_COLOR", "1")
    app = InspectorApp(Model(path), settings)
    app.run()
    stop_looking()
    return app.return_code or 0
