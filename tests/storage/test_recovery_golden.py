"""Directories of real brokers, loaded: those copied while a broker was running, and closed ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkalog.storage.log_config import LogConfig
from tests.helpers.golden import Partition, partitions, unpacked
from tests.helpers.partition_dirs import Opened, bytes_of, copy_of, loaded, log_file, names

CONFIG = LogConfig(segment_index_bytes=65536)
NOW = 1_750_000_000_000
CRASHED = [each for each in partitions() if each.archive.endswith("-crash")]
CLOSED = [each for each in partitions() if not each.archive.endswith("-crash") and each.directory.name[:2] != "__"]


def by_id(cases: list[Partition]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("partition", cases, ids=[each.id for each in cases])


def offsets_of(opened: Opened) -> list[list[int]]:
    return [
        [record.offset for batch in segment.log.batches() for record in batch] for segment in opened.log.segments.values
    ]


def expected_offsets(partition: Partition) -> list[list[int]]:
    return [[record[0] for batch in each.batches() for record in batch["records"]] for each in partition.segments]


@by_id(CRASHED)
def test_recovery_keeps_every_batch_of_a_crashed_brokers_log(partition: Partition, tmp_path: Path) -> None:
    directory = copy_of(partition.directory, tmp_path / partition.directory.name)
    before = bytes_of(directory, ".log")
    with loaded(directory, config=CONFIG, now=NOW) as opened:
        assert offsets_of(opened) == expected_offsets(partition)
        assert opened.end_offset == partition.segments[-1].batches()[-1]["last_offset"] + 1
    assert bytes_of(directory, ".log") == before


@by_id(CRASHED)
def test_recovery_removes_empty_entries_from_the_active_segments_indexes(partition: Partition, tmp_path: Path) -> None:
    directory = copy_of(partition.directory, tmp_path / partition.directory.name)
    with loaded(directory, config=CONFIG, now=NOW) as opened:
        active = opened.log.segments.active
        assert not active.offset_index.is_full
        assert active.offset_index.entries < 10
        largest = max(batch.max_timestamp for batch in active.log.batches())
        assert active.time_index.last_entry.timestamp == largest
        active.close()
    assert log_file(directory, active.base_offset, ".index").stat().st_size < 1000


@by_id(CRASHED + CLOSED)
def test_every_rebuilt_index_entry_points_at_its_batch(partition: Partition, tmp_path: Path) -> None:
    directory = copy_of(partition.directory, tmp_path / partition.directory.name)
    for name in names(directory, "index"):
        (directory / name).unlink()
    with loaded(directory, config=LogConfig(segment_index_bytes=65536, index_interval_bytes=500), now=NOW) as opened:
        for segment in opened.log.segments.values:
            last_offsets = {batch.position: batch.last_offset for batch in segment.log.batches()}
            assert [last_offsets[entry.position] for entry in segment.offset_index] == [
                entry.offset for entry in segment.offset_index
            ]
            assert segment.offset_index.entries >= (segment.size_in_bytes > 50_000)


@by_id(CLOSED)
def test_loading_a_log_closed_by_a_broker_changes_no_file(partition: Partition, tmp_path: Path) -> None:
    directory = copy_of(partition.directory, tmp_path / partition.directory.name)
    before = bytes_of(directory, ".log", "index")
    with loaded(directory, config=CONFIG, now=NOW, clean=True) as opened:
        assert offsets_of(opened) == expected_offsets(partition)
        opened.log.segments.close()
    after = bytes_of(directory)
    assert {name: after[name] for name in before} == before


def test_a_log_closed_by_a_broker_ends_at_the_offset_the_broker_reported(tmp_path: Path) -> None:
    view = json.loads((unpacked() / "kafka-3.9" / "expected" / "broker-view.json").read_text())
    # After it was closed, a marker ended the transaction that had been left open.
    markers_since = {"v2-txn": 1}
    for topic, seen in view.items():
        directory = copy_of(unpacked() / "kafka-3.9" / "data" / f"{topic}-0", tmp_path / f"{topic}-0")
        for clean in (True, False):
            with loaded(directory, config=CONFIG, now=NOW, clean=clean, log_start=int(seen["low"])) as opened:
                assert opened.end_offset == int(seen["end_read_uncommitted"]) - markers_since.get(topic, 0), topic
                assert opened.log_start_offset == int(seen["low"])
