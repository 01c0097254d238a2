"""Verify, search and statistics: every key, on logs that brokers wrote and on damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from inspector.background.runs import SearchRun, StatisticsRun, VerifyRun
from inspector.reading.answers import Byte
from inspector.screens.verify import view_of_bytes
from inspector.widgets.lazy_table import LazyTable
from inspector.widgets.prompt import Prompt, _remember
from tests.helpers import damage
from tests.helpers.driving import Terminal, browsing, check_snapshot, drive, opened
from tests.helpers.golden import unpacked
from tests.helpers.inspected import segment_file
from tests.reference.encode import V2Batch, records

if TYPE_CHECKING:
    pass

TXN = unpacked() / "kafka-3.9" / "data" / "v2-txn-0"
SIZES = [(80, 24), (140, 40)]


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A data directory with a sound partition and one with two damaged batches."""
    batches = damage.log()
    data = damage.flipped(b"".join(batches), damage.start_of(batches, 3) + 100, 2)
    segment_file(tmp_path / "damaged-0", damage.flipped(data, damage.start_of(batches, 6) + 300, 5))
    segment_file(tmp_path / "sound-0", b"".join(batches))
    return tmp_path


def start_of(place: int) -> int:
    return damage.start_of(damage.log(), place)


async def searched(at: Terminal, text: str) -> None:
    await at.press("slash", sees="search:")
    await at.types(text)
    await at.press("enter", sees="[9 ")


# Verify.


def test_verify_begins_when_it_is_told_to_and_says_that_all_is_sound() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", sees="not checked so far; r begins")
        await at.sees("[not deep]", "r Run", "d Deep")
        await at.press("d", sees="check [deep]")
        await at.press("r", sees="sound: nothing found")
        await at.sees("[deep]", "! errors 0, ? warnings 0, i infos", "done in")

    drive(unpacked() / "kafka-3.9" / "data" / "v2-zstd-0", steps)


def test_enter_on_a_finding_goes_to_its_byte(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="! errors 2")
        await at.sees("done in", "crc-mismatch", f".log:{start_of(3)}")
        await at.press("down", sees=f"{start_of(6):,}")
        await at.press("enter")
        await at.until(lambda: browsing(at).place is not None)
        place = browsing(at).place
        assert place is not None
        assert (place.base_offset, place.position) == (0, start_of(6))
        await at.until(lambda: at.app.screen.views.way[-1] == view_of_bytes())
        await at.press("escape", sees="! errors 2")

    drive(damaged / "damaged-0", steps)


def test_findings_are_sorted_and_copied(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="done in")
        table = at.app.screen.query_one("VerifyPanel LazyTable", LazyTable)
        await at.press("l", "l", "s", "s", sees="vPOSITION")
        await at.until(lambda: (row := table.row_under_cursor()) is not None and row.cells[2] == f"{start_of(6):,}")
        first = table.row_under_cursor()
        assert first is not None
        assert first.cells[2] == f"{start_of(6):,}"
        await at.press("m", "m", "c", sees="copied 2 lines")
        assert at.app.clipboard.count("crc-mismatch") == 2
        await at.press("s")
        await at.until(lambda: (row := table._row(0)) is not None and row.cells[2] == f"{start_of(3):,}")
        first = table._row(0)
        assert first is not None
        assert first.cells[2] == f"{start_of(3):,}"

    drive(damaged / "damaged-0", steps)


def test_a_whole_data_directory_is_checked_from_the_list_and_enter_opens_the_partition(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("2 partitions", "8 Verify")
        await at.press("8", sees="verify all partitions")
        await at.sees("not checked so far; r begins")
        await at.press("r", sees="! errors 2")
        await at.sees("damaged-0/00000000000000000000.log")
        await at.press("down", "enter", sees="damaged-0 segment 0")
        await at.until(lambda: browsing(at).place is not None)
        assert cast("Byte", browsing(at).place).position == start_of(6)
        await at.press("escape", sees="leader epochs")
        await at.press("escape", sees="verify all partitions")
        assert "! errors 2" in at.text
        await at.press("escape", sees="2 partitions")
        await at.press("8", sees="! errors 2")

    drive(damaged, steps)


def test_what_a_finished_check_found_is_there_when_one_comes_back(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("2 partitions")
        await at.press("enter", sees="leader epochs")
        await at.press("8", "d", "r", sees="done in")
        await at.press("5", sees="OFFSET  TIME")
        await at.press("8", sees="! errors 2")
        await at.press("1", sees="2 partitions")
        await at.press("enter", sees="leader epochs")
        await at.press("8", sees="[deep]")
        await at.sees("! errors 2", "done in")

    drive(damaged, steps)


def test_escape_ends_what_runs_and_then_goes_back(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.background.server.COMMAND", ("sleep", "60"))

    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="begins …")
        await at.press("escape", sees="! cancelled at 0% after")
        await at.sees("nothing found before it ended", "[8 ")
        await at.press("escape", sees="leader epochs")

    drive(damaged / "damaged-0", steps)


def test_leaving_a_partition_ends_what_runs_there(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.background.server.COMMAND", ("sleep", "60"))

    async def steps(at: Terminal) -> None:
        await at.sees("2 partitions")
        await at.press("enter", sees="leader epochs")
        await at.press("8", "r", sees="begins …")
        run = at.app.runs.of(VerifyRun, damaged / "damaged-0")
        assert run is not None
        await at.press("1", sees="2 partitions")
        await at.until(lambda: not run.is_running)
        assert run.state == "cancelled"

    drive(damaged, steps)


def test_what_ended_a_check_is_told_in_its_place(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.background.server.COMMAND", ("false",))

    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="! the process that did it has ended (exit code 1)")
        await at.sees("! failed at 0%")

    drive(damaged / "damaged-0", steps)


# Search.


def test_matches_are_listed_and_enter_goes_to_the_record_with_the_match_standing_out() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await searched(at, "key-16")
        await at.sees(
            "12 matches of 'key-16' in key value headers", "from the start: reached offset 1,451 of 1,451, complete"
        )
        await at.press("down", "enter", sees="[5 Rec")
        await at.sees("match key at 0: key-163")
        table = at.app.screen.query_one("RecordsView LazyTable", LazyTable)
        await at.until(lambda: table.row_under_cursor() is not None)
        row = table.row_under_cursor()
        assert row is not None
        assert row.marks == ((2, 0, 6),)
        strip = table.render_line(table.cursor - table.scroll_offset.y + 1)
        assert [segment.text for segment in strip if segment.style and segment.style.underline] == ["key-16"]
        await at.press("enter", sees="[key 7 B]")

    drive(TXN, steps)


def test_n_goes_from_match_to_match_and_back_again() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await searched(at, "key-16")
        await at.sees("12 matches")
        run = browsing(at).search
        assert run is not None
        offsets = list(run.offsets)
        await at.press("5", sees="OFFSET  TIME")
        for offset in offsets[:3]:
            await at.press("n", sees=f"offset {offset}  ")
        await at.press("N", sees=f"offset {offsets[1]}  ")
        await at.press("n", "n", "n", sees=f"offset {offsets[4]}  ")
        await at.press("enter", sees="[key ")
        await at.press("n")
        await at.until(lambda: browsing(at).place is not None and browsing(at).place.offset == offsets[5])
        await at.sees("[key ")
        await at.press("escape", "G")
        for _ in range(len(offsets)):
            await at.press("n")
        await at.sees("no match after this: 12 matches")
        await at.press("9", sees="12 matches")
        table = at.app.screen.query_one("SearchView LazyTable", LazyTable)
        before = table.cursor
        await at.press("N")
        await at.until(lambda: table.cursor == before - 1)
        await at.press("n")
        await at.until(lambda: table.cursor == before)

    drive(TXN, steps)


def test_the_next_match_is_waited_for_while_the_search_goes_on(tmp_path: Path) -> None:
    batches = [V2Batch(records(*[b"x" * 100] * 500, offset=i * 500)).encoded() for i in range(100)]
    batches.append(V2Batch(records(b"needle", offset=50_000)).encoded())
    path = segment_file(tmp_path / "a-0", b"".join(batches))

    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        await at.press("5", sees="OFFSET  TIME")
        await at.press("slash", sees="search:")
        await at.types("needle")
        await at.press("enter", "5", "n")
        await at.sees("offset 50,000")

    drive(path.parent, steps)


def test_how_to_search_is_chosen_with_keys_and_shown() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("slash", sees="^r text  ^t case matters  ^o in key value headers  ^g from the start")
        await at.press("ctrl+r", "ctrl+t", "ctrl+o", "ctrl+g")
        await at.sees("^r regex  ^t any case  ^o in key  ^g from here on")
        await at.types("(KEY")
        await at.press("enter", sees="! no regular expression")
        await at.types("-16)$")
        await at.press("enter", sees="matches of /(KEY-16)$/ in any case in key")
        await at.sees("complete")
        await at.press("slash", sees="^r regex  ^t any case  ^o in key  ^g from here on")
        await at.sees("search: (KEY-16)$")
        await at.press("escape")
        await at.until(lambda: not at.app.screen.query(Prompt))
        assert "search:" not in at.text
        await at.press("r", sees="complete")

    drive(TXN, steps)


def test_a_search_goes_back_from_the_record_at_the_cursor() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("colon", sees="go to")
        await at.types("700")
        await at.press("enter", sees="[4 Batch")
        await at.press("slash", "ctrl+g", "ctrl+g", sees="from here back")
        await at.types("key-1")
        await at.press("enter", sees="from here back: reached offset 0 of 0, complete")
        run = browsing(at).search
        assert run is not None
        offsets = list(run.offsets)
        assert offsets == sorted(offsets, reverse=True)
        assert offsets[0] < 700
        await at.press("enter", sees="[5 Rec")
        await at.press("N", sees=f"offset {offsets[1]}  ")

    drive(TXN, steps)


def test_what_was_typed_before_comes_back_with_up_and_down() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        for text in ("abc", "def"):
            await at.press("slash", sees="search:")
            await at.press("ctrl+u")
            await at.types(text)
            await at.press("enter", sees=f"'{text}'")
        await at.press("slash", sees="search:")
        await at.press("ctrl+u")
        await at.types("new")
        await at.press("up", "up", sees="search: abc")
        await at.press("up", "down", sees="search: def")
        await at.press("down", "down", sees="search: new")
        await at.press("escape", "colon", sees="go to")
        await at.types("10")
        await at.press("enter", "colon", sees="go to")
        await at.press("up", sees="byte: 10")

    drive(TXN, steps)


def test_a_history_has_each_line_once_and_not_too_many() -> None:
    history: list[str] = []
    for i in range(150):
        _remember(history, str(i % 120))
    assert len(history) == len(set(history)) == 100
    assert history[-1] == "29"


def test_a_search_past_damage_says_that_it_is_incomplete(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("9", sees="nothing has been searched for; / begins")
        await searched(at, "!!")
        await at.sees("! from the start: reached offset 40 of 40, incomplete: 2 unreadable left out")
        await at.sees("! the first of 2 left out: 00000000000000000000.log: position ")

    drive(damaged / "damaged-0", steps)


def test_escape_ends_a_search_which_says_how_far_it_came(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.background.server.COMMAND", ("sleep", "60"))

    async def steps(at: Terminal) -> None:
        await opened(at)
        await searched(at, "x")
        await at.sees("0 matches of 'x'", "reached nothing so far", "begins …")
        await at.press("escape", sees="! cancelled at 0%")
        await at.sees("no match")
        await at.press("5", "n", sees="no match after this")

    drive(damaged / "damaged-0", steps)


def test_no_text_of_a_log_is_markup_or_reaches_the_terminal_as_it_is(tmp_path: Path) -> None:
    path = segment_file(tmp_path / "a-0", V2Batch(records(b"[bold]x[/] \x1b[31mred", offset=0)).encoded())

    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        await searched(at, "[bold]")
        await at.sees("1 match of '[bold]'", "[bold]x[/] \\x1b[31mred")
        await at.press("enter", sees="match value at 0: [bold]x[/]")
        await at.press("0", sees="1 records in 1 batches")
        assert "\x1b" not in at.text

    drive(path.parent, steps)


# Statistics.


def test_statistics_of_the_segment_begin_by_themselves_and_w_takes_the_partition() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("0", sees="segment 0  20 records in 2 batches  done in")
        await at.sees("TIME  20 records", "SIZES of values")
        await at.press("G", sees="key-77")
        await at.press("w", sees="the whole partition  1,400 records in 208 batches")
        await at.sees("done in")
        await at.press("c", sees="copied")
        assert "CODECS" in at.app.clipboard
        await at.press("w", sees="segment 0  20 records")
        await at.press("2", "0", sees="segment 0  20 records in 2 batches  done in")
        before = at.app.runs.of(StatisticsRun, TXN / "00000000000000000000.log")
        await at.press("r")
        await at.until(lambda: at.app.runs.of(StatisticsRun, TXN / "00000000000000000000.log") is not before)
        await at.sees("done in")
        await at.press("right_square_bracket", sees="segment 20  1")

    drive(TXN, steps)


def test_statistics_stop_at_escape_and_say_so(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.background.server.COMMAND", ("sleep", "60"))

    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("0", sees="counting …")
        await at.press("escape", sees="! cancelled at 0%")
        await at.sees("nothing counted")

    drive(damaged / "damaged-0", steps)


def test_statistics_say_what_they_leave_out(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("0", sees="30 records in 6 batches  ! 2 unreadable left out")
        await at.sees("! the first of 2 left out: 00000000000000000000.log: position ")

    drive(damaged / "damaged-0", steps)


def test_what_is_wrong_is_read_beside_a_finding_and_whole_below_whatever_the_length_of_the_path(
    damaged: Path, tmp_path: Path
) -> None:
    far = tmp_path / ("a" * 200) / ("b" * 200) / "damaged-0"
    shutil.copytree(damaged / "damaged-0", far)

    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="done in")
        await at.sees("crc-mismatch             10,848  the checksum does not hold")
        await at.sees(" 00000000000000000000.log:10848: error crc-mismatch: the checksum does not hold", "found 0x")

    drive(far, steps)


# As they were last approved.


@pytest.fixture
def _same_always(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("inspector.screens.work._seconds", lambda _: "1.0 s")
    monkeypatch.setattr("inspector.screens.statistics.has_blocks", lambda: True)


@pytest.mark.usefixtures("_same_always")
@pytest.mark.parametrize("size", SIZES)
def test_verify_as_approved(damaged: Path, size: tuple[int, int]) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="done in")
        await at.press("down")
        await at.pilot.pause()
        check_snapshot(at, "verify")

    drive(damaged / "damaged-0", steps, size=size)


@pytest.mark.usefixtures("_same_always")
@pytest.mark.parametrize("size", SIZES)
def test_search_and_statistics_as_approved(size: tuple[int, int]) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await searched(at, "key-16")
        await at.sees("complete", "done in")
        await at.press("down")
        await at.pilot.pause()
        check_snapshot(at, "search")
        await at.press("0", sees="20 records in 2 batches  done in")
        await at.pilot.pause()
        check_snapshot(at, "statistics")

    drive(TXN, steps, size=size)


def test_a_log_that_is_deleted_meanwhile_is_told(tmp_path: Path) -> None:
    shutil.copytree(TXN, tmp_path / "a-0")

    async def steps(at: Terminal) -> None:
        await opened(at)
        shutil.rmtree(tmp_path / "a-0")
        await at.press("8", "r")
        await at.sees("unreadable")
        await searched(at, "x")
        await at.sees("! failed at 0%")

    drive(tmp_path / "a-0", steps)


def test_search_runs_are_found_again_by_their_path() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await searched(at, "key-16")
        await at.sees("12 matches")
        assert at.app.search_of(TXN) is at.app.runs.of(SearchRun, TXN) is browsing(at).search

    drive(TXN, steps)
