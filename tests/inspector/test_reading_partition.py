"""A partition's segments and watermarks: what the broker said of them, and what changes under a reader."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import LogConfig, Record
from kafkalog.inspector.model.model import Model
from kafkalog.inspector.model.partition import KEPT, SETTLED_SECONDS
from kafkalog.inspector.model.types import Byte, Offset, Place, Time
from tests.helpers.golden import unpacked
from tests.helpers.inspected import all_records, read_through, segment_file
from tests.reference.encode import V2Batch, records

ARCHIVE = unpacked() / "kafka-3.9"
VIEW: dict[str, Any] = json.loads((ARCHIVE / "expected" / "broker-view.json").read_text(encoding="utf-8"))
TOPICS = pytest.mark.parametrize("topic", sorted(VIEW))
# The broker aborted the transaction that was left open, after the files had been copied.
ENDED_LATER = {"v2-txn": 1451}


@TOPICS
def test_watermarks_are_those_that_the_broker_reported(topic: str) -> None:
    model = Model(ARCHIVE / "data")
    row = [row for row in model.topics() if row.topic == topic][-1]
    end = ENDED_LATER.get(topic, VIEW[topic]["end_read_uncommitted"])
    assert (row.log_start, row.log_end, row.high_watermark) == (VIEW[topic]["low"], end, end)
    assert row.offsets == end - VIEW[topic]["low"]
    assert row.last_stable == (1411 if topic == "v2-txn" else end)
    reader = model.partition(f"{topic}-0")
    first = reader.refresh()
    assert (first.log_start, first.log_end, first.high_watermark, first.last_stable) == (row.log_start, end, end, None)
    assert reader.work_out_last_stable() == row.last_stable
    assert reader.refresh().last_stable == row.last_stable
    assert first.problem is None
    model.close()


@TOPICS
def test_times_lead_to_the_offsets_that_the_broker_reported(topic: str) -> None:
    model = Model(ARCHIVE / "data" / f"{topic}-0")
    reader = model.partition()
    for timestamp, offset, _ in [(*each, None)[:3] for each in VIEW[topic].get("offsets_for_times", [])]:
        place = reader.locate(Time(timestamp))
        assert (None if place is None else place.offset) == offset
    model.close()


@TOPICS
def test_every_record_that_a_consumer_got_is_found_by_its_offset(topic: str) -> None:
    model = Model(ARCHIVE / "data" / f"{topic}-0")
    reader = model.partition()
    reader.refresh()
    for offset in VIEW[topic]["read_uncommitted"][::29]:
        place = reader.locate(Offset(offset))
        assert place is not None
        segment = read_through(reader.segment(place.base_offset))
        number = segment.record_at(offset)
        assert number is not None
        assert segment.record_rows(number, 1)[0].offset == offset == place.offset
        row = segment.batch(segment.record_rows(number, 1)[0].batch)
        assert row is not None
        assert row.position == place.position
    for far in (Offset(10**9), Offset(10**23), Offset(-1), Time(10**23), Byte(10**23, 10**23)):
        assert reader.locate(far) is None
    last = reader.refresh().segments[-1]
    for position in {17, last.bytes - 1, last.bytes, 2**40} - {-1}:
        there = Place(last.base_offset, min(position, last.bytes - 1)) if last.bytes else None
        assert reader.locate(Byte(position)) == there
    model.close()


def test_records_of_aborted_transactions_are_those_that_committed_readers_did_not_get() -> None:
    model = Model(ARCHIVE / "data" / "v2-txn-0")
    reader = model.partition()
    kinds: dict[int, str] = {}
    for row in reader.refresh().segments:
        segment = read_through(reader.segment(row.base_offset))
        kinds |= {record.offset: record.kind for record in all_records(segment)}
    view = VIEW["v2-txn"]
    aborted = set(view["read_uncommitted"]) - set(view["read_committed"])
    assert {offset for offset, kind in kinds.items() if kind == "aborted"} == {each for each in aborted if each < 1411}
    still_open = {offset for offset, kind in kinds.items() if kind == "transactional" and offset >= 1411}
    assert {each for each in aborted if each >= 1411} == still_open
    assert {offset for offset, kind in kinds.items() if kind == "control"} | set(view["read_uncommitted"]) == set(kinds)
    model.close()


def test_a_segments_row_has_what_was_counted_once_it_was_read_through() -> None:
    model = Model(ARCHIVE / "data" / "v2-lz4-0")
    reader = model.partition()
    before = reader.refresh().segments[0]
    assert (before.records, before.summary, before.index_state, before.sealed) == (None, None, "ok", True)
    assert before.first_timestamp is not None
    assert before.last_timestamp is not None
    segment = read_through(reader.segment(before.base_offset))
    after = reader.refresh().segments[0]
    assert (after.records, after.batches) == (segment.records, segment.batches)
    assert after.summary == segment.summary
    assert after.last_timestamp == before.last_timestamp
    model.close()


def test_leader_epochs_are_the_checkpoints() -> None:
    model = Model(ARCHIVE / "data" / "v2-epochs-0")
    lines = (ARCHIVE / "data" / "v2-epochs-0" / "leader-epoch-checkpoint").read_text().split("\n")[2:-1]
    assert model.partition().refresh().epochs == tuple((int(a), int(b)) for a, b in map(str.split, lines))
    model.close()


@pytest.mark.parametrize(
    ("index", "state"),
    [
        (None, "missing"),
        (b"", "empty"),
        (bytes(800), "empty"),
        (b"\0\0\0\x01\0\0\xff\xff", "damaged"),
        (b"\0\0\0\x09\0\0\0\x09", "damaged"),
        (b"junk", "damaged"),
    ],
)
def test_the_state_of_an_index_is_reported(tmp_path: Path, index: bytes | None, state: str) -> None:
    data = b"".join(V2Batch(records(b"v", offset=i)).encoded() for i in range(10))
    path = segment_file(tmp_path / "t-0", data)
    segment_file(tmp_path / "t-0", data, base_offset=10)
    if index is not None:
        path.with_suffix(".index").write_bytes(index)
    model = Model(tmp_path / "t-0")
    # A writer that truncates may be about to cut the index of a segment that was written just now.
    assert (model.partition().refresh().segments[0].index_state == state) == (state != "damaged")
    long_ago = time.time() - 2 * SETTLED_SECONDS
    os.utime(path, (long_ago, long_ago))
    assert model.partition().refresh().segments[0].index_state == state
    model.close()


def test_damage_behind_the_last_entry_of_an_index_leaves_the_index_as_it_is(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a", LogConfig(index_interval_bytes=100)) as log:
        for _ in range(9):
            log.append([Record(b"v" * 100)])
        log.roll()
        log.append([Record(b"v")])
    path = tmp_path / "t-0" / f"{0:020}.log"
    os.truncate(path, path.stat().st_size - 30)
    path.with_suffix(".index").write_bytes(path.with_suffix(".index").read_bytes()[:-8])
    model = Model(tmp_path / "t-0")
    segment = model.partition().refresh().segments[0]
    assert segment.index_state == "ok"
    assert segment.problem is not None
    assert "torn tail" in segment.problem
    model.close()


def test_changes_by_a_writer_are_reported(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1 << 20, file_delete_delay_ms=0)
    with kafkalog.open(tmp_path / "t-0", "a", config) as log:
        log.append([Record(b"0")])
        model = Model(tmp_path / "t-0")
        reader = model.partition()
        assert reader.refresh().changed == frozenset()
        assert reader.refresh().changed == frozenset()
        log.append([Record(b"1")])
        assert reader.refresh().changed == {"grown"}
        log.roll()
        log.append([Record(b"2"), Record(b"3")])
        state = reader.refresh()
        assert state.changed == {"rolled", "grown"}
        assert [row.base_offset for row in state.segments] == [0, 2]
        assert (state.log_end, state.segments[0].sealed) == (4, True)
        log.truncate_to(2)
        state = reader.refresh()
        assert ("truncated" in state.changed, state.log_end) == (True, 2)
        log.append([Record(b"new")])
        log.roll()
        log.append([Record(b"newer")])
        reader.refresh()
        log.delete_records(3)
        log.delete_old_segments()
        state = reader.refresh()
        assert ("deleted" in state.changed, state.log_start) == (True, 3)
    shutil.rmtree(tmp_path / "t-0")
    state = reader.refresh()
    assert state.changed == {"gone"}
    assert state.segments == ()
    assert state.problem
    assert reader.refresh().changed == frozenset()
    with kafkalog.open(tmp_path / "t-0", "a", config) as log:
        log.append([Record(b"again")])
        assert reader.refresh().log_end == 1
    model.close()


def test_the_log_end_of_a_large_segment_without_index_is_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalog.fsck.health.NEAR_BYTES", 1000)
    segment_file(tmp_path / "t-0", b"".join(V2Batch(records(b"v" * 100, offset=i)).encoded() for i in range(50)))
    model = Model(tmp_path / "t-0")
    rows = list(model.topics())
    assert [(row.log_end, row.last_stable) for row in rows] == [(None, None), (None, None), (50, 50)]
    reader = model.partition()
    state = reader.refresh()
    assert (state.log_end, state.high_watermark, state.log_start) == (None, None, 0)
    read_through(reader.segment(0))
    assert reader.refresh().log_end == 50
    model.close()


def test_damage_before_the_log_end_is_reported_in_the_row(tmp_path: Path) -> None:
    segment_file(tmp_path / "t-0", b"\x77" * 500)
    model = Model(tmp_path / "t-0")
    row = list(model.topics())[-1]
    state = model.partition().refresh()
    assert (row.health, state.log_end) in {("damaged", None), ("damaged", 0)}
    assert "does not begin with a batch" in (row.problem or "")
    assert row.problem == state.problem
    assert state.segments[0].bytes == 500
    model.close()


def test_a_malformed_checkpoint_is_reported(tmp_path: Path) -> None:
    segment_file(tmp_path / "t-0", V2Batch(records(b"v")).encoded())
    (tmp_path / "log-start-offset-checkpoint").write_text("nonsense")
    model = Model(tmp_path)
    rows = [row for row in model.topics() if row.filled]
    assert {(row.health, row.log_end, row.high_watermark, row.problem) for row in rows} == {
        ("unchecked", 1, None, None)
    }
    assert "log-start-offset-checkpoint" in (model.problem or "")
    state = model.partition("t-0").refresh()
    assert "log-start-offset-checkpoint" in (state.problem or "")
    assert state.log_end == 1
    model.close()


def test_no_more_than_a_few_segments_are_kept_open(tmp_path: Path) -> None:
    model = Model(ARCHIVE / "data" / "v2-zstd-0")
    reader = model.partition()
    bases = [row.base_offset for row in reader.refresh().segments]
    assert len(bases) > 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KEPT, "show", 3)
        kept = [reader.segment(base) for base in bases]
        for each in kept:
            read_through(each) if each in kept[-3:] else None
        assert [reader.segment(base) for base in bases[-3:]] == kept[-3:]
        first = reader.segment(bases[0])
        assert first is not kept[0]
        assert read_through(first).records > 0
        assert [reader.segment(base) for base in bases[-2:]] == kept[-2:]
    model.close()
