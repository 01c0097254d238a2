"""Damage in a segment is reported, and everything around it is still shown."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.fsck import Severity, verify_path
from kafkalog.fsck.verifying import scope_of
from kafkalog.fsck.walk import Run, walk
from kafkalog.inspector.model import segment_index as windows
from kafkalog.inspector.model.segment import SegmentReader
from kafkalog.storage.files.open_source import open_source
from tests.helpers.damage import BATCHES, EACH, flipped, log, start_of, with_bytes
from tests.helpers.damage_kinds import KINDS, places_of
from tests.helpers.inspected import all_batches, all_records, read_through, reader_of, segment_file
from tests.reference.encode import V2Batch, records


def kinds(reader: SegmentReader) -> list[str]:
    return [row.kind for row in all_batches(reader)]


def test_a_flipped_bit_in_a_value_damages_one_batch_and_its_records_are_shown(tmp_path: Path) -> None:
    batches = log()
    data = flipped(b"".join(batches), start_of(batches, 3) + 200, 4)
    reader = reader_of(segment_file(tmp_path, data))
    assert kinds(reader) == ["data"] * 3 + ["corrupt"] + ["data"] * 4
    row = reader.batch(3)
    assert row is not None
    assert "checksum" in (row.problem or "")
    assert "expected" in (row.problem or "")
    assert [each.problem == row.problem for each in reader.record_rows(3 * EACH - 1, EACH + 2)] == [
        False,
        *[True] * 5,
        False,
    ]
    assert reader.records == BATCHES * EACH
    reader.close()


@pytest.mark.parametrize("size", [700, 70_000])
def test_a_wrong_size_field_loses_its_batch_and_no_other(tmp_path: Path, size: int) -> None:
    batches = log(size=size)
    start = start_of(batches, 3)
    for wrong in (b"\0\0\0\x05", b"\0\0\1\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"):
        data = with_bytes(b"".join(batches), start + 8, wrong)
        reader = reader_of(segment_file(tmp_path, data))
        rows = all_batches(reader)
        assert kinds(reader) == ["data"] * 3 + ["corrupt"] + ["data"] * 4
        assert (rows[3].position, rows[3].size, rows[3].magic) == (start, len(batches[3]), None)
        assert rows[3].problem
        assert [row.base_offset for row in rows[4:]] == [20, 25, 30, 35]
        assert rows[4].gap_before == EACH
        assert [row.offset for row in all_records(reader)] == [*range(15), 15, *range(20, 40)]
        reader.close()


def sound_positions(path: Path) -> list[int]:
    """Return the positions of the batches that survive damage, by the library."""
    with closing(open_source(path)) as file:
        found = [item for item in walk(file, scope_of(path).bounds) if isinstance(item, Run)]
    return [position for run in found for position in run.rows["position"][run.valid].tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_batches_shown_as_sound_are_those_that_survive(kind: str, tmp_path: Path) -> None:
    whole = b"".join(log())
    path = segment_file(tmp_path, KINDS[kind](whole, places_of(whole)))
    reader = reader_of(path)
    rows = all_batches(reader)
    assert [row.position for row in rows] == [0, *[row.position + row.size for row in rows[:-1]]][: len(rows)]
    assert [row.position for row in rows if row.kind != "corrupt" and row.magic is not None] == sound_positions(path)
    reader.close()


def test_a_size_field_over_sound_batches_hides_none_of_them(tmp_path: Path) -> None:
    batches = log()
    spanning = (sum(map(len, batches[2:5])) - 12).to_bytes(4, "big")
    path = segment_file(tmp_path, with_bytes(b"".join(batches), start_of(batches, 2) + 8, spanning))
    reader = reader_of(path)
    assert kinds(reader) == ["data"] * 2 + ["corrupt"] + ["data"] * 5
    assert (reader.record_at(15), reader.next_damage(0)) == (11, 2)
    with path.open("ab") as file:
        file.write(V2Batch(records(b"v", offset=40)).encoded())
    read_through(reader)
    assert kinds(reader) == ["data"] * 2 + ["corrupt"] + ["data"] * 6
    reader.close()


def test_garbage_between_batches_is_a_row_of_its_own(tmp_path: Path) -> None:
    batches = log()
    data = b"".join([*batches[:4], b"\x99" * 5000, *batches[4:]])
    reader = reader_of(segment_file(tmp_path, data))
    assert kinds(reader) == ["data"] * 4 + ["corrupt"] + ["data"] * 4
    assert reader.batch_at(position=start_of(batches, 4) + 2500) == 4
    assert reader.batch_at(offset=4 * EACH) == 5
    assert reader.record_at(4 * EACH) == 4 * EACH + 1
    reader.close()


@pytest.mark.parametrize("left", [8, 11, 30, 61, 500])
def test_a_torn_tail_is_reported_and_becomes_a_batch_when_the_rest_is_written(tmp_path: Path, left: int) -> None:
    batches = log()
    whole = b"".join(batches)
    end = start_of(batches, 7)
    path = segment_file(tmp_path, whole[: end + left])
    reader = reader_of(path)
    rows = all_batches(reader)
    assert kinds(reader) == ["data"] * 7 + ["corrupt"]
    assert (rows[7].position, rows[7].size) == (end, left)
    assert "the last batch is incomplete" in (rows[7].problem or "")
    path.write_bytes(whole)
    read_through(reader)
    assert kinds(reader) == ["data"] * 8
    assert reader.records == BATCHES * EACH
    reader.close()


def test_a_reserved_tail_is_empty_and_no_damage(tmp_path: Path) -> None:
    data = b"".join(log())
    reader = reader_of(segment_file(tmp_path, data + bytes(100_000)))
    rows = all_batches(reader)
    assert [row.kind for row in rows] == ["data"] * 9
    assert "zeros" in (rows[8].problem or "")
    assert reader.next_damage(0) is None
    assert [cell.kind for cell in reader.strip(4)] == ["data", "empty", "empty", "empty"]
    assert reader.records == BATCHES * EACH
    reader.close()


def test_an_unknown_magic_is_damage(tmp_path: Path) -> None:
    batches = log()
    data = with_bytes(b"".join(batches), start_of(batches, 2) + 16, b"\x07")
    reader = reader_of(segment_file(tmp_path, data))
    assert kinds(reader) == ["data"] * 2 + ["corrupt"] + ["data"] * 5
    assert "magic" in (all_batches(reader)[2].problem or "")
    reader.close()


def test_a_file_of_nothing_but_garbage_is_one_row(tmp_path: Path) -> None:
    reader = reader_of(segment_file(tmp_path, b"\x55" * 300_000))
    assert kinds(reader) == ["corrupt"]
    assert [row.kind for row in all_records(reader)] == ["corrupt"]
    assert reader.record(0) is not None
    reader.close()


def test_the_next_damage_is_found_in_both_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW_ROWS", 2)
    batches = log()
    data = b"".join(batches)
    for place in (1, 6):
        data = flipped(data, start_of(batches, place) + 300, 0)
    reader = reader_of(segment_file(tmp_path, data))
    assert [reader.next_damage(row) for row in range(8)] == [1, 6, 6, 6, 6, 6, None, None]
    assert [reader.next_damage(row, False) for row in range(8)] == [None, None, 1, 1, 1, 1, 1, 6]
    reader.close()


@given(place=st.integers(0, 2_000_000), bit=st.integers(0, 7))
def test_every_byte_is_in_a_row_and_sound_batches_are_shown_after_any_bit_flip(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    batches = log(size=300)
    data = b"".join(batches)
    data = flipped(data, place % len(data), bit)
    path = segment_file(tmp_path_factory.mktemp("flip"), data)
    reader = reader_of(path)
    rows = all_batches(reader)
    assert [row.position for row in rows] == [0, *[row.position + row.size for row in rows[:-1]]]
    assert rows[-1].position + rows[-1].size == len(data)
    sound = {row.position for row in rows if row.kind == "data"}
    hit = next(i for i in range(BATCHES) if place % len(data) < start_of(batches, i + 1))
    assert {start_of(batches, i) for i in range(BATCHES) if i != hit} <= sound
    found = [each for each in verify_path(path) if each.severity is Severity.ERROR]
    # What verify finds beside broken batches is about their order.
    broken = any(
        each.code not in ("offset-order", "offset-overlap", "offset-below-segment", "offset-beyond-segment")
        for each in found
    )
    assert any(row.kind == "corrupt" for row in rows) == broken
    reader.strip(20)
    all_records(reader)
    reader.close()


def test_a_header_that_promises_more_records_than_there_are_is_no_way_to_fill_the_memory(tmp_path: Path) -> None:
    greedy = V2Batch(records(b"v"), last_offset_delta=2**31 - 2, records_count=2**31 - 1).encoded()
    reader = reader_of(segment_file(tmp_path, greedy))
    assert reader.records == 2**31 - 1
    rows = reader.record_rows(2**30, 3)
    assert [row.row for row in rows] == [2**30, 2**30 + 1, 2**30 + 2]
    assert {row.kind for row in rows} == {"corrupt"}
    assert reader.record(2**31 - 2) is not None
    reader.close()
