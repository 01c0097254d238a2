"""Beside a writer that appends, rolls, truncates and deletes: no answer is wrong, nothing raises, the end is right."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

import kafkalog
from kafkalog import Record
from kafkalog.inspector.browsing import Browsing
from kafkalog.inspector.config import Settings
from kafkalog.inspector.desk import Desk
from kafkalog.inspector.model.model import Model
from kafkalog.inspector.model.partition import PartitionReader
from kafkalog.inspector.session import Session
from kafkalog.scan.search import EXCERPT_BYTES, Match, Search, pattern
from kafkalog.scan.statistics import LogStatistics
from tests.helpers.damage import log as damaged_log
from tests.helpers.inspected import all_batches, all_records, all_steps, read_through, reader_of, segment_file
from tests.helpers.inspected_writer import SECONDS, stopped, value, writer
from tests.reference.encode import V2Batch, records


def look_around(reader: PartitionReader) -> tuple[int, frozenset[str]]:
    """Ask everything of the partition as it is now; how many records were seen, and what had changed."""
    state, seen = reader.refresh(), 0
    for row in (*state.segments[:1], *state.segments[-1:]):
        segment = reader.segment(row.base_offset)
        for _ in range(3):
            segment.index_more()
        rows = segment.record_rows(max(0, segment.records - 50), 50)
        # A record cut off while it is read has a problem; one without a problem must be as it was written.
        for record in rows:
            if record.problem is None:
                assert record.value == value(record.offset)
        segment.batch_rows(0, 20)
        segment.strip(40)
        if segment.batches:
            tuple(segment.every_field(segment.batches - 1))
            segment.record_at(rows[-1].offset if rows else 0)
        seen += len(rows)
    return seen, state.changed


@pytest.mark.slow
def test_a_writer_is_followed_through_all_that_it_does(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    changes: set[str] = set()
    seen = polls = 0
    with writer(directory) as control:
        model = Model(directory)
        reader = model.partition()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            count, changed = look_around(reader)
            seen, polls, changes = seen + count, polls + 1, changes | changed
            if polls % 20 == 0:
                reader.work_out_last_stable()
                reader.transactions()
                list(model.topics())
            if polls % 25 == 0:
                for match in Search(reader.path, pattern("77:")):
                    assert not isinstance(match, Match) or value(match.offset)[:EXCERPT_BYTES] == match.excerpt
                statistics = LogStatistics(reader.path)
                all_steps(partial(statistics.step, 0.01))
        start, end = stopped(control)
    state = reader.refresh()
    assert (state.log_start, state.log_end, state.problem) == (start, end, None)
    assert changes >= {"grown", "rolled"}
    assert seen > 100
    for row in state.segments:
        segment = read_through(reader.segment(row.base_offset))
        assert [row.problem for row in all_batches(segment) if row.problem is not None] == []
        assert all(record.value == value(record.offset) for record in all_records(segment))
    model.close()


def test_a_file_that_grows_is_read_on_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    path = segment_file(tmp_path, b"")
    reader = reader_of(path)
    known: list[bytes | None] = []
    for i in range(30):
        with path.open("ab") as file:
            file.write(V2Batch(records(b"value %d" % i, offset=i)).encoded())
        read_through(reader)
        assert [row.value for row in reader.record_rows(0, i)] == known
        known.append(reader.record_rows(i, 1)[0].value)
    assert (reader.batches, len(reader.raw.all)) == (30, 1)
    reader.close()


def test_a_truncated_file_that_has_grown_again_is_read_from_its_start(tmp_path: Path) -> None:
    path = segment_file(tmp_path, b"".join(damaged_log()))
    reader = reader_of(path)
    assert reader.records == 40
    other = b"".join(V2Batch(records(b"other", offset=i)).encoded() for i in range(300))
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(other)
    assert not reader.index_more().is_done or reader.batches == 300
    read_through(reader)
    assert (reader.batches, {row.value for row in all_records(reader)}) == (300, {b"other"})
    with path.open("r+b") as file:
        file.truncate(len(other) // 2 + 10)
    read_through(reader)
    assert reader.batches == 151
    assert [row.kind for row in all_batches(reader)] == [*["data"] * 150, "corrupt"]
    reader.close()


def test_a_replaced_file_is_opened_again(tmp_path: Path) -> None:
    path = segment_file(tmp_path, b"".join(damaged_log()))
    reader = reader_of(path)
    new = tmp_path / "new"
    new.write_bytes(V2Batch(records(b"compacted", offset=3)).encoded())
    new.replace(path)
    read_through(reader)
    assert [(row.offset, row.value) for row in all_records(reader)] == [(3, b"compacted")]
    reader.close()


def test_a_deleted_file_is_reported_and_readable_until_it_is_closed(tmp_path: Path) -> None:
    path = segment_file(tmp_path, b"".join(damaged_log()))
    reader = reader_of(path)
    path.unlink()
    assert reader.index_more().is_done
    assert "deleted" in (reader.problem or "")
    assert len(all_records(reader)) == 40
    path.write_bytes(V2Batch(records(b"again")).encoded())
    read_through(reader)
    assert (reader.problem, reader.records) == (None, 1)
    reader.close()


def test_queries_about_bytes_that_were_cut_off_raise_nothing(tmp_path: Path) -> None:
    path = segment_file(tmp_path, b"".join(damaged_log()))
    reader = reader_of(path)
    with path.open("r+b") as file:
        file.truncate(100)
    row = reader.batch(5)
    assert row is None or row.problem is not None or row.kind == "data"
    assert reader.read_bytes(50, 500) == path.read_bytes()[50:]
    reader.strip(10)
    reader.record_rows(0, 100)
    tuple(reader.every_field(3))
    reader.field_at(3000)
    reader.close()


def test_an_error_caused_by_a_truncation_is_reported_until_the_next_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment_file(tmp_path / "t-0", V2Batch(records(b"v")).encoded())
    model = Model(path.parent)
    reader = model.partition()

    def cut(*_: object) -> None:
        raise ValueError("start is 2627 bytes: a whole number from 0 to 1753 is needed")

    with monkeypatch.context() as cutting:
        cutting.setattr("kafkalog.storage.segment.log_segment.LogSegment.first_batch_timestamp", property(cut))
        cutting.setattr("kafkalog.inspector.model.segment_index.Windows.step", cut)
        changed = f"{path.name}: the file has changed while it was looked at"
        assert reader.segment(0).index_more().is_done
        assert (reader.segment(0).problem, reader.refresh().problem) == (changed, changed)
    reader.segment(0).index_more()
    assert (reader.segment(0).problem, reader.refresh().problem) == (None, None)
    model.close()


def test_a_segment_that_grew_and_was_sealed_after_it_was_shown_is_counted(tmp_path: Path) -> None:
    async def look() -> list[int | None]:
        with kafkalog.open(tmp_path / "orders-0", "a") as log:
            log.append([Record(b"v")])
            model = Model(tmp_path)
            reader = model.partition("orders-0")
            browsing = Browsing(Session(model, Settings()), reader, Desk("orders-0"), reader.refresh())
            await browsing.select(0)
            await browsing.read_more()
            assert browsing.is_read
            log.append([Record(b"v")] * 4)
            log.roll()
            log.append([Record(b"v")])
            state = await browsing.ask(reader.refresh)
            await browsing.select(state.segments[-1].base_offset)
            await browsing.read_more()
            await browsing.read_through(0)
            return [row.records for row in (await browsing.ask(reader.refresh)).segments]

    assert asyncio.run(look()) == [5, 1]
