"""Steps to the next damage, transaction or match: each press counts while one is under way, and no other key waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog.inspector.app import InspectorApp
from kafkalog.inspector.jobs.jobs import Emit, SearchJob
from kafkalog.inspector.jobs.runs import SearchRun
from kafkalog.inspector.model.segment import SegmentReader
from kafkalog.inspector.widgets.lazy_table import LazyTable
from kafkalog.scan.progress import Progress
from kafkalog.scan.search import Match
from tests.helpers import damage
from tests.helpers.driving import Terminal, browsing, drive, offset_at, position_at
from tests.helpers.inspected import segment_file
from tests.reference.encode import V2Batch, records

pytestmark = pytest.mark.tui


SEGMENTS = 4
EACH = damage.BATCHES * damage.EACH
TRANSACTIONAL = 0x10
# As the panel beside the table has it.
FOURTH = "offsets    60..64"


def batches_of(segment: int) -> list[bytes]:
    return [damage.batch(segment * damage.BATCHES + i) for i in range(damage.BATCHES)]


def position_of(place: int) -> int:
    return damage.start_of(batches_of(0), place)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Four segments: the first is sound, the second and the last have two damaged batches, 2 and 5."""
    for segment in range(SEGMENTS):
        data = b"".join(batches_of(segment))
        for place in (2, 5) if segment in (1, 3) else ():
            data = damage.flipped(data, position_of(place) + 100, 2)
        segment_file(tmp_path / "damaged-0", data, segment * EACH)
    return tmp_path / "damaged-0"


async def comes_to(at: Terminal, segment: int, place: int) -> None:
    wanted = segment * EACH, position_of(place)
    await at.until(lambda: position_at(at) == wanted)
    await at.until(lambda: browsing(at).base_offset == segment * EACH)


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All notifications so far."""
    found: list[str] = []
    notify = InspectorApp.notify

    def noting(app: InspectorApp, message: str, **options: Any) -> None:
        found.append(message)
        notify(app, message, **options)

    monkeypatch.setattr(InspectorApp, "notify", noting)
    return found


def test_e_goes_on_in_the_next_segments_and_says_so(damaged: Path, notices: list[str]) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0")
        for segment, place in ((1, 2), (1, 5), (3, 2), (3, 5)):
            await at.press("e")
            await comes_to(at, segment, place)
            await at.sees("! 00000", f"position {position_of(place)}: the checksum")
        assert "no damage after this in segment 0: on to segment 40" in notices
        assert "no damage after this in segment 40: on to segment 120" in notices
        await at.press("e")
        await at.until(lambda: "no damage after this in the log" in notices)
        await comes_to(at, 3, 5)

    drive(damaged, steps)


def test_shift_e_goes_back_through_earlier_segments(damaged: Path, notices: list[str]) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", "colon", *"159", "enter")
        await at.until(lambda: browsing(at).place is not None and browsing(at).base_offset == 3 * EACH)
        for segment, place in ((3, 5), (3, 2), (1, 5), (1, 2)):
            await at.press("E")
            await comes_to(at, segment, place)
        assert "no damage before this in segment 120: on to segment 40" in notices
        await at.press("E")
        await at.until(lambda: "no damage before this in the log" in notices)
        await comes_to(at, 1, 2)

    drive(damaged, steps)


@pytest.fixture
def third_read(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The third segment is not read before this is set."""
    goes_on, read, step = threading.Event(), SegmentReader.index_more, count()

    def slowly(reader: SegmentReader) -> Progress:
        if reader.base_offset != 2 * EACH or goes_on.is_set():
            return read(reader)
        return Progress(next(step), 1 << 40)

    monkeypatch.setattr(SegmentReader, "index_more", slowly)
    monkeypatch.setattr("kafkalog.inspector.partition.live.OTHERS_READ", 0)
    return goes_on


def test_each_e_counts_while_segments_are_read_and_shift_e_takes_one_back(
    damaged: Path, third_read: threading.Event
) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="offsets    0..4")
        await at.press("e", "e")
        await comes_to(at, 1, 5)
        await at.press("e")
        await at.until(lambda: "looking for damage in segment 80 0%, esc ends it" in at.lines[0])
        await at.press("e", "e", sees="looking for damage (3)")
        await at.press("E", sees="looking for damage (2)")
        third_read.set()
        await comes_to(at, 3, 5)
        await at.until(lambda: "looking for" not in at.text)

    drive(damaged, steps, size=(140, 40))


def test_escape_cancels_the_search_for_damage_and_other_keys_do_not_wait_for_it(
    damaged: Path, third_read: threading.Event
) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="offsets    0..4")
        await at.press("e", "e")
        await comes_to(at, 1, 5)
        await at.press("e", sees="looking for damage in segment 80")
        await at.press("k", sees=FOURTH)
        await at.press("escape")
        await at.until(lambda: "looking for" not in at.text)
        await at.sees("[4 Batch", FOURTH)
        await at.press("e")
        await comes_to(at, 1, 5)
        await at.press("e", sees="looking for damage in segment 80")
        await at.press("5", sees="[5 Rec")
        third_read.set()
        await at.until(lambda: "looking for" not in at.text)
        await comes_to(at, 1, 5)

    drive(damaged, steps, size=(140, 40))


def transactional(offset: int, producer: int) -> bytes:
    return V2Batch(
        records(b"x", offset=offset), producer_id=producer, producer_epoch=0, base_sequence=offset, flags=TRANSACTIONAL
    ).encoded()


def test_t_skips_the_rest_of_a_transaction_in_the_next_segment(tmp_path: Path, notices: list[str]) -> None:
    for base, producers in ((0, (1, 1)), (2, (1, 1)), (4, (1, 2)), (6, ())):
        data = b"".join(transactional(base + i, producer) for i, producer in enumerate(producers))
        segment_file(tmp_path / "t-0", data, base)

    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0")
        await at.press("t")
        await at.until(lambda: (position_at(at) or (0, 0)) > (4, 0))
        await at.press("t")
        await at.until(lambda: "no transaction after this in the log" in notices)
        await at.press("T")
        await at.until(lambda: position_at(at) == (4, 0))

    drive(tmp_path / "t-0", steps)


def test_an_unreadable_segment_is_skipped_and_reported(damaged: Path, notices: list[str]) -> None:
    second = damaged / f"{EACH:020d}.log"
    second.unlink()
    second.mkdir()

    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0")
        await at.press("e")
        await comes_to(at, 3, 2)
        assert "on to segment 120; segments not readable: 1" in notices[-1]

    drive(damaged, steps)


Found = SimpleQueue["int | None"]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[Found]:
    """The search finds the offsets that are put here, and ends with None."""
    offsets: Found = SimpleQueue()

    def run(_: SearchJob, emit: Emit) -> None:
        while (offset := offsets.get()) is not None:
            emit(Match(offset, 0, "value", (0, 1), b"x", (0, 1)))

    monkeypatch.setattr(SearchJob, "run", run)
    monkeypatch.setattr("kafkalog.inspector.jobs.process.FRAME_SECONDS", 0.0)
    yield offsets
    offsets.put(None)


async def searching(at: Terminal) -> SearchRun:
    """A search that goes on until it is ended."""
    await at.sees("leader epochs")
    await at.press("slash", *"x", "enter", sees="0 matches of 'x'")
    run = browsing(at).search
    assert run is not None
    return run


def finds(found: Found, *offsets: int | None) -> None:
    for offset in offsets:
        found.put(offset)


def is_at(at: Terminal, offset: int) -> Callable[[], bool]:
    return lambda: offset_at(at) == offset


def test_each_n_counts_while_a_search_goes_on(damaged: Path, found: Found, notices: list[str]) -> None:
    async def steps(at: Terminal) -> None:
        await searching(at)
        await at.press("5", sees="OFFSET  TIME")
        await at.press("n", "n", "n", "n", sees="waiting for a match (4)")
        await at.press("N", sees="waiting for a match (3)")
        await at.press("n")
        await at.until(lambda: "waiting for a match (4), esc ends it" in at.lines[0])
        finds(found, 3)
        await at.until(is_at(at, 3))
        await at.sees("waiting for a match (3)")
        for offset in (10, 12, 17):
            finds(found, offset)
            await at.until(is_at(at, offset))
        await at.until(lambda: "waiting" not in at.lines[0])
        finds(found, 30)
        await at.press("n")
        await at.until(is_at(at, 30))
        await at.press("n", "n", sees="waiting for a match (2)")
        finds(found, 33, None)
        await at.until(is_at(at, 33))
        await at.until(lambda: notices[-1].startswith("no match after this: 6 matches of 'x'"))
        await at.until(lambda: "waiting" not in at.lines[0])
        assert any(each.startswith("searching") for each in notices)

    drive(damaged, steps, size=(140, 40))


def test_escape_stops_waiting_for_a_match_and_not_the_search(damaged: Path, found: Found) -> None:
    async def steps(at: Terminal) -> None:
        run = await searching(at)
        await at.press("5", sees="OFFSET  TIME")
        await at.press("n", sees="waiting for a match, esc ends it")
        await at.press("escape")
        await at.until(lambda: "esc ends it" not in at.lines[0])
        await at.press("n", sees="waiting for a match, esc ends it")
        await at.press("N")
        await at.until(lambda: "esc ends it" not in at.lines[0])
        assert run.is_running
        place = browsing(at).place
        finds(found, 30)
        for _ in range(5):
            await at.pilot.pause()
        assert browsing(at).place == place

    drive(damaged, steps, size=(140, 40))


def test_each_n_counts_in_a_growing_list_of_matches(damaged: Path, found: Found, notices: list[str]) -> None:
    async def steps(at: Terminal) -> None:
        await searching(at)
        table = at.app.screen.query_one("SearchView LazyTable", LazyTable)
        await at.press("n", "n", "n")
        finds(found, 1, 2)
        await at.until(lambda: table.cursor == 1)
        finds(found, 3, 4)
        await at.until(lambda: table.count == 4)
        await at.until(lambda: table.cursor == 2)
        await at.press("n", "n", "n")
        await at.until(lambda: table.cursor == 3)
        await at.press("k")
        await at.until(lambda: table.cursor == 2)
        finds(found, 5, 6, 7)
        await at.until(lambda: table.count == 7)
        await at.pilot.pause()
        assert table.cursor == 2
        await at.press("G", "n")
        finds(found, None)
        await at.until(lambda: "no match after this" in notices)

    drive(damaged, steps)
