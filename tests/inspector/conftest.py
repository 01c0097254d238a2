"""What the inspector does by the clock, tests do when all is done: a slow machine sees what a fast one sees."""

from __future__ import annotations

import importlib.util

import pytest

from kafkalog.inspector.jobs import runs
from kafkalog.inspector.jobs.process import Process
from kafkalog.inspector.model import partition
from tests.helpers.jobs import DeadProcess, SilentProcess, ThreadProcess

PATIENCE_SECONDS = 60.0
# How often views look for news; between two looks a test waits for nothing else.
SOON_SECONDS = 0.05


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a partition is never cut short, and no key is let go before the view has come that it is for."""
    monkeypatch.setattr(partition, "POLL_SECONDS", PATIENCE_SECONDS)
    if importlib.util.find_spec("textual") is None:
        return
    from textual.pilot import Pilot

    monkeypatch.setattr("kafkalog.inspector.app.KEY_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(Pilot._wait_for_screen, "__defaults__", (PATIENCE_SECONDS,))


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Pilot wait in slices of 4 ms until a key has been dealt with, instead of at least 40 ms for each key."""
    if importlib.util.find_spec("textual") is None:
        return
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.004)
    monkeypatch.setattr("textual._wait.SLEEP_IDLE", 0.002)
    monkeypatch.setattr("kafkalog.inspector.views.run_view.LOOKS_SECONDS", SOON_SECONDS)
    monkeypatch.setattr("kafkalog.inspector.partition.live.FOLLOWING_SECONDS", SOON_SECONDS)
    monkeypatch.setattr("kafkalog.inspector.partition.live.WATCHING_SECONDS", 5 * SOON_SECONDS)


@pytest.fixture
def _pilot_sleeps(_no_sleep: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For scripts that press keys without waiting for what the screen shows."""
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.02)
    monkeypatch.setattr("textual._wait.SLEEP_IDLE", 0.001)


@pytest.fixture(autouse=True)
def _jobs_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for a Python process to start."""
    monkeypatch.setattr(runs, "Process", ThreadProcess)


@pytest.fixture
def _jobs_in_processes(_jobs_in_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have them."""
    monkeypatch.setattr(runs, "Process", Process)


@pytest.fixture
def _silent_jobs(_jobs_in_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs go on, and say nothing."""
    monkeypatch.setattr(runs, "Process", SilentProcess)


@pytest.fixture
def _dying_jobs(_jobs_in_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs end before they say anything, with exit code 1."""
    monkeypatch.setattr(runs, "Process", DeadProcess)
