"""Every screen and every key, on logs that brokers wrote."""

from __future__ import annotations

import logging
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog import ByteBufferMessageSet, Record
from kafkalog.inspector.config import Settings
from kafkalog.inspector.widgets.lazy_table import LazyTable
from tests.helpers.driving import Terminal, drive, logs, partition_screen, read_through
from tests.helpers.inspected import all_batches, reader_of

pytestmark = pytest.mark.tui


def test_the_list_has_every_partition_and_says_that_nothing_is_written(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("read-only", "17 partitions, 3 internal hidden", "v2-zstd-0", "≤1,200")
        assert "__consumer_offsets-0" not in at.text
        await at.press("i", sees="__consumer_offsets-0")
        await at.press("i", sees="3 internal hidden")

    drive(logs(golden_logs), steps)


def test_the_list_is_filtered_while_typing_and_escape_restores_the_filter_before(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("v2-zstd-0")
        await at.press("f", sees="show names with")
        await at.types("com")
        await at.sees("4 partitions of 20 with 'com'")
        await at.press("enter")
        await at.until(lambda: "v2-zstd-0" not in at.text)
        await at.press("slash", *"nox", sees="0 partitions of 20")
        await at.sees("no name has this in it")
        await at.press("escape", sees="4 partitions of 20 with 'com' (esc: all)")
        # The first letter takes the place of the text before.
        await at.press("f", *"zst", "enter", sees="of 20 with 'zst' (esc: all)")
        await at.press("escape")
        await at.until(lambda: "esc: all" not in at.text)

    drive(logs(golden_logs), steps)


def test_the_list_is_sorted_by_a_column(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("v2-zstd-0", "≤1,200")
        await at.press("l", "s", "s", sees="vBYTES")
        await at.until(lambda: "v2-large-0" in at.lines[2])
        await at.press("s")
        await at.until(lambda: "v2-compacted-0" in at.lines[2])

    drive(logs(golden_logs), steps)


async def opened(at: Terminal, name: str) -> None:
    """The partition, from the list."""
    await at.sees("v2-zstd-0", "≤1,200")
    await at.press("f")
    await at.types(name)
    await at.press("enter", "enter", sees="[2 Segm")


def test_a_partition_shows_segments_watermarks_epochs_and_open_transactions(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at, "v2-txn-0")
        await at.sees(
            "S 0 start", "L 1,411 stable", "H 1,451 high", "E 1,451 end", "leader epochs: 0 from 0, 6 from 1,411"
        )
        await at.sees("open transactions: 1; aborted: 18", "! hanging: producer 1000 epoch 0 from offset 1,411")
        await at.sees("unchecked", "149")
        await at.press("escape", sees="with 'v2-txn-0'")

    drive(logs(golden_logs), steps)


def test_enter_goes_down_to_a_record_and_escape_comes_back_level_by_level(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at, "v2-lz4-0")
        await at.press("down", "enter", sees="[4 Batch")
        await at.sees("batch 0  position 0")
        await at.press("down", sees="batch 1  position")
        offset = at.lines[4].split()[1]
        await at.press("enter", sees="[5 Rec")
        await at.sees(f">          {offset}")
        await at.press("enter", sees="[value")
        await at.sees(f"offset {offset}")
        await at.press("escape", sees="OFFSET  TIME")
        await at.press("escape", sees="[4 Batch")
        await at.press("escape", sees="[2 Segm")
        await at.press("escape", sees="1 partition of 20")
        await at.press("escape", "escape")
        assert at.app.is_running

    drive(logs(golden_logs), steps)


def test_digits_choose_views_and_the_cursor_stays_at_the_same_place(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="[4 Batch")
        await at.sees("batch 0  position 0")
        await at.press("down", "down", sees="batch 2  position")
        position = at.text.split("position ")[1].split()[0]
        await at.press("3", sees="[3 Map]")
        await at.sees("1 batch, from offset")
        await at.press("4", sees=f"position {position}")
        await at.press("5", sees="batch 2")
        await at.press("2", sees="[2 Segm")

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_the_cursor_moves_through_the_map_and_enter_opens_the_batches(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await read_through(at)
        await at.press("3", sees="cell 1 of")
        await at.press("right", sees="cell 2 of")
        await at.press("l", "h", "left", sees="cell 1 of")
        await at.press("down", sees="cell 81 of")
        await at.press("up", sees="cell 1 of")
        await at.press("j", "k", "G", "home", "end", "g", sees="cell 1 of")
        await at.press("G")
        await at.until(lambda: "cell 1 of" not in at.text)
        await at.press("enter", sees="[4 Batch")
        await at.until(lambda: "batch 0  position 0" not in at.text)

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_t_and_shift_t_go_to_the_next_and_the_previous_transaction(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("S 0 start")
        await at.press("right_square_bracket", sees="segment 20")
        await at.press("4", sees="[4 Batch")
        await at.sees("batch 0  position 0")
        await at.press("t", sees="batch 1  position")
        await at.press("T", sees="batch 0  position 0")
        await at.press("T", sees="no transaction before this")
        await at.press("e", sees="no damage after this")
        await at.press("left_square_bracket", sees="segment 0")
        await at.press("left_square_bracket", sees="no segment before")

    drive(logs(golden_logs) / "v2-txn-0", steps)


def test_a_colon_goes_to_an_offset_a_time_or_a_byte(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("E 1,200 end")
        await at.press("colon", sees="go to offset, start, end-10, @time, @-1h or +byte")
        await at.types("700")
        await at.press("enter", sees="[4 Batch")
        await at.press("5", sees=">          700")
        await at.press("colon")
        await at.types("+0")
        await at.press("enter")
        await at.until(lambda: ">          700" not in at.text)
        await at.press("colon")
        await at.types("@2023-11-15T22:20")
        await at.press("enter", sees="2023-11-15T22:20:")
        await at.press("colon")
        await at.types("nowhere")
        await at.press("enter", sees="expected an offset, start, end")
        await at.press("colon", sees="go to offset")
        await at.press("escape")
        await at.until(lambda: "go to offset" not in at.text and isinstance(at.app.focused, LazyTable))

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_batches_are_sorted_and_filtered(golden_logs: Path) -> None:
    path = min((logs(golden_logs) / "v2-none-0").glob("*.log"))
    reader = reader_of(path)
    batches = [(row.base_offset, row.size) for row in all_batches(reader)]
    reader.close()
    smallest = f" {min(batches, key=lambda batch: batch[1])[0]:,} "

    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0  position 0")
        await at.press("l", "l", "s", "s", sees="vSIZE")
        sizes = sorted((size for _, size in batches), reverse=True)
        largest = next(base for base, size in batches if size == sizes[0])
        await at.press("g")
        await at.until(lambda: at.lines[3].lstrip("> ").startswith(f"{largest:,} "))
        await at.press("G")
        await at.until(lambda: any(line.startswith(">") and smallest in line for line in at.lines))
        await at.press("s", "g")
        await at.until(lambda: at.lines[3].lstrip("> ").startswith("0 "))
        await at.press("f")
        await at.types("nothing has this")
        await at.press("enter", sees="no batches with 'nothing has this'")
        await at.press("f", "backspace", "enter", sees="batch ")

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_a_record_is_seen_in_every_view_with_key_and_headers(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0")
        await at.press("down", sees="offset 1")
        await at.press("enter", sees="auto: UTF-8")
        await at.press("v", sees="utf8: UTF-8")
        await at.press("v", sees="json: not JSON")
        await at.press("v", sees="00000000  ")
        await at.press("v", sees="base64")
        await at.press("v", "tab", sees="[key")
        await at.press("tab", sees="[headers")
        await at.press("shift+tab", "shift+tab", sees="[value")
        first = at.lines[2]
        await at.press("J")
        await at.until(lambda: at.lines[2] != first)
        await at.press("K")
        await at.until(lambda: at.lines[2] == first)
        await at.press("K", sees="offset 0 ")
        await at.press("K", sees="this is the first record of the log")

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_a_value_is_exported_once_and_never_into_what_is_looked_at(golden_logs: Path, tmp_path: Path) -> None:
    log = shutil.copytree(logs(golden_logs) / "v2-none-0", tmp_path / "v2-none-0")

    async def export(at: Terminal, to: Path) -> None:
        await at.press("x", sees="write to the file")
        await at.press("ctrl+u", "ctrl+k")
        await at.pastes(str(to))
        await at.press("enter")

    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0")
        await at.press("down", sees="offset 1")
        await at.press("enter", sees="[value")
        await export(at, tmp_path / "value")
        await at.until((tmp_path / "value").exists)
        await export(at, tmp_path / "value")
        await at.sees("File exists")
        await export(at, log / "value")
        await at.sees("nothing is written into a log")

    before = sorted(log.iterdir())
    drive(log, steps)
    assert sorted(log.iterdir()) == before
    assert (tmp_path / "value").read_bytes().startswith(b"v1 ")


def test_a_frame_is_shown_and_exported_by_its_schema(tmp_path: Path) -> None:
    log = tmp_path / "orders-0"
    log.mkdir()
    (tmp_path / "7.avsc").write_text('{"type": "array", "items": "string"}')
    frames = b"\0\0\0\0\7" + b"\2\6bob\0", b"\0\0\0\0\7" + b"\2\6bo", b"\0\0\0\0\x08\2"
    batch = ByteBufferMessageSet.from_records([Record(each, b"k") for each in frames])
    (log / f"{0:020}.log").write_bytes(bytes(batch.buffer))

    async def steps(at: Terminal) -> None:
        await at.press("5", sees='["bob"]')
        await at.sees("value 11 B schema 7")
        await at.press("down", sees="schema 7: not a value of")
        await at.press("up", "enter", sees="JSON, schema 7")
        await at.press("x", sees="write to the file")
        await at.press("ctrl+a", "ctrl+k")
        await at.types(str(tmp_path / "bob.json"))
        await at.press("enter", sees="7 bytes written")
        await at.press("J", sees="hex, perhaps a frame of schema 7: not a value")
        await at.press("J", sees="no 8.avsc or 8.desc in")

    drive(log, steps, settings=Settings(schema_dir=tmp_path), size=(160, 30))
    assert (tmp_path / "bob.json").read_text() == '["bob"]'


def test_marked_rows_are_copied(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0")
        await at.press("m", "m", "c", sees="copied 2 lines")
        assert at.app.clipboard.startswith("0\t2023")
        await at.press("2", "y")
        await at.until(lambda: at.app.clipboard.endswith(".log"))

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_times_are_written_in_each_zone(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="2023-11-15T22:13")
        await at.press("z", sees=" local")
        await at.press("z", sees=" ago")
        await at.press("z", sees="1700086")
        await at.press("z", sees="2023-11-15T22:13")

    drive(logs(golden_logs) / "v2-none-0", steps)


@pytest.mark.parametrize("key", ["question_mark", "f1"])
def test_help_has_every_key_and_goes_away(golden_logs: Path, key: str) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("S 0 start")
        await at.press(key, sees="kafkalog inspect: keys")
        await at.press("escape", sees="[2 Segm")
        await at.press(key, sees="kafkalog inspect: keys")
        await at.press("q", sees="[2 Segm")
        assert at.app.is_running

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_the_palette_has_the_views(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("S 0 start")
        await at.press("ctrl+p")
        await at.types("show batches")
        await at.sees("Show Batches")
        await at.press("enter", sees="[4 Batch")

    drive(logs(golden_logs) / "v2-none-0", steps)


@pytest.mark.parametrize(("key", "path"), [("q", ""), ("ctrl+q", ""), ("q", "v2-none-0"), ("ctrl+q", "v2-none-0")])
def test_q_at_the_top_level_and_ctrl_q_quit(golden_logs: Path, key: str, path: str) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("read-only")
        if key == "q":
            await at.press(key, sees="press q again to quit")
            assert at.app.is_running
        await at.pilot.press(key)
        await at.quits()

    drive(logs(golden_logs) / path, steps)


def test_ctrl_q_quits_while_the_help_is_open(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("read-only")
        await at.press("f1", sees="kafkalog inspect: keys")
        await at.pilot.press("ctrl+q")
        await at.quits()

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_q_below_the_top_level_goes_one_level_back(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at, "v2-lz4-0")
        await at.press("4", sees="[4 Batch")
        await at.press("q", sees="[2 Segm")
        await at.press("q", sees="1 partition of 20")
        assert at.app.is_running

    drive(logs(golden_logs), steps)


def test_the_keymap_of_the_config_file_applies_and_its_mistakes_are_shown(golden_logs: Path) -> None:
    settings = Settings(theme="no such theme", keymap={"view_batches": "f9", "help": "f2"}, mistakes=("x: [b]no[/b]",))

    async def steps(at: Terminal) -> None:
        await at.sees("x: [b]no[/b]", "no such theme")
        await at.press("f9", sees="[4 Batch")
        await at.press("f2", sees="kafkalog inspect: keys")

    # There is room for all that is wrong, one below the other.
    drive(logs(golden_logs) / "v2-none-0", steps, settings=settings, size=(80, 40))


def _shows(at: Terminal, view: str) -> bool:
    return partition_screen(at).views.way[-1:] == [view]


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (140, 40), (20, 5)])
def test_every_view_is_drawn_at_every_size(golden_logs: Path, size: tuple[int, int]) -> None:
    async def steps(at: Terminal) -> None:
        await at.until(lambda: partition_screen(at).browsing is not None)
        for key, name in zip("23452", ("segments", "map", "batches", "records", "segments"), strict=True):
            await at.press(key)
            await at.until(partial(_shows, at, name))
        await at.press("5", "enter")
        await at.pilot.resize_terminal(120, 30)
        await at.sees("[value")
        await at.pilot.resize_terminal(*size)
        await at.until(lambda: len(at.lines) == size[1])

    drive(logs(golden_logs) / "v2-none-0", steps, size=size)


@pytest.mark.parametrize("archive", ["kafka-0.8.2", "kafka-0.10.2", "kafka-0.10.2-crash", "kafka-3.9-crash"])
def test_logs_of_every_broker_version_open_in_every_view(golden_logs: Path, archive: str) -> None:
    for partition in sorted(logs(golden_logs, archive).glob("*-0")):
        if not min(partition.glob("*.log")).stat().st_size:
            continue

        async def steps(at: Terminal) -> None:
            await at.press("3", sees="cell 1 of")
            await at.press("4", sees="batch 0  position 0")
            await at.press("5", "enter", sees="[value")

        drive(partition, steps)


def test_a_single_segment_file_can_be_opened(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm", "a partition directory is needed")
        await at.press("enter", sees="batch 0  position 0")
        await at.press("escape", "escape", sees="this is the top level")

    drive(next(logs(golden_logs).glob("v2-none-0/*.log")), steps)


def test_an_empty_partition_says_so(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="no batches")
        await at.press("5", sees="no records")
        await at.press("3", sees="no batches")
        for key in ("t", "e", "F", "c", "enter", "s", "G", "m"):
            await at.press(key)
        assert at.app.is_running

    drive(logs(golden_logs) / "v2-empty-0", steps)


def test_e_goes_to_the_damaged_batch_which_shows_its_problem(golden_logs: Path, tmp_path: Path) -> None:
    log = shutil.copytree(logs(golden_logs) / "v2-none-0", tmp_path / "v2-none-0")
    segment = min(log.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2 + 200] ^= 0xFF
    segment.write_bytes(data)

    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0  position 0")
        await at.press("e", sees="> !")
        await at.sees("corrupt", "checksum")
        await at.press("5")
        await at.sees("! ")
        assert at.app.is_running

    drive(log, steps)


def test_control_characters_and_markup_in_names_are_escaped(tmp_path: Path, golden_logs: Path) -> None:
    home = tmp_path / "data"
    shutil.copytree(logs(golden_logs) / "v2-none-0", home / "[red]-0")
    shutil.copytree(logs(golden_logs) / "v2-none-0", home / "a\x1b[31m\u202e-1")

    async def steps(at: Terminal) -> None:
        await at.sees("[red]-0", "\\x1b[31m\\u202e-1")
        await at.press("enter", sees="[red]-0 segment 0")

    drive(home, steps)


def test_warnings_of_the_library_are_notifications(golden_logs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("E 1,451")
        for _ in range(2):
            logging.getLogger("kafkalog.storage").warning("a \x1b[31mfile%s", " has gone")
        await at.sees("a \\x1b[31mfile has gone")
        assert at.text.count("has gone") == 1

    before = list(logging.getLogger("kafkalog").handlers)
    drive(golden_logs / "kafka-3.9" / "data" / "v2-txn-0", steps)
    assert logging.getLogger("kafkalog").handlers == before
    assert capfd.readouterr().err == ""


def test_times_of_segments_and_batches_are_whole_at_80_columns(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        await at.until(lambda: re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( |$)", at.lines[5]))
        await at.press("4", sees="[4 Batches]")
        await at.until(lambda: re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( |$)", at.lines[3]))

    drive(logs(golden_logs) / "v2-txn-0", steps)


@pytest.mark.parametrize(("key", "width"), [("4", 110), ("5", 110), ("4", 120), ("5", 120)])
def test_times_are_whole_beside_the_details(golden_logs: Path, key: str, width: int) -> None:
    async def steps(at: Terminal) -> None:
        await at.press(key, sees="╭─")
        await at.until(lambda: re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d .*│", at.lines[3]))

    drive(logs(golden_logs) / "v2-txn-0", steps, size=(width, 24))


def test_the_age_of_a_record_grows(golden_logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.inspector.views.rows_view.TICK_SECONDS", 0.02)

    async def steps(at: Terminal) -> None:
        await at.press("5", sees="age")
        before = partition_screen(at).session.times.now()
        partition_screen(at).session.times.now = lambda: before + 100 * 86_400_000
        age = re.search(r"age ([0-9]+) d", at.text)
        assert age is not None
        await at.sees(f"age {int(age[1]) + 100} d ")

    drive(logs(golden_logs) / "v2-txn-0", steps)
