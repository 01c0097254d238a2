"""Verify, search and statistics: every key, on logs that brokers wrote and on damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog.fsck import Finding
from kafkalog.inspector.jobs.runs import StatisticsRun, VerifyRun
from kafkalog.inspector.model.types import Byte, Offset, Target
from kafkalog.inspector.views.verify import target_of
from kafkalog.inspector.widgets.lazy_table import LazyTable
from kafkalog.inspector.widgets.prompt import Prompt
from tests.helpers import damage
from tests.helpers.driving import (
    Terminal,
    browsing,
    check_snapshot,
    drive,
    offset_at,
    opened,
    position_at,
    view_shown,
)
from tests.helpers.golden import unpacked
from tests.helpers.inspected import segment_file
from tests.reference.encode import V2Batch, records

pytestmark = pytest.mark.tui


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


def test_verify_begins_at_r_and_reports_a_sound_log() -> None:
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
        await at.until(lambda: position_at(at) == (0, start_of(6)))
        await at.until(lambda: view_shown(at) == "hex")
        await at.press("escape", sees="! errors 2")

    drive(damaged / "damaged-0", steps)


def test_a_finding_in_an_index_leads_to_its_offset_and_one_in_a_segment_to_its_byte(tmp_path: Path) -> None:
    def target(name: str, checked: Path = tmp_path) -> Target | None:
        return target_of(Finding("crc-mismatch", str(tmp_path / "a-0" / name), "", 96, 8, 1042), checked)

    assert target(f"{40:020}.log") == Byte(96, 40)
    assert target(f"{40:020}.index") == Offset(1042)
    assert target("copy.log") == Offset(1042)
    assert target("copy.log", tmp_path / "a-0" / "copy.log") == Byte(96)


def test_findings_are_sorted_and_copied(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="done in")
        table = at.app.screen.query_one("VerifyPanel LazyTable", LazyTable)
        await at.press("l", "l", "s", "s", sees="vPOSITION")
        await at.press("g")
        await at.until(lambda: (row := table._row(table.cursor)) is not None and row.cells[2] == f"{start_of(6):,}")
        await at.press("m", "m", "c", sees="copied 2 lines")
        assert at.app.clipboard.count("crc-mismatch") == 2
        await at.press("s")
        await at.until(lambda: f" {start_of(3):,} " in at.lines[4])

    drive(damaged / "damaged-0", steps)


def test_a_whole_data_directory_is_checked_from_the_list_and_enter_opens_the_partition(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("2 partitions", "8 Verify")
        await at.press("8", sees="verify all partitions")
        await at.sees("not checked so far; r begins")
        await at.press("r", sees="! errors 2")
        await at.sees("damaged-0/00000000000000000000.log")
        await at.press("down", "enter", sees="damaged-0 segment 0")
        await at.until(lambda: position_at(at) == (0, start_of(6)))
        await at.press("escape", sees="leader epochs")
        await at.press("escape", sees="verify all partitions")
        assert "! errors 2" in at.text
        await at.press("escape", sees="2 partitions")
        await at.press("8", sees="! errors 2")

    drive(damaged, steps)


def test_findings_are_kept_when_the_partition_is_opened_again(damaged: Path) -> None:
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


def test_no_health_is_known_until_a_check_has_ended_and_then_it_is_the_same_in_all_views(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("2 partitions")
        await at.sees("unchecked")
        await at.press("8", "r", sees="done in")
        await at.press("escape", sees="2 partitions")
        await at.until(lambda: "unchecked" not in at.text)
        assert [set(line.split()) & {"damaged", "ok"} for line in at.text.splitlines()[2:4]] == [{"damaged"}, {"ok"}]
        await at.press("enter", sees="leader epochs")
        assert "damaged UTC" in at.text.splitlines()[0]
        assert any(" damaged " in line and " 0 " in line for line in at.text.splitlines()[4:])

    drive(damaged, steps, size=(140, 40))


@pytest.mark.usefixtures("_silent_jobs")
def test_escape_cancels_a_check_and_then_goes_back(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="begins …")
        await at.press("escape", sees="! cancelled at 0% after")
        await at.sees("nothing found before it ended", "[8 ")
        await at.press("escape", sees="leader epochs")

    drive(damaged / "damaged-0", steps)


@pytest.mark.usefixtures("_silent_jobs")
def test_leaving_a_partition_cancels_its_check(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("2 partitions")
        await at.press("enter", sees="leader epochs")
        await at.press("8", "r", sees="begins …")
        run = at.app.session.runs.of(VerifyRun, damaged / "damaged-0")
        assert run is not None
        await at.press("1", sees="2 partitions")
        await at.until(lambda: not run.is_running)
        assert run.state == "cancelled"

    drive(damaged, steps)


@pytest.mark.usefixtures("_dying_jobs")
def test_a_check_whose_process_dies_shows_the_exit_code(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="! the process that did it has ended (exit code 1)")
        await at.sees("! failed at 0%")

    drive(damaged / "damaged-0", steps)


# Search.


def test_enter_on_a_match_opens_the_record_and_the_match_is_underlined_in_the_list() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await searched(at, "key-16")
        await at.sees(
            "12 matches of 'key-16' in key value headers", "from the start: reached offset 1,451 of 1,451, complete"
        )
        await at.press("down", "enter", sees="[key 7 B]")
        await at.press("5", sees="match key at 0: key-163")
        table = at.app.screen.query_one("RecordsView LazyTable", LazyTable)
        await at.until(lambda: table._row(table.cursor) is not None)
        row = table._row(table.cursor)
        assert row is not None
        assert [each[:3] for each in row.marks] == [(2, 0, 6)]
        strip = table.render_line(table.cursor - table.scroll_offset.y + 1)
        assert [segment.text for segment in strip if segment.style and segment.style.underline] == ["key-16"]

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
        await at.until(lambda: offset_at(at) == offsets[5])
        await at.sees("[key ")
        await at.press("escape", "G")
        for _ in range(len(offsets)):
            await at.press("n")
        await at.sees("no match after this: 12 matches")
        await at.press("9", sees="12 matches")
        table = at.app.screen.query_one("SearchView LazyTable", LazyTable)
        before = len(offsets) - 1
        await at.until(lambda: table.cursor == before)
        await at.press("N")
        await at.until(lambda: table.cursor == before - 1)
        await at.press("n")
        await at.until(lambda: table.cursor == before)

    drive(TXN, steps)


def test_n_waits_for_the_next_match_while_the_search_goes_on(tmp_path: Path) -> None:
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


def test_search_options_are_chosen_with_keys_and_shown() -> None:
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


def test_up_and_down_bring_back_earlier_input() -> None:
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


def test_a_search_past_damage_says_that_it_is_incomplete(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("9", sees="nothing has been searched for; / begins")
        await searched(at, "!!")
        await at.sees("! from the start: reached offset 40 of 40, incomplete: 2 unreadable left out")
        await at.sees("! the first of 2 left out: 00000000000000000000.log: position ")

    drive(damaged / "damaged-0", steps)


@pytest.mark.usefixtures("_silent_jobs")
def test_escape_cancels_a_search_which_shows_its_progress(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await searched(at, "x")
        await at.sees("0 matches of 'x'", "reached nothing so far", "begins …")
        await at.press("escape", sees="! cancelled at 0%")
        await at.sees("no match")
        await at.press("5", "n", sees="no match after this")

    drive(damaged / "damaged-0", steps)


def test_control_characters_and_markup_in_records_are_escaped(tmp_path: Path) -> None:
    path = segment_file(tmp_path / "a-0", V2Batch(records(b"[bold]x[/] \x1b[31mred", offset=0)).encoded())

    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        await searched(at, "[bold]")
        await at.sees("1 match of '[bold]'", "[bold]x[/] \\x1b[31mred")
        await at.press("enter", sees="[value 19 B]")
        await at.sees("[bold]x[/] \\x1b[31mred")
        await at.press("0", sees="1 records in 1 batches")
        assert "\x1b" not in at.text

    drive(path.parent, steps)


# Statistics.


def test_statistics_count_the_segment_and_with_w_the_partition() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("0", sees="segment 0  20 records in 2 batches  done in")
        await at.sees("TIME  20 records", "SIZES of values")
        await at.press("G", sees="key-77")
        await at.press("w", sees="the whole partition  1,400 records in 210 batches")
        await at.sees("done in")
        await at.press("c", sees="copied")
        assert "CODECS" in at.app.clipboard
        await at.press("w", sees="segment 0  20 records")
        await at.press("2", "0", sees="segment 0  20 records in 2 batches  done in")
        before = at.app.session.runs.of(StatisticsRun, TXN / "00000000000000000000.log")
        await at.press("r")
        await at.until(lambda: at.app.session.runs.of(StatisticsRun, TXN / "00000000000000000000.log") is not before)
        await at.sees("done in")
        await at.press("right_square_bracket", sees="segment 20  1")

    drive(TXN, steps)


@pytest.mark.usefixtures("_silent_jobs")
def test_escape_cancels_statistics(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("0", sees="counting …")
        await at.press("escape", sees="! cancelled at 0%")
        await at.sees("nothing counted")

    drive(damaged / "damaged-0", steps)


def test_statistics_report_unreadable_batches(damaged: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("0", sees="30 records in 6 batches  ! 2 unreadable left out")
        await at.sees("! the first of 2 left out: 00000000000000000000.log: position ")

    drive(damaged / "damaged-0", steps)


def test_the_message_of_a_finding_is_readable_below_a_long_path(damaged: Path, tmp_path: Path) -> None:
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
    monkeypatch.setattr("kafkalog.inspector.views.run_view._seconds", lambda _: "1.0 s")
    monkeypatch.setattr("kafkalog.inspector.views.statistics.has_blocks", lambda: True)


@pytest.mark.usefixtures("_same_always")
@pytest.mark.parametrize("size", SIZES)
def test_verify_looks_as_approved(damaged: Path, size: tuple[int, int]) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="done in")
        await at.press("down")
        await check_snapshot(at, "verify")

    drive(damaged / "damaged-0", steps, size=size)


@pytest.mark.usefixtures("_same_always")
@pytest.mark.parametrize("size", SIZES)
def test_search_and_statistics_look_as_approved(size: tuple[int, int]) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await searched(at, "key-16")
        await at.sees("complete", "done in")
        await at.press("down")
        await check_snapshot(at, "search")
        await at.press("0", sees="20 records in 2 batches  done in")
        await check_snapshot(at, "statistics")

    drive(TXN, steps, size=size)


def test_a_deleted_log_is_reported_by_verify_and_search(tmp_path: Path) -> None:
    shutil.copytree(TXN, tmp_path / "a-0")

    async def steps(at: Terminal) -> None:
        await opened(at)
        shutil.rmtree(tmp_path / "a-0")
        await at.press("8", "r")
        await at.sees("unreadable")
        await searched(at, "x")
        await at.sees("No such file", "incomplete")

    drive(tmp_path / "a-0", steps)
