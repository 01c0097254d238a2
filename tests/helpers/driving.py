"""Drive the inspector without a terminal: press keys, and wait for what the screen shows."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog.inspector.app import InspectorApp
from kafkalog.inspector.columns import Times
from kafkalog.inspector.config import Settings
from kafkalog.inspector.model.model import Model
from kafkalog.inspector.screens.partition import PartitionScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from kafkalog.inspector.browsing import Browsing

# So that ages are the same for ever.
DEFAULTS = Settings()
NOW = 1_800_000_000_000
PATIENCE_SECONDS = 60
BETWEEN_LOOKS_SECONDS = 0.01
SNAPSHOT_SECONDS = 10
SNAPSHOTS = Path(__file__).parents[1] / "inspector" / "snapshots"
UPDATE = "KAFKALOG_UPDATE_SNAPSHOTS"


class Terminal:
    """The running application, its screen as text, and its keys."""

    def __init__(self, app: InspectorApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def lines(self) -> list[str]:
        """The screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until it holds; fail with the screen where it does not."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            await self.pilot.pause()
            if condition():
                return
            await asyncio.sleep(BETWEEN_LOOKS_SECONDS)
        raise AssertionError(f"waited {PATIENCE_SECONDS} s in vain; the screen shows\n{self.text}")

    async def sees(self, *wanted: str) -> None:
        """Wait until the screen shows all of these."""
        await self.until(lambda: _all_in(self.text, wanted))

    async def press(self, *keys: str, sees: str | None = None) -> None:
        """Press keys after taking away notifications, which stay otherwise (see `_keep_notifications`)."""
        self.app.clear_notifications()
        await self.pilot.press(*keys)
        if sees is not None:
            await self.sees(sees)

    async def quits(self) -> None:
        """Wait until the application has been told to exit."""
        await self.until(lambda: self.app._exit)

    async def pastes(self, text: str) -> None:
        from textual.events import Paste

        self.app.post_message(Paste(text))
        await self.pilot.pause()

    async def types(self, text: str) -> None:
        await self.pilot.press(*(character if character != " " else "space" for character in text))


def logs(golden_logs: Path, archive: str = "kafka-3.9") -> Path:
    """The data directory of a broker."""
    return golden_logs / archive / "data"


def drive(
    path: Path,
    steps: Callable[[Terminal], Awaitable[None]],
    *,
    size: tuple[int, int] = (80, 24),
    settings: Settings = DEFAULTS,
) -> None:
    """Open `path`, do the steps, and quit. What the application raises is raised here."""

    async def run() -> None:
        app = InspectorApp(Model(path), settings, Times(settings.time_zone, lambda: NOW))
        _keep_notifications(app)
        async with app.run_test(size=size, notifications=True) as pilot:
            await steps(Terminal(app, pilot))

    asyncio.run(run())


def _all_in(text: str, wanted: Iterable[str]) -> bool:
    return all(each in text for each in wanted)


def _keep_notifications(app: InspectorApp) -> None:
    """Show them until the next key is pressed: after two seconds a slow machine might not have looked."""
    notify = app.notify

    def notify_for_long(message: str, **options: Any) -> None:
        notify(message, **{**options, "timeout": PATIENCE_SECONDS})

    app.notify = notify_for_long  # type: ignore[method-assign]


async def check_snapshot(at: Terminal, name: str) -> None:
    """Wait until the screen is as it was approved; the path at the top is not part of it."""
    width, height = at.app.size
    path = SNAPSHOTS / f"{name}-{width}x{height}.txt"
    if os.environ.get(UPDATE):
        await at.pilot.pause(1)
        path.write_text(_without_path(at.text), encoding="utf-8")
    approved = path.read_text(encoding="utf-8")
    deadline = time.monotonic() + SNAPSHOT_SECONDS
    while _without_path(at.text) != approved and time.monotonic() < deadline:
        await at.pilot.pause(BETWEEN_LOOKS_SECONDS)
    assert _without_path(at.text) == approved, f"{UPDATE}=1 approves the screen as it is now"


def _without_path(screen: str) -> str:
    return re.sub(r"(read-only ) .*? \| (.*?) {2,}(\S+)", r"\1 PATH | \2  \3", screen, count=1) + "\n"


def partition_screen(at: Terminal) -> PartitionScreen:
    screen = at.app.screen
    assert isinstance(screen, PartitionScreen)
    return screen


def browsing(at: Terminal) -> Browsing:
    """What all views of the partition on the screen share."""
    return partition_screen(at).opened


def view_shown(at: Terminal) -> str:
    return partition_screen(at).views.way[-1]


def position_at(at: Terminal) -> tuple[int, int] | None:
    """The base offset of the segment, and the position in it, that the views agree on."""
    place = browsing(at).place
    return None if place is None else (place.base_offset, place.position)


def offset_at(at: Terminal) -> int | None:
    """The offset of the record that the views agree on."""
    place = browsing(at).place
    return None if place is None else place.offset


async def opened(at: Terminal) -> None:
    """Wait until a partition is shown."""
    await at.sees("[2 Segm", "leader epochs")


async def read_through(at: Terminal) -> None:
    """Wait until all segments have been read: nothing is drawn anew by itself after that."""
    await at.until(lambda: partition_screen(at).browsing is not None)
    await at.until(lambda: browsing(at).is_indexed)
    await at.until(lambda: all(row.records is not None for row in browsing(at).state.segments))
