"""Keys that come faster than what they begin: each of them counts, and nothing stays half shown."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from textual.events import Key

from inspector.browsing import Browsing
from inspector.screens.partition import PartitionScreen
from inspector.widgets.lazy_table import LazyTable
from tests.helpers.driving import Terminal, drive

SEEDS = "KAFKALOG_MONKEY_SEEDS"


def types(at: Terminal, *keys: str) -> None:
    """All at once, as a terminal gives what was typed ahead."""
    for key in keys:
        at.app.post_message(Key(key, key if len(key) == 1 else None))


def screen_of(at: Terminal) -> PartitionScreen:
    screen = at.app.screen
    assert isinstance(screen, PartitionScreen)
    return screen


def opened(at: Terminal) -> Browsing:
    return screen_of(at).opened


def view_named(at: Terminal) -> str:
    return screen_of(at).views.way[-1]


class Held:
    """The thread of a partition, held until it is let go: whatever is asked meanwhile waits."""

    def __init__(self, browsing: Browsing) -> None:
        self._go = Event()
        self._task = asyncio.ensure_future(browsing.ask(self._go.wait))

    async def let_go(self) -> None:
        self._go.set()
        await self._task


def test_rows_of_a_view_that_was_left_while_it_came_are_there_when_it_comes_again(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="v2")
        await at.until(lambda: opened(at).is_indexed)
        going, views, held = screen_of(at).going, screen_of(at).views, Held(opened(at))
        going.begin(views.show, "records")
        await at.until(lambda: view_named(at) == "records")
        await at.pilot.pause()
        going.begin(views.show, "batches")
        await held.let_go()
        await at.until(going.still.is_set)
        going.begin(views.show, "records")
        await at.sees("key-")
        await at.until(lambda: not waits(at))

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)


def waits(at: Terminal) -> bool:
    """Whether a row that is seen is not there."""
    return any(line[:6].strip("> !*") == "…" for line in at.lines)


@pytest.mark.parametrize("sequence", ["4 j j 5 enter", "4 t t 5 enter", "4 t t 5 j j j enter", "4 e 5 j enter"])
def test_what_is_typed_behind_the_key_of_a_view_is_for_that_view(golden_logs: Path, sequence: str) -> None:
    async def steps(at: Terminal) -> None:
        await at.until(lambda: at.app.screen.query(LazyTable) and opened(at).is_indexed)
        types(at, *sequence.split())
        await at.until(lambda: view_named(at) == "record")
        await at.sees("offset", "value")

    drive(golden_logs / "kafka-3.9" / "data" / "v2-txn-0", steps)


def test_each_press_for_the_next_record_counts(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="key-")
        await at.press("enter", sees="offset 0 ")
        types(at, *"JJJJJ")
        await at.sees("offset 5 ")
        types(at, *"KKJvK")
        await at.sees("offset 3 ", "utf8")

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)


def test_each_press_for_the_next_segment_or_match_counts(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="v2")
        bases = [row.base_offset for row in opened(at).state.segments]
        types(at, *["right_square_bracket"] * 4)
        await at.until(lambda: opened(at).base_offset == bases[4])
        types(at, *["left_square_bracket"] * 4)
        await at.until(lambda: opened(at).base_offset == bases[0])
        await at.press("slash")
        await at.pastes("key-")
        await at.press("enter", sees="complete")
        await at.press("5")
        types(at, *"nnnnn")
        await at.until(lambda: (place := opened(at).place) is not None and (place.offset or 0) >= 4)

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)


def test_a_key_of_the_view_that_is_opened_is_not_lost(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("BASE")
        types(at, "8", "r")
        await at.sees("sound: nothing found")

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)


# Whatever anybody may press, but what writes, asks for text or leaves.
KEYS = [*"1234567890jjjjkkgGhlJKtTeEnNvwWmszrFm", "enter", "enter", "escape", "tab", "space"]
KEYS += ["right_square_bracket", "left_square_bracket"]


def monkey(seed: int) -> Callable[[Terminal], Any]:
    async def steps(at: Terminal) -> None:
        keys = random.Random(seed)
        await at.sees("BASE")
        for _ in range(6):
            types(at, *keys.choices(KEYS, k=12))
            await at.pilot.pause()
        await at.until(lambda: at.app.keys.are_passed and screen_of(at).going.still.is_set())
        await at.until(lambda: not waits(at))
        assert "internal error" not in at.text, (seed, at.text)

    return steps


@pytest.mark.parametrize("seed", range(int(os.environ.get(SEEDS, "1"))))
def test_whatever_is_typed_fast_all_that_is_seen_comes_in_the_end(golden_logs: Path, seed: int) -> None:
    name = ("v2-none-0", "v2-txn-0", "v2-gzip-0")[seed % 3]
    drive(golden_logs / "kafka-3.9" / "data" / name, monkey(seed))


def test_q_goes_one_level_back_in_a_partition_and_quits_at_the_top_alone(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("BASE")
        types(at, "5", "enter")
        await at.until(lambda: view_named(at) == "record")
        types(at, "q", "q")
        await at.until(lambda: view_named(at) == "segments")
        assert at.app.is_running
        await at.press("q")
        await at.until(lambda: not at.app._running)

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)
