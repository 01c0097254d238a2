"""Queries on logs that brokers wrote, opened for reading; and none of them changes a file."""

from __future__ import annotations

import shutil
import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

import kafkalog
from kafkalog import IsolationLevel, Log, LogManager
from kafkalog.attributes import TimestampType
from kafkalog.record.control import ControlRecordType, control_type
from kafkalog.record.serialization import deserialize_bytes, deserialize_text
from kafkalog.storage.file_names import HIGH_WATERMARK_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT
from tests.helpers import golden
from tests.helpers.golden import Partition
from tests.helpers.logs import NOW, append, batch, fill, opened, replicated, seen
from tests.helpers.making import ABORT, marker
from tests.helpers.partitions import sampled_archive, sampled_of_all_partitions

EARLIEST, LATEST, LARGEST, EARLIEST_LOCAL, TIERED, PENDING = -2, -1, -3, -4, -5, -6
PIECE = 4096


def state(directory: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a directory that a reader could have changed."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [directory, *directory.rglob("*")]:
        status = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode, content)
    return found


def distinct_isolations(log: Log) -> list[IsolationLevel]:
    """Return the isolations that may differ: most brokers' logs are replicated to their end."""
    replicated = log.high_watermark == log.log_end_offset
    return [each for each in IsolationLevel if not (replicated and each is IsolationLevel.HIGH_WATERMARK)]


def offsets_of(log: Log, isolation: IsolationLevel) -> list[int]:
    return [offset for columns in log.columns(isolation=isolation) for offset in columns.offset.tolist()]


# --- counting


@sampled_of_all_partitions
def test_counts_equal_the_numbers_of_records_for_every_isolation_and_range(partition: Partition) -> None:
    with kafkalog.open(partition.directory) as log:
        end = log.log_end_offset
        cuts = sorted({end // 3, end // 2 + 1, end + 9, log.log_start_offset})
        ranges = [*combinations_with_replacement(cuts, 2), (end, end // 2)]
        for isolation in distinct_isolations(log):
            offsets = offsets_of(log, isolation)
            assert log.count(isolation=isolation) == len(offsets)
            for first, last in ranges:
                expected = bisect_left(offsets, last) - bisect_left(offsets, first)
                assert log.count(first, last, isolation=isolation) == max(0, expected)


@sampled_of_all_partitions
def test_unreplicated_records_are_counted(partition: Partition) -> None:
    with kafkalog.open(partition.directory) as log:
        behind = log.count(log.high_watermark, log.log_end_offset)
        assert behind == len(list(log.records(log.high_watermark, log.log_end_offset)))


# --- reading as a consumer does


def fetched(log: Log, isolation: IsolationLevel) -> Iterator[int]:
    """The offsets that a consumer gets by fetching a few kilobytes at a time."""
    at = log.log_start_offset
    while True:
        found = log.read(at, PIECE, isolation, min_one_message=True)
        if not found.message_set.size_in_bytes:
            return
        waiting = sorted(found.aborted_transactions or (), key=lambda each: each.first_offset)
        aborted: set[int] = set()
        for each in found.message_set.batches():
            while waiting and waiting[0].first_offset <= each.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if each.is_control:
                kinds = [control_type(record.key)[0] for record in each]
                if kinds == [ControlRecordType.ABORT]:
                    aborted.discard(each.producer_id)
            elif not (each.is_transactional and each.producer_id in aborted):
                yield from (record.offset for record in each if record.offset >= at)
            end = each.last_offset + 1
        assert end > at, "a fetch returns no further record"
        at = end


@sampled_of_all_partitions
def test_consecutive_fetches_yield_every_record_for_every_isolation(partition: Partition) -> None:
    with kafkalog.open(partition.directory) as log:
        bounds = {
            IsolationLevel.LOG_END: log.log_end_offset,
            IsolationLevel.HIGH_WATERMARK: log.high_watermark,
            IsolationLevel.TXN_COMMITTED: log.last_stable_offset,
        }
        for isolation in distinct_isolations(log):
            found = list(fetched(log, isolation))
            assert found == offsets_of(log, isolation)
            assert all(offset < bounds[isolation] for offset in found)


@sampled_of_all_partitions
def test_any_offset_is_read_from_the_batch_that_holds_it(partition: Partition) -> None:
    with kafkalog.open(partition.directory) as log:
        batches = list(log.batches())
        for each in batches[:: max(1, len(batches) // 40)]:
            start = max(each.last_offset, log.log_start_offset)
            found = log.read(start, PIECE, min_one_message=True)
            first = next(found.message_set.batches())
            assert (first.last_offset, first.checksum) == (each.last_offset, each.checksum)
            assert found.fetch_offset_metadata.relative_position_in_segment == each.position


# --- by time


@sampled_of_all_partitions
def test_special_timestamps_lead_to_the_ends_of_the_log_and_its_latest_record(partition: Partition) -> None:
    with kafkalog.open(partition.directory) as log:
        for special in (EARLIEST, EARLIEST_LOCAL):
            found = log.offset_for_timestamp(special)
            assert found is not None
            assert (found.timestamp, found.offset) == (-1, log.log_start_offset)
        latest = log.offset_for_timestamp(LATEST)
        assert latest is not None
        assert (latest.timestamp, latest.offset, latest.leader_epoch) == (
            -1,
            log.log_end_offset,
            log.leader_epochs.latest_epoch,
        )
        assert log.offset_for_timestamp(TIERED) == log.offset_for_timestamp(PENDING) == (-1, -1, -1)


@sampled_of_all_partitions
def test_the_latest_record_is_the_first_of_the_largest_timestamp(partition: Partition) -> None:
    with kafkalog.open(partition.directory) as log:
        if partition.archive == "kafka-0.8.2":
            assert log.offset_for_timestamp(LARGEST) is None
            return
        stamped = [
            (record.timestamp, record.offset)
            for each in log.batches()
            for record in each
            if each.timestamp_type is not TimestampType.NO_TIMESTAMP_TYPE
        ]
        found = log.offset_for_timestamp(LARGEST)
        if not stamped:
            assert found is None
            return
        assert found is not None
        largest = max(at for at, _ in stamped)
        assert (found.timestamp, found.offset) == (largest, min(offset for at, offset in stamped if at == largest))


@sampled_of_all_partitions
def test_a_time_leads_to_the_first_record_as_late(partition: Partition) -> None:
    with kafkalog.open(partition.directory) as log:
        records = [(record.timestamp, record.offset) for each in log.batches() for record in each]
        records = [record for record in records if record[1] >= log.log_start_offset]
        for at in sorted({at for at, _ in records if at >= 0})[:: max(1, len(records) // 20)]:
            found = log.offset_for_timestamp(at)
            assert found is not None
            assert (found.timestamp, found.offset) == next(record for record in records if record[0] >= at)


# --- nothing is changed


@sampled_archive
def test_reading_and_querying_changes_no_file(golden_logs: Path, archive: str) -> None:
    data_dir = golden_logs / archive / "data"
    before = state(data_dir)
    with LogManager(data_dir) as manager:
        for log in manager.values():
            _ask_everything(log)
    assert state(data_dir) == before


def _ask_everything(log: Log) -> None:
    for isolation in IsolationLevel:
        log.read(log.log_start_offset, PIECE, isolation)
        log.count(isolation=isolation)
    sum(1 for _ in log.records(isolation=IsolationLevel.TXN_COMMITTED, key_deserializer=deserialize_bytes))
    sum(1 for _ in log.batches())
    sum(len(columns) for columns in log.columns(isolation=IsolationLevel.HIGH_WATERMARK))
    for special in (EARLIEST, LATEST, LARGEST, EARLIEST_LOCAL, TIERED, PENDING, 0, NOW):
        log.offset_for_timestamp(special)
    _ = log.high_watermark, log.high_watermark_metadata, log.last_stable_offset, log.recovery_point, log.size_in_bytes
    _ = log.leader_epochs.entries, log.producer_state.active_producers
    for segment in log.segments:
        _ = segment.offset_index.entries, segment.time_index.entries, list(segment.txn_index)


def test_a_crashed_brokers_directory_is_read_without_write_permission(tmp_path: Path) -> None:
    source = next(each for each in golden.partitions() if each.id == "kafka-3.9-crash/v2-txn-0")
    data_dir = tmp_path / "data"
    shutil.copytree(source.directory.parent, data_dir)
    for path in [*data_dir.rglob("*"), data_dir]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        before = state(data_dir)
        with kafkalog.open(data_dir / source.directory.name) as log:
            _ask_everything(log)
        assert state(data_dir) == before
    finally:
        for path in [data_dir, *data_dir.rglob("*")]:
            path.chmod(0o755)


# --- watermarks


def checkpoint(directory: Path, name: str, offset: int) -> None:
    (directory.parent / name).write_text(f"0\n1\n{directory.name[:-2]} 0 {offset}\n")


@pytest.mark.parametrize(("written", "expected"), [(None, 10), (7, 7), (0, 2), (2, 2), (10, 10), (99, 10)], ids=str)
def test_the_high_watermark_is_the_checkpoints_limited_to_the_log(
    tmp_path: Path, written: int | None, expected: int
) -> None:
    directory = tmp_path / "topic-0"
    with opened(directory) as log:
        fill(log, 10)
        log.close()
    checkpoint(directory, LOG_START_OFFSET_CHECKPOINT, 2)
    if written is not None:
        checkpoint(directory, HIGH_WATERMARK_CHECKPOINT, written)
    before = state(tmp_path)
    with kafkalog.open(directory) as reader:
        assert (reader.log_start_offset, reader.high_watermark, reader.log_end_offset) == (2, expected, 10)
        assert seen(reader, 2, IsolationLevel.HIGH_WATERMARK) == list(range(2, expected))
        assert reader.last_stable_offset == expected
        assert reader.high_watermark_metadata.relative_position_in_segment == expected * batch(b"0").size_in_bytes
    assert state(tmp_path) == before


@pytest.mark.parametrize(("mark", "stable"), [(1, 1), (2, 2), (4, 2), (5, 2), (6, 6), (7, 7)])
def test_a_transaction_is_stable_to_a_reader_when_the_high_watermark_has_passed_its_marker(
    tmp_path: Path, mark: int, stable: int
) -> None:
    directory = tmp_path / "topic-0"
    with opened(directory) as log:
        fill(log, 2)
        for sequence in range(3):
            append(log, b"v", producer_id=1, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        log.append_as_follower(marker(5, ABORT, 1, timestamp=NOW, partition_leader_epoch=0))
        fill(log, 1)
        log.abandon()
    checkpoint(directory, HIGH_WATERMARK_CHECKPOINT, mark)
    with kafkalog.open(directory) as reader:
        assert (reader.high_watermark, reader.last_stable_offset) == (mark, stable)
        committed = [record.offset for record in reader.records(isolation=IsolationLevel.TXN_COMMITTED)]
        assert committed == [offset for offset in (0, 1, 6) if offset < stable]
        assert reader.count(isolation=IsolationLevel.TXN_COMMITTED) == len(committed)


def test_a_reader_follows_the_watermarks_that_a_writer_checkpoints(tmp_path: Path) -> None:
    with LogManager(tmp_path, "a") as manager, LogManager(tmp_path) as reading:
        log = manager.create("topic-0")
        fill(log, 4, timestamp=time.time_ns() // 1_000_000)
        reader = reading["topic-0"]
        for mark in (1, 3):
            log.update_high_watermark(mark)
            manager.checkpoint()
            assert (reader.high_watermark, reader.count(isolation=IsolationLevel.HIGH_WATERMARK)) == (mark, mark)
        replicated(log)
        text = [record.value for record in reader.records(value_deserializer=deserialize_text)]
        assert text == ["0", "1", "2", "3"]
