"""The bytes of a segment: every key, the field under the cursor, and the place shared with other views."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from textual.widgets import Static

from kafkalog import ByteBufferMessageSet, Record
from kafkalog.inspector.model.segment import SegmentReader
from kafkalog.inspector.screens.partition import PartitionScreen
from kafkalog.inspector.views import hex as hex_view
from kafkalog.inspector.views.hex import HexView
from kafkalog.inspector.widgets.hex import HexLines
from tests.helpers.driving import Terminal, check_snapshot, drive
from tests.helpers.inspected import reader_of

pytestmark = pytest.mark.tui


# A partition whose batches are not compressed, and one with two batches of one record each.
PLAIN = "v2-uncompressed-0"


@pytest.fixture
def plain(golden_logs: Path) -> Path:
    return golden_logs / "kafka-3.9" / "data" / PLAIN


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """A batch of a record."""
    log = tmp_path / "single-0"
    log.mkdir()
    (log / f"{0:020d}.log").write_bytes(_batch(0))
    return log


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Batches at 0, 79 and 158 of a record each, with key and value."""
    log = tmp_path / "small-0"
    log.mkdir()
    (log / f"{0:020d}.log").write_bytes(b"".join(_batch(offset) for offset in range(3)))
    return log


def _batch(offset: int) -> bytes:
    records = [Record(b"value %d" % offset, b"k%d" % offset, timestamp=1_700_000_000_000)]
    return bytes(ByteBufferMessageSet.from_records(records, base_offset=offset).buffer)


LENGTH = len(_batch(0))


def field_text(at: Terminal) -> str:
    """The text about the field under the cursor."""
    return str(at.app.screen.query_one(HexView).query_one(".field", Static).render())


def cursor(at: Terminal) -> int:
    return at.app.screen.query_one(HexLines).cursor


async def bytes_of(at: Terminal) -> None:
    """The view, from whatever is shown first."""
    await at.sees("[2 Segm")
    await at.press("6", sees="[6 Hex")
    await at.until(lambda: "cursor at" in field_text(at) and "not read" not in field_text(at))


async def at_byte(at: Terminal, position: int) -> None:
    await at.until(lambda: at.app.screen.query(HexLines))
    await at.until(lambda: cursor(at) == position and f"cursor at {position:,} " in field_text(at))


# Keys, and the rows and columns that they lead to from the first byte. P: rows of a page.
MOVES = [
    ("right l", "0", 2),
    ("right l left h h", "0", 0),
    ("down j", "2", 0),
    ("down j up k k", "0", 0),
    ("right pagedown", "P", 1),
    ("pagedown space b", "P", 0),
    ("pagedown pageup", "0", 0),
    ("ctrl+d", "P // 2", 0),
    ("ctrl+d ctrl+d ctrl+u", "P // 2", 0),
    ("pagedown right home", "0", 0),
]


def test_the_cursor_moves_by_bytes_lines_and_pages(plain: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        page = at.app.screen.query_one(HexLines).size.height - 1
        for keys, row, column in MOVES:
            await at.press("g", *keys.split())
            await at_byte(at, 16 * eval(row, {"P": page}) + column)

    drive(plain, steps)


def test_the_last_byte_is_a_key_away(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        for key in ("end", "G"):
            await at.press(key)
            await at_byte(at, 3 * LENGTH - 1)
            await at.press("right", "pagedown")
            await at_byte(at, 3 * LENGTH - 1)
            await at.press("g")

    drive(small, steps)


def test_fields_follow_each_other_through_the_whole_segment(single: Path) -> None:
    reader = reader_of(single / f"{0:020d}.log")
    fields = list(reader.every_field(0))
    reader.close()

    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        for field in fields:
            await at_byte(at, field.start)
            assert field_text(at).startswith(field.name)
            await at.press("tab")
        await at.sees("no field after this")
        await at.press("end")
        for field in reversed(fields[:-1]):
            await at.press("shift+tab")
            await at_byte(at, field.start)
        await at.press("shift+tab", sees="no field before this")
        for key, field in (("w", fields[1]), ("w", fields[2]), ("W", fields[1])):
            await at.press(key)
            await at_byte(at, field.start)

    drive(single, steps)


def test_fields_go_on_in_the_next_batch(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("J")
        await at_byte(at, LENGTH)
        await at.press("shift+tab")
        await at.until(lambda: field_text(at).startswith("headers count"))
        await at.press("tab")
        await at_byte(at, LENGTH)

    drive(small, steps)


def test_no_step_is_lost_when_keys_come_faster_than_fields(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press(*["tab"] * 12)
        await at.until(lambda: field_text(at).startswith("records count"))

    drive(small, steps)


def test_batches_follow_each_other(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("J")
        await at_byte(at, LENGTH)
        await at.press("ctrl+down")
        await at_byte(at, 2 * LENGTH)
        await at.press("J", sees="no batch after this")
        await at.press("right", "K")
        await at_byte(at, 2 * LENGTH)
        await at.press("ctrl+up", "K")
        await at_byte(at, 0)

    drive(small, steps)


def test_the_field_is_enclosed_named_decoded_and_explained(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("tab")
        await at_byte(at, 8)
        await at.press("right")
        await at_byte(at, 9)
        length = LENGTH - 12
        await at.until(lambda: f"[00>00 00 {length:02x}]" in at.lines[3])
        await at.sees(f"length = {length}", "bytes of the batch after this field", "batch 0: 4 bytes at 8..11")
        await at.sees(f"cursor at 9 (0x9) of {3 * LENGTH}", f"here as int8 0, int16 0, int32 {length << 8 | 0xFF}")

    drive(small, steps)


def test_a_batch_begins_behind_a_bar(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        lines = [line for line in at.lines if line[2:9] == f"{LENGTH // 16 * 16:08x}"[:7]]
        assert any("|00 00 00" in line for line in at.lines), lines

    drive(small, steps)


def test_eight_bytes_a_row_where_it_is_narrow(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        assert at.lines[4].startswith("  00000008  ")
        await at.press("down", "right")
        await at_byte(at, 9)

    drive(small, steps, size=(60, 24))


def test_the_hex_view_shares_its_place_with_batches_and_records(plain: Path) -> None:
    reader = reader_of(plain / f"{0:020d}.log")
    second, third = reader.batch_rows(1, 2)
    row = reader.first_record_of(1)
    assert row is not None
    inside = reader.record_rows(row + 1, 1)[0]
    start = reader.position_of(row + 1)
    assert start is not None
    reader.close()

    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        await at.press("4", sees="BASE OFFSET")
        await at.press("down", sees="batch 1 ")
        await at.press("6")
        await at_byte(at, second.position)
        await at.press("4", "enter", sees="[5 Rec")
        await at.until(lambda: f"offset {second.base_offset}" in at.text)
        await at.press("down", sees=f"offset {inside.offset:,} ")
        await at.press("6")
        await at_byte(at, start)
        assert f"(offset {inside.offset:,})" in field_text(at)
        await at.press("enter", sees="[value")
        await at.sees(f"offset {inside.offset:,} ")
        await at.press("escape", "J")
        await at_byte(at, third.position)
        await at.press("4", sees=f"batch 2  position {third.position:,}")

    drive(plain, steps)


def test_enter_opens_the_batch_where_no_record_is(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("J")
        await at_byte(at, LENGTH)
        await at.press("enter", sees="[4 Batch")
        await at.sees("batch 1 ")
        await at.press("escape", sees="[6 Hex")
        await at_byte(at, LENGTH)

    drive(small, steps)


def test_the_prompt_goes_to_bytes_and_offsets(small: Path) -> None:
    # A record lies behind the header of its batch.
    places = [("+100", 100), ("+0x20", 32), ("1", LENGTH + 61), ("+9999", 3 * LENGTH - 1)]

    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        for typed, position in places:
            await at.press("colon", sees="go to offset")
            await at.types(typed)
            await at.press("enter")
            await at_byte(at, position)
        await at.sees(f"the segment has {3 * LENGTH} bytes")

    drive(small, steps)


def test_the_bytes_of_the_field_are_copied(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("tab")
        await at_byte(at, 8)
        await at.press("c")
        await at.until(lambda: at.app.clipboard == (LENGTH - 12).to_bytes(4, "big").hex(" "))
        await at.press("tab", "tab")
        await at_byte(at, 16)
        await at.press("y")
        await at.until(lambda: at.app.clipboard == "02")

    drive(small, steps)


def test_a_click_goes_to_a_byte_in_figures_or_as_text(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        line = at.lines[4]
        await at.pilot.click(HexLines, offset=(line.index("02"), 2))
        await at_byte(at, 16)
        await at.pilot.click(HexLines, offset=(len(line) - 16 + 9, 2))
        await at_byte(at, 25)
        await at.pilot.click(HexLines, offset=(13 + 3 * 8, 1))
        await at_byte(at, 8)

    drive(small, steps)


def test_a_damaged_batch_is_found_and_shows_its_problem(small: Path) -> None:
    path = small / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[LENGTH + 70] ^= 1
    path.write_bytes(bytes(data))

    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("e")
        await at_byte(at, LENGTH)
        await at.sees("checksum")
        await at.until(lambda: any(line.startswith(">!") for line in at.lines))
        await at.press("g")
        await at.until(lambda: "checksum" not in at.lines[-2])

    drive(small, steps)


def test_bytes_of_no_batch_are_shown_as_such(small: Path) -> None:
    path = small / f"{0:020d}.log"
    path.write_bytes(path.read_bytes() + b"\x99[red]" * 50)

    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("end")
        await at.sees("no batch", "[red]")

    drive(small, steps)


def test_following_pauses_when_the_cursor_goes_up_and_resumes_at_the_end(small: Path) -> None:
    path = small / f"{0:020d}.log"

    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("F", sees="FOLLOW")
        await at_byte(at, 3 * LENGTH - 1)
        with path.open("ab") as file:
            file.write(_batch(3))
        await at_byte(at, 4 * LENGTH - 1)
        await at.press("up", sees="following paused")
        await at.until(lambda: "FOLLOW" not in at.lines[0])
        with path.open("ab") as file:
            file.write(_batch(4))
        await at_byte(at, 4 * LENGTH - 1 - 16)
        await at.press("end")
        await at.until(lambda: "FOLLOW" in at.lines[0])
        await at_byte(at, 5 * LENGTH - 1)

    drive(small, steps)


def test_a_truncated_file_is_reported_and_the_cursor_stays_inside(small: Path) -> None:
    path = small / f"{0:020d}.log"

    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("end")
        await at_byte(at, 3 * LENGTH - 1)
        os.truncate(path, LENGTH)
        await at.sees("the log was truncated")
        await at_byte(at, LENGTH - 1)
        await at.press("K")
        await at_byte(at, 0)
        shutil.rmtree(small)
        await at.until(lambda: at.lines[-2].startswith("! ") or at.lines[-3].startswith("! "))
        assert at.app.is_running

    drive(small, steps)


def test_an_empty_segment_has_no_bytes(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        await at.press("6", sees="no bytes")
        await at.press("tab", "J", "c", "enter", "right", "end")
        assert at.app.is_running

    drive(golden_logs / "kafka-3.9" / "data" / "v2-empty-0", steps)


def test_each_segment_opens_at_its_first_byte(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("J", "right_square_bracket", sees="segment 20")
        await at_byte(at, 0)
        await at.press("left_square_bracket", sees="segment 0")
        await at_byte(at, 0)
        await at.press("t")
        await at.until(lambda: cursor(at) > 0)

    drive(golden_logs / "kafka-3.9" / "data" / "v2-txn-0", steps)


def test_only_visible_bytes_are_read(golden_logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    bytes_in = hex_view.bytes_in

    def noting(segment: SegmentReader, start: int, length: int) -> object:
        read.append(start)
        return bytes_in(segment, start, length)

    monkeypatch.setattr(hex_view, "bytes_in", noting)

    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("end")
        await at.until(lambda: cursor(at) > 100_000 and len(read) >= 2)
        assert len(set(read)) <= 3

    drive(golden_logs / "kafka-3.9" / "data" / "v2-large-0", steps)


def test_the_cursor_is_where_it_was_when_the_view_is_opened_again(small: Path) -> None:
    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press("J")
        await at_byte(at, LENGTH)
        await at.press("down", "right")
        await at_byte(at, LENGTH + 17)
        await at.press("4", sees="[4 Batch")
        await at.press("6", sees="[6 Hex")
        await at_byte(at, LENGTH + 17)
        assert isinstance(at.app.screen, PartitionScreen)

    drive(small, steps)


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
@pytest.mark.parametrize(
    ("log", "keys", "sees"),
    [
        ("kafka-3.9/data/v2-uncompressed-0", ["J"] + ["tab"] * 15, "timestamp delta"),
        ("kafka-3.9/data/v2-txn-0", ["J"] + ["tab"] * 12 + ["down"], "compressed together with zstd"),
        ("kafka-0.10.2/data/v1-none-0", ["J", "J"] + ["tab"] * 5, "timestamp = "),
    ],
    ids=["v2", "compressed", "v1"],
)
def test_the_hex_view_looks_as_approved(
    golden_logs: Path, size: tuple[int, int], log: str, keys: list[str], sees: str, request: pytest.FixtureRequest
) -> None:
    reader = reader_of(golden_logs / log / f"{0:020d}.log")
    reached = list(reader.every_field(keys.count("J")))[keys[:-1].count("tab")].start
    reader.close()

    async def steps(at: Terminal) -> None:
        await bytes_of(at)
        await at.press(*keys[:-1])
        # To fields it goes step by step; the other keys do not wait for them.
        await at_byte(at, reached)
        await at.press(keys[-1], sees=sees)
        await at.until(lambda: "[" in "".join(at.lines[3:]))
        await check_snapshot(at, f"hex-{request.node.callspec.id.split('-')[0]}")

    drive(golden_logs / log, steps, size=size)
