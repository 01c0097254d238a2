"""Every view in its turn beside a writer that never rests: nothing raises, no record is wrong, the end is right."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog.inspector.view_table import BY_NAME, VIEWS
from tests.helpers.driving import Terminal, drive
from tests.helpers.inspected_writer import SECONDS, stopped, writer

# Away from the end and back to it, to other segments, damage and transactions, other times.
WANDERING = ("up", "pageup", "end", "left_square_bracket", "right_square_bracket", "e", "t", "T", "E", "z", "r", "end")
RECORD = re.compile(r" k(\d+) +(\d+):")


def check(at: Terminal) -> int:
    """The screen shows no wrong record; return how many records it shows."""
    assert "internal error" not in at.text
    records = RECORD.findall(at.text)
    assert all(key == offset for key, offset in records), at.text
    return len(records)


async def look(at: Terminal, keys: Sequence[str]) -> None:
    for key in keys:
        await at.press(key)
        check(at)


async def follow(at: Terminal, view: str, wandering: list[str]) -> None:
    """Follow the log in a view, then press the other keys; in the records view, wait for records to check."""
    await look(at, (view,))
    if view == BY_NAME["records"].key:
        await at.until(lambda: check(at))
    if "FOLLOW" not in at.lines[0]:
        await look(at, ("F",))
    for _ in range(3):
        await at.pilot.pause(0.05)
        check(at)
    await look(at, wandering)


@pytest.mark.slow
def test_each_view_follows_a_writer_through_all_that_it_does(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "t-0"
    keys = [view.key for view in VIEWS if view.key]

    async def steps(at: Terminal) -> None:
        rounds = 0
        chance = random.Random(11)
        until = time.monotonic() + SECONDS
        while rounds == 0 or time.monotonic() < until:
            await at.press("1", sees="1 partition")
            await at.press("enter", sees="[2 Segm")
            for key in keys:
                await follow(at, key, chance.sample(WANDERING, 3))
            await look(at, ("5", "end", "enter", "J", "K", "v", "tab", "escape"))
            rounds += 1
        start, end = stopped(control)
        await at.press("1", sees="1 partition")
        # What was told of a deleted segment covers the row.
        at.app.clear_notifications()
        await at.sees(f"{end:,}")
        await at.press("enter", sees="[2 Segm")
        await at.sees(f"S {start:,} ", f"E {end:,} ")
        await at.press("5", "F", sees=f" {end - 1}  ")
        # After minutes offsets are long and keys are cut short in their column: none may be left to compare.
        check(at)

    with writer(directory) as control:
        drive(directory.parent, steps, size=(100, 30))
