"""The inspector in a terminal that is not there: keys pressed, and what the screen then shows."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector.app import InspectorApp, Start
from inspector.columns import Times
from inspector.model import Model
from inspector.screens.partition import PartitionScreen
from inspector.settings import Settings

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from inspector.browsing import Browsing

# So that ages are the same for ever.
DEFAULTS = Settings()
NOW = 1_800_000_000_000
PATIENCE_SECONDS = 180
SNAPSHOTS = Path(__file__).parents[1] / "inspector" / "snapshots"
UPDATE = "KAFKALOG_UPDATE_SNAPSHOTS"


class Terminal:
    """The running application, and a hand on its keys."""

    def __init__(self, app: InspectorApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def lines(self) -> list[str]:
        """What is seen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def until(self, condition: Callable[[], Any]) -> None:
        """Until it holds; what is seen is told where it does not."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            await self.pilot.pause()
            if condition():
                return
            await asyncio.sleep(0.03)
        raise AssertionError(f"it did not come to pass; seen was\n{self.text}")

    async def sees(self, *wanted: str) -> None:
        """Until all of these are seen."""
        await self.until(lambda: _all_in(self.text, wanted))

    async def press(self, *keys: str, sees: str | None = None) -> None:
        """What has been told before goes: it stays otherwise, see `drive`."""
        self.app.clear_notifications()
        await self.pilot.press(*keys)
        if sees is not None:
            await self.sees(sees)

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
    """Opens `path`, does the steps, and leaves; whatever goes wrong in the application goes wrong here."""

    async def run() -> None:
        app = InspectorApp(Model(path), settings, Start(times=Times(settings.time_zone, lambda: NOW)))
        _tell_for_long(app)
        async with app.run_test(size=size, notifications=True) as pilot:
            await steps(Terminal(app, pilot))

    asyncio.run(run())


def _all_in(text: str, wanted: Iterable[str]) -> bool:
    return all(each in text for each in wanted)


def _tell_for_long(app: InspectorApp) -> None:
    """What is told for two seconds may be gone before a slow machine looks: it stays until a key is pressed."""
    tell = app.notify

    def notify(message: str, **how: Any) -> None:
        tell(message, **{**how, "timeout": PATIENCE_SECONDS})

    app.notify = notify  # type: ignore[method-assign]


def check_snapshot(terminal: Terminal, name: str) -> None:
    """The screen as text, beside the one that was kept; the path is not part of it."""
    width, height = terminal.app.size
    path = SNAPSHOTS / f"{name}-{width}x{height}.txt"
    seen = re.sub(r"(read-only ) .*? \| (.*?) {2,}(\S+)", r"\1 PATH | \2  \3", terminal.text, count=1) + "\n"
    if os.environ.get(UPDATE):
        path.write_text(seen, encoding="utf-8")
    assert seen == path.read_text(encoding="utf-8"), f"{UPDATE}=1 keeps what is seen now"


def browsing(at: Terminal) -> Browsing:
    """What all views of the partition on the screen look at."""
    screen = at.app.screen
    assert isinstance(screen, PartitionScreen)
    assert screen.browsing is not None
    return screen.browsing


async def opened(at: Terminal) -> None:
    """Until a partition is shown."""
    await at.sees("[2 Segm", "leader epochs")
