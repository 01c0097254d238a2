"""The map: its cursor is a place as that of any view, and it tells of a cell no more than is known."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from tests.helpers import damage
from tests.helpers.driving import Terminal, browsing, drive
from tests.helpers.inspected import segment_file
from tests.reference.encode import V2Batch, records

pytestmark = pytest.mark.tui


BATCHES = [damage.batch(i) for i in range(damage.BATCHES)]


def test_e_goes_on_from_the_batch_at_the_cursor(tmp_path: Path) -> None:
    data = b"".join(BATCHES)
    for place in (0, 5):
        data = damage.flipped(data, damage.start_of(BATCHES, place) + 100, 2)
    segment_file(tmp_path / "damaged-0", data)

    async def steps(at: Terminal) -> None:
        await at.press("3", sees="cell 1 of")
        await at.sees("position 0: the checksum")
        await at.press("e", sees=f"position {damage.start_of(BATCHES, 5)}: the checksum")
        await at.press("E", sees="position 0: the checksum")

    drive(tmp_path / "damaged-0", steps)


def test_a_cell_without_a_batch_shows_no_offset(tmp_path: Path) -> None:
    segment_file(tmp_path / "damaged-0", b"\xff" * 300 + b"".join(BATCHES))

    async def steps(at: Terminal) -> None:
        await at.press("3", sees="cell 1 of")
        await at.sees("corrupt,", "1 batch")
        assert "from offset" not in at.text

    drive(tmp_path / "damaged-0", steps)


def test_a_cell_of_plain_data_shows_how_many_batches_begin_in_it(tmp_path: Path) -> None:
    data = b"".join(BATCHES)
    segment_file(tmp_path / "sound-0", data)

    async def steps(at: Terminal) -> None:
        await at.press("3", sees="cell 1 of")
        await at.until(lambda: browsing(at).is_indexed)
        cells = "".join(line for line in at.lines[3:] if set(line) <= set("-123456789+"))
        assert sum(int(cell) for cell in cells if cell.isdigit()) == len(BATCHES)
        assert set(cells) >= {"1", "-"}

    drive(tmp_path / "sound-0", steps)


def test_v_shades_cells_by_the_size_of_records_and_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.inspector.views.map.has_blocks", lambda: True)
    sizes = (100, 100, 100, 4000)
    data = b"".join(
        V2Batch(records(bytes(size)), base_offset=i, max_timestamp=1_700_000_000_000 + i * 1000).encoded()
        for i, size in enumerate(sizes)
    )
    segment_file(tmp_path / "sound-0", data)

    async def steps(at: Terminal) -> None:
        await at.press("3", sees="cell 1 of")
        await at.press("v", sees="bytes a record: ▁ ")
        cells = "".join(at.lines[3:-4]).replace(" ", "")
        assert (set(cells), cells[0], cells[-1]) == ({"▁", "█"}, "▁", "█")
        await at.press("v", sees="time: ▁ 2023-11-14 22:13:20 .. █ 2023-11-14 22:13:23")
        assert len(set("".join(at.lines[3:-4]).replace(" ", ""))) == len(sizes)
        await at.press("v", sees="batches begin")

    drive(tmp_path / "sound-0", steps)
