"""Ways through a partition: to the end, to unreadable segments, and the messages on the way."""

from __future__ import annotations

import shutil
import threading
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog.inspector.model.model import Model
from kafkalog.inspector.model.segment import SegmentReader
from kafkalog.inspector.views.search import SearchView
from kafkalog.inspector.widgets.lazy_table import LazyTable
from kafkalog.scan.progress import Progress
from tests.helpers.driving import Terminal, browsing, drive, read_through, view_shown

pytestmark = pytest.mark.tui


@pytest.fixture
def log(golden_logs: Path) -> Path:
    return golden_logs / "kafka-3.9" / "data" / "v2-none-0"


@pytest.mark.parametrize(("view", "key"), [("5", "G"), ("4", "G"), ("5", "F")])
def test_shift_g_goes_to_the_end_of_a_segment_once_it_has_been_read(
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
        await at.until(lambda: "reading to" not in at.lines[0] and browsing(at).is_indexed)
        table = at.app.focused
        assert isinstance(table, LazyTable)

        def rows_below() -> int:
            return table.count - 1 - table.cursor

        await at.until(lambda: table.cursor > 0 and rows_below() == 0)
        await at.press("k")
        await at.until(lambda: rows_below() == 1)

    drive(log, steps)


def test_an_unreadable_segment_shows_the_reason_and_no_batches(log: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(log, tmp_path / "v2-none-0")
    second = sorted(copied.glob("*.log"))[1]
    second.unlink()
    second.mkdir()

    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0")
        await at.press("right_square_bracket", sees="no batches")
        await at.sees("not a regular file")
        assert "batch 0" not in at.text

    drive(copied, steps)


def test_an_invalid_target_is_reported_until_the_next_jump(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await read_through(at)
        await at.press("4", sees="batch 0")
        await at.press("colon", *"@x", "enter", sees="! '@x'")
        await at.press("colon", *"1", "enter")
        await at.until(lambda: "'@x'" not in at.text)
        await at.press("colon", *"@x", "enter", sees="! '@x'")
        await at.press("escape")
        await at.until(lambda: "'@x'" not in at.text)

    drive(log, steps)


def test_typing_replaces_the_last_search(log: Path) -> None:
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


def test_t_moves_the_cursor_in_the_list_of_transactions(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("BASE")
        await at.press("7", sees="done in")
        table = at.app.screen.query_one("TransactionsView LazyTable", LazyTable)
        await at.press("t", "t", "T")
        await at.until(lambda: table.cursor == 1)
        assert view_shown(at) == "transactions"

    drive(golden_logs / "kafka-3.9" / "data" / "v2-txn-0", steps)


def test_no_number_of_partitions_is_shown_while_the_directory_is_listed(
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
def test_notifications_cover_neither_keys_nor_problems_nor_prompts(log: Path, size: tuple[int, int]) -> None:
    async def steps(at: Terminal) -> None:
        await read_through(at)
        await at.press("4", sees="checksum")
        await at.press("colon", *"@x", "enter", sees="! '@x'")
        await at.press("slash", sees="search:")
        await at.pilot.pause()
        before = at.lines
        for _ in range(3):
            at.app.notify(f"said {'at some length ' * 8}", timeout=60)
        await at.until(lambda: at.text.count("said at") == 3)
        below = next(i for i, line in enumerate(before) if "! '@x'" in line)
        assert at.lines[below:] == before[below:]
        assert at.lines[:2] == before[:2]

    drive(log, steps, size=size)


def test_records_flow_on_into_the_next_segment_and_back(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0 ")
        await read_through(at)
        bases = [row.base_offset for row in browsing(at).state.segments]
        await at.press("G", sees=f"offset {bases[1] - 1:,}")
        await at.press("down", sees=f"offset {bases[1]:,}")
        await at.sees(f"segment {bases[1]}")
        await at.press("up", sees=f"offset {bases[1] - 1:,}")
        await at.press("enter", sees="[value")
        await at.press("J", sees=f"segment {bases[1]}")
        await at.press("K", sees=f"segment {bases[0]}")
        await at.sees(f"offset {bases[1] - 1:,}")

    drive(log, steps)


def test_a_filter_is_named_until_escape_undoes_it(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0 ")
        await read_through(at)
        await at.press("f", *"v1", "enter", sees="with 'v1' (esc: all)")
        await at.press("f", *"v2", "enter", sees="with 'v2' (esc: all)")
        await at.press("escape")
        await at.until(lambda: "esc: all" not in at.text)
        assert view_shown(at) == "records"

    drive(log, steps)


def test_a_search_for_nothing_and_a_step_before_any_search_are_answered(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0 ")
        await at.press("n", sees="nothing has been searched for; / begins")
        await at.press("slash", "enter", sees="nothing has been searched for")

    drive(log, steps)


def test_ctrl_o_goes_back_to_where_the_last_jump_came_from(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0 ")
        await at.press("down", "down", sees="offset 2 ")
        await at.press("colon", *"end", "enter", sees="offset 1,199 ")
        await at.press("colon", *"99999", "enter", sees="no such offset: the log has the offsets 0 to")
        await at.press("ctrl+o", "ctrl+o", sees="offset 2 ")
        await at.press("ctrl+o", sees="no jump to go back from")

    drive(log, steps)
