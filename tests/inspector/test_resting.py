"""A view that shows a finished job draws nothing more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from textual.widgets import Static

from tests.helpers.driving import Terminal, drive
from tests.helpers.golden import unpacked
from tests.inspector.conftest import SOON_SECONDS

pytestmark = pytest.mark.tui


@pytest.mark.parametrize("keys", ["0", "7", "8 r", "slash k enter"])
def test_a_finished_job_is_not_drawn_again(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Static] = []
    update = Static.update

    def counted(widget: Static, *args: Any, **kwargs: Any) -> None:
        drawn.append(widget)
        update(widget, *args, **kwargs)

    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm", "leader epochs")
        await at.press(*keys.split(), sees="done in")
        await asyncio.sleep(2 * SOON_SECONDS)
        await at.pilot.pause()
        drawn.clear()
        await asyncio.sleep(8 * SOON_SECONDS)
        assert [widget for widget in drawn if widget.has_class("heading")] == []

    monkeypatch.setattr(Static, "update", counted)
    drive(unpacked() / "kafka-3.9" / "data" / "v2-txn-0", steps, size=(120, 24))
