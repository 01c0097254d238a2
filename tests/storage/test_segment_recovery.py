"""Recovery of a segment: it rebuilds the indexes and removes damage, as Kafka's own tests and files show."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from kafkalog import FileMessageSet
from kafkalog.errors import InvalidOffsetError, SegmentOffsetOverflowError
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.index.transaction_index import AbortedTxn
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_entry import ProducerStateEntry
from kafkalog.storage.recovery.recover_segment import recover_segment
from kafkalog.storage.segment.log_segment import LogSegment
from tests.helpers import golden
from tests.helpers.making import ABORT, COMMIT, append, batch, fill, marker, offsets, producers, segment
from tests.helpers.partitions import sampled_of_all_partitions
from tests.reference.encode import V2Batch, records

MAX_INT = 2**31 - 1


def recover(made: LogSegment) -> int:
    return recover_segment(made, producers(made.path.parent), None)


def garbage(path: Path, position: int = 0) -> None:
    size = path.stat().st_size - position
    with path.open("r+b") as file:
        file.seek(position)
        file.write(random.Random(size).randbytes(size))


def test_recovery_mends_an_offset_index_of_garbage(tmp_path: Path) -> None:
    made = segment(tmp_path, 0)
    fill(made, range(100))
    made.close()
    garbage(tmp_path / "00000000000000000000.index")
    made = segment(tmp_path, 0, file_already_exists=True)
    assert recover(made) == 0
    assert [offsets(made.read(offset, 1, min_one_message=True)) for offset in range(100)] == [[i] for i in range(100)]
    made.close()


def test_recovery_mends_a_time_index_of_garbage(tmp_path: Path) -> None:
    made = segment(tmp_path, 0)
    fill(made, range(100))
    made.close()
    garbage(tmp_path / "00000000000000000000.timeindex")
    made = segment(tmp_path, 0, file_already_exists=True)
    assert recover(made) == 0
    for offset in range(100):
        for timestamp in (offset * 10, offset * 10 - 9):
            found = made.find_offset_by_timestamp(timestamp)
            assert found is not None
            assert found.offset == offset
    made.close()


def test_recovery_keeps_what_comes_before_a_damaged_message(tmp_path: Path) -> None:
    draw = random.Random(7)
    for broken in (0, 49, *(draw.randrange(50) for _ in range(8))):
        directory = tmp_path / str(draw.random())
        directory.mkdir()
        made = segment(directory, 0, LogConfig(index_interval_bytes=10, segment_index_bytes=2000))
        fill(made, range(50))
        made.close()
        garbage(directory / "00000000000000000000.log", broken * 39 + draw.randrange(15))
        made = segment(directory, 0, file_already_exists=True)
        assert recover(made) == (50 - broken) * 39
        assert [record.offset for record in made.log] == list(range(broken))
        assert made.read_next_offset() == broken
        # One message in two: the interval is smaller than a message, and the first is never indexed.
        assert list(made.offset_index) == [(i, i * 39) for i in range(1, broken)]
        made.close()


@pytest.mark.parametrize("tail", [bytes(4096), bytes(batch(3).buffer[:-1]), bytes(5)])
def test_recovery_cuts_off_a_tail_that_is_no_batch(tmp_path: Path, tail: bytes) -> None:
    made = segment(tmp_path, 0)
    fill(made, range(3))
    made.close()
    with made.path.open("ab") as file:
        file.write(tail)
    made = segment(tmp_path, 0, file_already_exists=True)
    assert recover(made) == len(tail)
    assert made.size == 3 * 39
    fill(made, range(3, 4), magic=1)
    assert [record.offset for record in made.log] == [0, 1, 2, 3]
    made.close()


def test_recovery_cuts_off_what_was_preallocated_and_not_used(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, LogConfig(segment_bytes=10_000, preallocate=True, segment_index_bytes=1000))
    fill(made, range(3))
    made.release()
    assert made.path.stat().st_size == 10_000
    made = segment(tmp_path, 0, file_already_exists=True)
    assert recover(made) == 10_000 - 3 * 39
    assert made.path.stat().st_size == 3 * 39
    made.close()


def test_recovery_of_a_sound_segment_does_not_write_its_log_file(tmp_path: Path) -> None:
    made = segment(tmp_path, 0)
    fill(made, range(3))
    made.close()
    before = made.path.stat().st_mtime_ns
    made = segment(tmp_path, 0, file_already_exists=True)
    made.seal()
    recover(made)
    assert made.path.stat().st_mtime_ns == before
    made.close()


def test_recovery_makes_indexes_of_a_sealed_segment_that_has_none(tmp_path: Path) -> None:
    made = segment(tmp_path, 0)
    made.log.append(batch(0))
    made.release()
    made = segment(tmp_path, 0, file_already_exists=True)
    made.seal()
    assert list(made.time_index) == []
    recover(made)
    assert list(made.time_index) == [(0, 0)]
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".index", ".log", ".timeindex"]
    assert made.sealed
    made.close()


def test_recovery_finds_aborted_transactions(tmp_path: Path) -> None:
    made = segment(tmp_path, 100)
    transactions(made)
    state = producers(tmp_path)
    recover_segment(made, state, None)
    assert state.map_end_offset == 108
    assert list(made.txn_index) == [AbortedTxn(22, 102, 106, 100)]
    made.close()


def test_recovery_counts_a_transaction_from_where_the_state_before_the_segment_says(tmp_path: Path) -> None:
    made = segment(tmp_path, 100)
    transactions(made)
    state = producers(tmp_path)
    state.load_producer_entry(ProducerStateEntry(22, producer_epoch=0, current_txn_first_offset=75))
    recover_segment(made, state, None)
    assert list(made.txn_index) == [AbortedTxn(22, 75, 106, 100)]
    assert made.txn_index.collect_aborted_txns(80, 101).aborted_txns == [AbortedTxn(22, 75, 106, 100)]
    made.close()


def transactions(made: LogSegment) -> None:
    """Two that overlap, and records that belong to none."""
    options = {"magic": 2, "is_transactional": True, "producer_epoch": 0, "base_sequence": 0}
    append(made, batch(100, b"a", b"b", producer_id=11, **options), batch(102, b"a", b"b", producer_id=22, **options))
    append(made, batch(104, b"a", b"b", magic=2), marker(106, ABORT, 22), marker(107, COMMIT, 11))


def test_recovery_finds_the_leader_epochs(tmp_path: Path) -> None:
    made = segment(tmp_path, 0)
    for offset, epoch in ((104, 0), (106, 1), (108, 1), (110, 2)):
        append(made, batch(offset, b"a", b"b", magic=2, partition_leader_epoch=epoch))
    cache = LeaderEpochCache(tmp_path / "leader-epoch-checkpoint")
    recover_segment(made, producers(tmp_path), cache)
    assert list(cache.entries) == [(0, 104), (1, 106), (2, 110)]
    made.close()


def test_recovery_stops_at_an_offset_the_indexes_cannot_hold(tmp_path: Path) -> None:
    made = segment(tmp_path, 0)
    made.log.append(batch(5))
    made.log.append(batch(MAX_INT + 6))
    with pytest.raises(SegmentOffsetOverflowError) as caught:
        recover(made)
    assert (caught.value.position, caught.value.found) == (39, MAX_INT + 6)
    made.close()


def test_recovery_stops_at_offsets_that_do_not_rise(tmp_path: Path) -> None:
    made = segment(tmp_path, 0)
    for offset in (0, 7, 6):
        made.log.append(batch(offset))
    with pytest.raises(InvalidOffsetError):
        recover(made)
    assert made.truncate_to(0) == 3 * 39
    made.close()


def test_recovery_leaves_what_appending_left(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=200, segment_index_bytes=4000)
    draw = random.Random(7)
    made = segment(tmp_path, 0, config)
    end = 0
    for _ in range(60):
        count = draw.randrange(1, 4)
        append(made, batch(end, *[bytes(draw.randrange(90))] * count, magic=2, timestamp=draw.randrange(10_000)))
        end += count
    made.on_become_inactive_segment()
    made.flush()
    names = ("index", "timeindex")
    before = [(tmp_path / f"{0:020d}.{name}").read_bytes() for name in names]
    largest = made.max_timestamp_and_offset_so_far
    recover(made)
    assert [(tmp_path / f"{0:020d}.{name}").read_bytes() for name in names] == before
    assert made.max_timestamp_and_offset_so_far == largest
    made.close()


def test_appends_after_recovery_count_the_bytes_to_the_next_entry_from_there(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, LogConfig(index_interval_bytes=100, segment_index_bytes=1000))
    fill(made, range(5))
    recover(made)
    made.resize_indexes(1000)
    assert list(made.offset_index) == [(3, 117)]
    made.close()


@sampled_of_all_partitions
def test_indexes_rebuilt_from_a_brokers_log_lead_to_its_batches(tmp_path: Path, partition: golden.Partition) -> None:
    state = producers(tmp_path)
    for path in sorted(partition.directory.glob("*.log")):
        shutil.copy(path, tmp_path)
        base = segment_base_offset(path.name)
        assert base is not None
        made = segment(tmp_path, base, LogConfig(index_interval_bytes=512), file_already_exists=True)
        cut = recover_segment(made, state, None)
        with FileMessageSet(made.path) as log:
            rows = log.headers()
        assert made.size == path.stat().st_size - cut == int(rows["size_in_bytes"].sum())
        assert_entries_lead_to_batches(made, rows)
        assert_every_batch_is_found(made, rows)
        made.close()


def assert_entries_lead_to_batches(made: LogSegment, rows: np.ndarray) -> None:
    places = dict(zip(rows["position"].tolist(), rows["last_offset"].tolist(), strict=True))
    assert all(places[entry.position] == entry.offset for entry in made.offset_index)
    positions = [entry.position for entry in made.offset_index]
    assert all(after - before > 512 for before, after in zip([0, *positions], positions, strict=False))
    timestamps = dict(zip(rows["last_offset"].tolist(), rows["max_timestamp"].tolist(), strict=True))
    assert all(timestamps[entry.offset] == entry.timestamp for entry in made.time_index)
    assert made.largest_record_timestamp == (
        max(timestamps.values(), default=-1) if max(timestamps.values(), default=-1) >= 0 else None
    )


def assert_every_batch_is_found(made: LogSegment, rows: np.ndarray) -> None:
    for row in rows[:: max(1, len(rows) // 50)]:
        found = made.read(int(row["last_offset"]), 1)
        assert found is not None
        place = found.fetch_offset_metadata
        assert (place.segment_base_offset, place.relative_position_in_segment) == (
            made.base_offset,
            int(row["position"]),
        )
        if row["base_offset"] >= 0:
            assert place == LogOffsetMetadata(int(row["base_offset"]), made.base_offset, int(row["position"]))


def test_sound_runs_are_all_entries_whatever_their_sizes_and_where_a_read_cuts_them(tmp_path: Path) -> None:
    sizes = [100, 400_000, 3_000_000, 700_000, 700_000, *[5000] * 300, 1_100_000, 10]
    data = [V2Batch(records(bytes(size), offset=offset)).encoded() for offset, size in enumerate(sizes)]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(data) + b"\0" * 7)
    with FileMessageSet(path) as messages:
        runs = list(messages.sound_runs())
        assert np.array_equal(np.concatenate([run.rows for run in runs]), messages.headers())
    entries = [
        bytes(run.view[at - run.position : at - run.position + size])
        for run in runs
        for at, size in zip(run.rows["position"].tolist(), run.rows["size_in_bytes"].tolist(), strict=True)
    ]
    assert entries == data
