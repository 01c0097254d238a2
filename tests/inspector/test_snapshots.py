"""Each screen as it was last approved, on a small and on a large terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from tests.helpers.driving import Terminal, check_snapshot, drive

pytestmark = pytest.mark.tui


SIZES = [(80, 24), (140, 40)]


@pytest.fixture(autouse=True)
def _one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look at all partitions would tell rates of growth."""
    monkeypatch.setattr("kafkalog.inspector.screens.topics.PAUSE_SECONDS", 1_000)


@pytest.mark.parametrize("size", SIZES)
def test_topics(golden_logs: Path, size: tuple[int, int]) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("v2-zstd-0")
        await at.until(lambda: all("0 B" in line or "≤" in line for line in at.lines if "v2-" in line))
        await at.until(lambda: any("!" in line for line in at.lines if "v2-txn-0" in line))
        await check_snapshot(at, "topics")

    drive(golden_logs / "kafka-3.9" / "data", steps, size=size)


@pytest.mark.parametrize("size", SIZES)
def test_views_of_a_partition(golden_logs: Path, size: tuple[int, int]) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("L 1,411", "! hanging")
        await at.sees(" 140  unchecked" if size[1] < 40 else " 111  unchecked")
        await at.press("down", sees="segment 20")
        await check_snapshot(at, "segments")
        await at.press("3", sees="cell 1 of")
        await at.sees("1 batch")
        await at.press("right", sees="cell 2 of")
        await check_snapshot(at, "map")
        await at.press("4")
        await at.sees("BASE OFFSET", "checksum")
        await at.press("home", "down", "down")
        await at.until(lambda: re.search(r"\bbatch +2\b", at.text))
        await check_snapshot(at, "batches")
        await at.press("enter", sees="[5 Rec")
        await at.sees("kind")
        await at.until(lambda: not re.search(r"^>? +…$", at.text, re.MULTILINE))
        await check_snapshot(at, "records")
        await at.press("enter", sees="[value")
        await at.sees("auto:")
        await check_snapshot(at, "record")

    drive(golden_logs / "kafka-3.9" / "data" / "v2-txn-0", steps, size=size)
