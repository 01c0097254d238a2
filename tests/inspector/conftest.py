"""What the inspector does by the clock, tests do when all is done: a slow machine sees what a fast one sees."""

from __future__ import annotations

import importlib.util

import pytest

from inspector.reading import partition

PATIENCE_SECONDS = 180.0
NEVER_SECONDS = 3600.0


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a partition is never cut short, and no key is let go before the view has come that it is for."""
    monkeypatch.setattr(partition, "POLL_SECONDS", PATIENCE_SECONDS)
    if importlib.util.find_spec("textual") is None:
        return
    from textual.pilot import Pilot

    monkeypatch.setattr("inspector.typed_keys.HELD_SECONDS", PATIENCE_SECONDS)
    # A process that no job asks for is one more to wait for.
    monkeypatch.setattr("inspector.app.PREPARED_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(Pilot._wait_for_screen, "__defaults__", (PATIENCE_SECONDS,))
