"""Ways through a partition: to the end, to what cannot be read, and what is told on the way."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from inspector.model import Model
from inspector.reading.answers import Progress
from inspector.reading.batches import SegmentReader
from inspector.screens.partition import PartitionScreen
from inspector.screens.search import SearchView
from inspector.widgets.lazy_table import LazyTable
from tests.helpers.driving import Terminal, drive


@pytest.fixture
def log(golden_logs: Path) -> Path:
    return golden_logs / "kafka-3.9" / "data" / "v2-none-0"


@pytest.mark.parametrize(("view", "key"), [("5", "G"), ("4", "G"), ("5", "F")])
def test_the_end_of_a_segment_is_gone_to_once_it_is_read(
    log: Path, view: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, read, step = threading.Event(), SegmentReader.index_more, count()

    def slowly(reader: SegmentReader) -> Progress:
        return read(reader) if goes_on.is_set() else Progress(next(step), 1 << 40)

    monkeypatch.setattr(SegmentReader, "index_more", slowly)

    async def steps(at: Terminal) -> None:
        await at.press(view, sees="reading …")
        await at.press(key)
        await at.until(lambda: "reading to the end: segment" in at.lines[0])
        goes_on.set()
        screen = at.app.screen
        assert isinstance(screen, PartitionScreen)
        view_shown = screen.views.current
        assert view_shown is not None
        await at.until(lambda: "reading to" not in at.lines[0] and screen.opened.is_indexed)
        table = view_shown.focus_target
        await at.until(lambda: table.cursor == table.count - 1 > 0)  # type: ignore[union-attr]
        await at.press("k")
        await at.until(lambda: table.cursor == table.count - 2)  # type: ignore[union-attr]

    drive(log, steps)


def test_of_a_segment_that_cannot_be_read_the_reason_is_told_and_nothing_of_the_one_before(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = SegmentReader._open

    def refused(reader: SegmentReader) -> None:
        opens(reader)
        if reader.base_offset > 0:
            reader.close()
            reader.problem = "Permission denied"

    monkeypatch.setattr(SegmentReader, "_open", refused)

    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0")
        await at.press("right_square_bracket", sees="no batches")
        await at.sees("! Permission denied")
        assert "batch 0" not in at.text

    drive(log, steps)


def test_what_was_wrong_on_one_way_is_not_told_on_the_next(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0")
        await at.press("colon", *"@x", "enter", sees="! '@x'")
        await at.press("colon", *"1", "enter")
        await at.until(lambda: "'@x'" not in at.text)
        await at.press("colon", *"@x", "enter", sees="! '@x'")
        await at.press("escape")
        await at.until(lambda: "'@x'" not in at.text)

    drive(log, steps)


def test_what_is_typed_takes_the_place_of_the_last_search(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("BASE")
        await at.press("slash", sees="search:")
        await at.pastes("key-1")
        await at.press("enter", sees="of 'key-1'")
        assert at.app.screen.query_one(SearchView).run is not None
        await at.press("slash", sees="search: key-1")
        await at.press("a", "enter", sees="of 'a' in")

    drive(log, steps)


def test_following_is_not_offered_where_nothing_grows(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", "F")
        await at.until(lambda: "FOLLOW" in at.lines[0])
        await at.press("0", sees="records in")
        await at.until(lambda: "FOLLOW" not in at.lines[0])
        assert "F Follow" not in at.text

    drive(log, steps)


def test_t_goes_on_in_the_list_of_transactions(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("BASE")
        await at.press("7", sees="done in")
        screen = at.app.screen
        assert isinstance(screen, PartitionScreen)
        table = screen.query_one("TransactionsView LazyTable", LazyTable)
        await at.press("t", "t", "T")
        await at.until(lambda: table.cursor == 1)
        assert screen.views.way[-1] == "transactions"

    drive(golden_logs / "kafka-3.9" / "data" / "v2-txn-0", steps)


def test_while_a_directory_is_being_listed_it_is_said_and_no_number_of_partitions(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, names = threading.Event(), Model.names
    monkeypatch.setattr(Model, "names", lambda model: listed.wait(60) and names(model))

    async def steps(at: Terminal) -> None:
        await at.until(lambda: at.text.count("listing the directory …") == 2)
        await at.press("f", *"nowhere", "enter")
        assert "0 partitions" not in at.text
        listed.set()
        await at.sees("0 partitions of 20 with 'nowhere'", "no name has this in it")

    drive(log.parent, steps)


def test_the_palette_has_each_command_once(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0")
        titles = [command.title for command in at.app.get_system_commands(at.app.screen)]
        assert {"Copy", "Help", "Show Batches", "Next damage"} <= set(titles)
        assert len(titles) == len(set(titles))

    drive(log, steps)


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
def test_what_is_told_for_a_moment_covers_neither_the_keys_nor_what_is_wrong_nor_a_prompt(
    log: Path, size: tuple[int, int]
) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="[4 Batch")
        await at.press("colon", *"@x", "enter", sees="! '@x'")
        await at.press("slash", sees="search:")
        await at.pilot.pause()
        before = at.lines
        for _ in range(3):
            at.app.notify(f"told {'at some length ' * 8}", timeout=60)
        await at.until(lambda: at.text.count("told at") == 3)
        below = next(i for i, line in enumerate(before) if "! '@x'" in line)
        assert at.lines[below:] == before[below:]
        assert at.lines[:2] == before[:2]

    drive(log, steps, size=size)
