"""Keys typed faster than views open: those typed after a jump count at its target."""

from __future__ import annotations

import threading
from itertools import count

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog.inspector.model.partition import PartitionReader
from kafkalog.inspector.model.segment import SegmentReader
from kafkalog.inspector.model.types import Offset, RecordRow
from kafkalog.scan.progress import Progress
from tests.helpers.driving import Terminal, browsing, drive, offset_at, opened, position_at, read_through
from tests.helpers.golden import unpacked

pytestmark = pytest.mark.tui


TXN = unpacked() / "kafka-3.9" / "data" / "v2-txn-0"


def typed_at_once(at: Terminal, *keys: str) -> None:
    """As a terminal sends what is pasted: without waiting for the effect of a key."""
    for key in keys:
        at.app.simulate_key(key)


def test_text_typed_right_after_the_search_key_is_searched_for() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("8", "r", sees="done in")
        typed_at_once(at, "9", "slash", *"request", "enter")
        await at.sees("of 'request' in key value headers", "complete")
        typed_at_once(at, "slash", *"q", "escape", "5")
        await at.sees("[5 Rec")
        typed_at_once(at, "colon", *"17", "enter")
        await at.until(lambda: offset_at(at) == 17)
        await at.sees("[5 Rec")

    drive(TXN, steps)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """No place is located before this is set."""
    found = threading.Event()
    locate = PartitionReader.locate
    monkeypatch.setattr(PartitionReader, "locate", lambda *args: found.wait(60) and locate(*args))
    return found


async def answered(at: Terminal, slow: threading.Event) -> None:
    """Let places be located once all keys have been taken."""
    for _ in range(20):
        await at.pilot.pause()
    slow.set()


@pytest.mark.parametrize(("keys", "shows"), [("5", "[5 Rec"), ("4", "[4 Batch"), ("z6", "[6 Hex"), ("53", "[3 Map")])
def test_a_view_chosen_right_after_a_jump_opens_at_its_target(keys: str, shows: str, slow: threading.Event) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        typed_at_once(at, "colon", *"100", "enter", *keys)
        await answered(at, slow)
        await at.sees(shows)
        place = browsing(at).reader.locate(Offset(100))
        assert place is not None
        await at.until(lambda: position_at(at) == (place.base_offset, place.position))

    drive(TXN, steps)


def test_the_next_segment_chosen_right_after_a_jump_is_the_one_after_its_target(slow: threading.Event) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        bases = [row.base_offset for row in browsing(at).state.segments]
        typed_at_once(at, "colon", *str(bases[1]), "enter", "right_square_bracket")
        await answered(at, slow)
        await at.until(lambda: browsing(at).base_offset == bases[2])

    drive(TXN, steps)


@pytest.mark.parametrize(("typed", "what"), [("100", "offset 100"), ("+2200", "byte 2,200")])
def test_the_top_line_shows_the_target_of_a_jump_while_headers_before_it_are_read(
    typed: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    read, steps_done = SegmentReader.index_more, count()

    def slowly(reader: SegmentReader) -> Progress:
        return read(reader) if goes_on.is_set() else Progress(next(steps_done), 1 << 40)

    monkeypatch.setattr(SegmentReader, "index_more", slowly)

    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("colon", *typed, "enter")
        await at.until(lambda: f"reading to {what}: segment" in at.lines[0] and "[4 Batch" in at.text)
        await at.press("5", sees="[5 Rec")
        await at.press("4", sees="[4 Batch")
        goes_on.set()
        await at.until(lambda: "reading to" not in at.lines[0])
        await at.sees("checksum")

    drive(TXN, steps)


def test_jumps_from_a_view_without_batches_open_the_batches() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("9", sees="nothing has been searched for")
        await at.press("colon", *"17", "enter", sees="[4 Batch")
        await at.press("9", sees="nothing has been searched for")
        await at.press("T", sees="[4 Batch")

    drive(TXN, steps)


def test_a_view_opened_while_a_prompt_is_open_takes_no_keys() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        at.app.simulate_key("9")
        await at.press("slash", sees="search:")
        await at.sees("[9 Search", "^r text")
        await at.types("quit")
        await at.sees("search: quit")
        await at.press("escape")
        await at.until(lambda: at.app.focused is at.app.screen.query_one("SearchView LazyTable"))

    drive(TXN, steps)


def test_a_record_opened_before_its_row_has_been_read_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    record_rows = SegmentReader.record_rows

    def slowly(reader: SegmentReader, first: int, count: int) -> list[RecordRow]:
        if count == 1:
            goes_on.wait(60)
        return record_rows(reader, first, count)

    monkeypatch.setattr(SegmentReader, "record_rows", slowly)

    async def steps(at: Terminal) -> None:
        await opened(at)
        await read_through(at)
        await at.press("5", sees="[5 Rec")
        await at.press("enter")
        goes_on.set()
        await at.sees("[value")

    drive(TXN, steps)


def test_enter_opens_the_record_that_the_cursor_has_just_moved_to() -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("5", sees="v12")
        typed_at_once(at, "j", "j", "enter")
        await at.sees("[value")
        assert offset_at(at) == 2

    drive(TXN, steps)
