"""The last line names the keys that work where one is."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog.inspector.widgets.lines import end_of
from tests.helpers.driving import Terminal, drive, logs

pytestmark = pytest.mark.tui


def test_the_last_line_names_the_follow_key_in_every_view_with_rows_of_the_log(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        for key, title in (("2", "Segments"), ("3", "Map"), ("4", "Batches"), ("5", "Records"), ("6", "Hex")):
            await at.press(key, sees=f"[{key} {title}]")
            await at.until(lambda: all(hint in at.lines[-1] for hint in ("F Follow", ": Go", "/ Find", "? Help")))

    drive(logs(golden_logs) / "v2-txn-0", steps)


def test_the_last_line_names_no_letter_while_a_prompt_is_open(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        await at.press("slash", sees="search:")
        await at.until(lambda: "^r Regex" in at.lines[-1] and "f1 Help" in at.lines[-1])
        assert "/" not in at.lines[-1]
        await at.press("escape")
        await at.until(lambda: "/ Find" in at.lines[-1] and "? Help" in at.lines[-1])

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_the_last_line_names_no_open_key_where_nothing_can_be_opened(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="[5 Records]")
        await at.until(lambda: "enter Open" in at.lines[-1])
        await at.press("0", sees="SIZES of values")
        await at.until(lambda: "w Whole" in at.lines[-1] and "Open" not in at.lines[-1])

    drive(logs(golden_logs) / "v2-zstd-0", steps)


def test_the_path_at_the_top_gives_way_to_what_is_said_behind_it() -> None:
    line = "/var/lib/kafka | v2-zstd-0 segment 0 | 12 of 1,200 with 'order' (esc: all)"
    assert end_of(line, 60) == "…| v2-zstd-0 segment 0 | 12 of 1,200 with 'order' (esc: all)"
    assert end_of(line, 200) == line
