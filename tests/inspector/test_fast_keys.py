"""Keys typed faster than their effects: each of them counts, and nothing stays half shown."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from threading import Event

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from textual.events import Key

from kafkalog.inspector.browsing import Browsing
from kafkalog.inspector.widgets.lazy_table import LazyTable
from tests.helpers.driving import Terminal, browsing, drive, offset_at, partition_screen, view_shown

pytestmark = pytest.mark.tui


# Other keys than those that each run presses.
SEED = "KAFKALOG_RANDOM_KEYS"


def types(at: Terminal, *keys: str) -> None:
    """Type all at once, as a terminal passes on what was typed ahead."""
    for key in keys:
        at.app.post_message(Key(key, key if len(key) == 1 else None))


class BlockedReader:
    """Blocks the thread that reads the partition until it is let go."""

    def __init__(self, browsing: Browsing) -> None:
        self._go = Event()
        self._task = asyncio.ensure_future(browsing.ask(self._go.wait))

    async def let_go(self) -> None:
        self._go.set()
        await self._task


def test_a_view_left_while_its_rows_were_read_shows_them_when_opened_again(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="v2")
        await at.until(lambda: browsing(at).is_indexed)
        going, views, blocked = partition_screen(at).going, partition_screen(at).views, BlockedReader(browsing(at))
        going.begin(views.show, "records")
        await at.until(lambda: view_shown(at) == "records")
        await at.pilot.pause()
        going.begin(views.show, "batches")
        await blocked.let_go()
        await at.until(going.still.is_set)
        going.begin(views.show, "records")
        await at.sees("key-")
        await at.until(lambda: not waits(at))

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)


def waits(at: Terminal) -> bool:
    """Whether a row that is seen is not there."""
    return any(line[:6].strip("> !*") == "…" for line in at.lines)


@pytest.mark.parametrize("sequence", ["4 j j 5 enter", "4 t t 5 enter", "4 t t 5 j j j enter", "4 e 5 j enter"])
def test_keys_typed_after_the_key_of_a_view_go_to_that_view(golden_logs: Path, sequence: str) -> None:
    async def steps(at: Terminal) -> None:
        await at.until(lambda: at.app.screen.query(LazyTable) and browsing(at).is_indexed)
        types(at, *sequence.split())
        await at.until(lambda: view_shown(at) == "record")
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


def test_each_press_counts_beyond_the_last_row_of_a_segment(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0 ")
        types(at, *"j" * 60)
        await at.until(lambda: offset_at(at) == 60)
        types(at, *"k" * 45)
        await at.until(lambda: offset_at(at) == 15)

    drive(golden_logs / "kafka-3.9" / "data" / "v2-txn-0", steps)


def test_each_press_for_the_next_segment_or_match_counts(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="v2")
        bases = [row.base_offset for row in browsing(at).state.segments]
        types(at, *["right_square_bracket"] * 4)
        await at.until(lambda: browsing(at).base_offset == bases[4])
        types(at, *["left_square_bracket"] * 4)
        await at.until(lambda: browsing(at).base_offset == bases[0])
        await at.press("slash", sees="search:")
        await at.pastes("key-")
        await at.press("enter", sees="complete")
        await at.press("5")
        types(at, *"nnnnn")
        await at.until(lambda: (offset_at(at) or 0) >= 4)

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)


def test_a_key_of_the_view_that_is_opened_is_not_lost(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("BASE")
        types(at, "8", "r")
        await at.sees("sound: nothing found")

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)


# All but those that write, ask for text or leave.
KEYS = [*"1234567890jjjjkkgGhlJKtTeEnNvwWmszrFm", "enter", "enter", "escape", "tab", "space"]
KEYS += ["right_square_bracket", "left_square_bracket"]


@pytest.mark.parametrize("name", ["v2-none-0", "v2-txn-0", "v2-gzip-0"])
def test_all_visible_rows_arrive_after_random_fast_keys(
    golden_logs: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalog.inspector.app.KEY_SECONDS", 0.2)
    seed = os.environ.get(SEED, name)

    async def steps(at: Terminal) -> None:
        keys = random.Random(seed)
        await at.sees("BASE")
        for _ in range(6):
            types(at, *keys.choices(KEYS, k=12))
            await at.pilot.pause()
        await at.until(lambda: at.app.typed.empty() and partition_screen(at).going.still.is_set())
        await at.until(lambda: not waits(at))
        assert "internal error" not in at.text, (seed, at.text)
        # It still answers.
        await at.press("escape", "2", sees="[2 Segm")
        # The columns may have been scrolled to the right.
        await at.press("4", sees="[4 Batches]")

    drive(golden_logs / "kafka-3.9" / "data" / name, steps)


def test_q_goes_one_level_back_in_a_partition_and_quits_only_at_the_top(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("BASE")
        types(at, "5", "enter")
        await at.until(lambda: view_shown(at) == "record")
        types(at, "q", "q")
        await at.until(lambda: view_shown(at) == "segments")
        assert at.app.is_running
        await at.pilot.press("q", "q")
        await at.quits()

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)
