"""A regular expression that backtracks for ever: the screen goes on, and the search can be cancelled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from tests.helpers.driving import Terminal, browsing, drive
from tests.helpers.inspected import segment_file
from tests.reference.encode import V2Batch, records

pytestmark = [pytest.mark.tui, pytest.mark.usefixtures("_jobs_in_processes")]


ENDLESS = "(a|a)+$"


def partition(directory: Path) -> Path:
    batch = V2Batch(records(b"a" * 5_000 + b"!"))
    return segment_file(directory / "endless-0", batch.encoded()).parent


async def searched(at: Terminal) -> None:
    await at.sees("[2 Segm", "leader epochs")
    await at.press("slash", sees="search:")
    await at.press("ctrl+r", sees="^r regex")
    await at.types(ENDLESS)
    await at.press("enter", sees="[9 ")
    await at.sees("0 matches of /(a|a)+$/", "0% of 5.0 KiB", "esc ends it", "reached offset 0 of 1, incomplete")


def test_other_views_open_while_an_endless_search_goes_on(tmp_path: Path) -> None:
    async def steps(at: Terminal) -> None:
        await searched(at)
        await at.press("5", sees="[5 Rec")
        await at.press("enter", sees="[value")
        await at.press("escape", sees="[5 Rec")
        await at.press("9", sees="[9 ")
        run = browsing(at).search
        assert run is not None
        await at.until(lambda: run.seconds > 1 and re.search(r"0% of 5\.0 KiB, [1-9]", at.text))
        assert run.is_running

    drive(partition(tmp_path), steps)


def test_escape_cancels_an_endless_search_and_another_one_finishes(tmp_path: Path) -> None:
    async def steps(at: Terminal) -> None:
        await searched(at)
        await at.press("escape", sees="! cancelled at 0%")
        await at.press("slash", sees=f"search: {ENDLESS}")
        await at.press("ctrl+u")
        await at.until(lambda: "search: (" not in at.text)
        await at.types("a+!")
        await at.press("enter", sees="1 match of /a+!/")
        await at.sees("complete", "done in")

    drive(partition(tmp_path), steps)
