"""Snapshots of the producer state: when they are written, loaded and deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.errors import OutOfOrderSequenceError
from kafkalog.storage.producer.producer_snapshot import read_snapshot, write_snapshot
from kafkalog.storage.producer.producer_state_entry import BatchMetadata, ProducerStateEntry
from tests.helpers.producers import DAY_MS, NOW, REPLICATION, Producers

CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(37),
    "zeroed within": lambda data: data[:20] + bytes(8) + data[28:],
    "wrong CRC": lambda data: data[:2] + b"\1\2\3\4" + data[6:],
}


@pytest.fixture
def producers(tmp_path: Path) -> Producers:
    return Producers(tmp_path)


def snapshot_at(producers: Producers, *offsets: int) -> None:
    """Take snapshots at these offsets, after a batch of producer 1 before each."""
    for offset in offsets:
        known = producers.manager.last_entry(1)
        producers.data(1, 0, known.last_seq + 1 if known else 0, offset - 1)
        producers.manager.take_snapshot()


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


# --- writing


def test_a_snapshot_is_named_for_the_offset_up_to_which_it_knows_the_log(producers: Producers) -> None:
    producers.data(1, 0, 0)
    producers.data(1, 0, 1, count=4)
    path = producers.manager.take_snapshot()
    assert path == producers.directory / "00000000000000000005.snapshot"
    assert read_snapshot(path) == [ProducerStateEntry(1, 0, -1, NOW, None, (BatchMetadata(4, 4, 3, NOW),))]


def test_no_snapshot_is_written_where_the_log_has_not_grown(producers: Producers) -> None:
    assert producers.manager.take_snapshot() is None
    producers.data(1, 0, 0)
    assert producers.manager.take_snapshot(sync=False) is not None
    assert producers.manager.take_snapshot() is None
    producers.manager.update_map_end_offset(2)
    assert producers.manager.take_snapshot() is not None
    assert producers.snapshots == [1, 2]


def test_a_log_without_producers_has_a_snapshot_too(producers: Producers) -> None:
    producers.manager.update_map_end_offset(7)
    path = producers.manager.take_snapshot()
    assert path is not None
    assert path.stat().st_size == 10


# --- loading


def test_after_loading_the_next_sequence_follows(producers: Producers) -> None:
    producers.data(1, 0, 0)
    producers.data(1, 0, 1)
    producers.manager.take_snapshot()
    loaded = producers.reopened(0, 3)
    assert loaded.manager.map_end_offset == 2
    with pytest.raises(OutOfOrderSequenceError):
        loaded.data(1, 0, 3)
    loaded.data(1, 0, 2, 2)


def test_an_open_transaction_is_loaded_with_its_last_batch(producers: Producers) -> None:
    producers.data(1, 0, 0, transactional=True)
    producers.data(1, 0, 1, transactional=True)
    producers.manager.take_snapshot()
    loaded = producers.reopened(0, 3)
    entry = loaded.entry(1)
    assert entry.batch_metadata == (BatchMetadata(1, 1, 0, NOW),)
    assert (entry.current_txn_first_offset, loaded.unstable) == (0, 0)
    loaded.data(1, 0, 2, 2, transactional=True)
    assert [batch.last_seq for batch in loaded.entry(1).batch_metadata] == [1, 2]


def test_a_finished_transaction_is_loaded_as_finished(producers: Producers) -> None:
    producers.data(1, 0, 0, transactional=True)
    producers.marker(1, 0)
    producers.manager.take_snapshot()
    loaded = producers.reopened(0, 2)
    assert (loaded.unstable, loaded.entry(1).coordinator_epoch) == (None, 0)
    assert loaded.entry(1).batch_metadata == (BatchMetadata(0, 0, 0, NOW),)


def test_producers_expired_after_a_day_are_not_loaded(producers: Producers) -> None:
    producers.data(1, 0, 0)
    producers.data(2, 0, 0, transactional=True)
    producers.data(3, 0, 0, max_timestamp=NOW + 1)
    producers.manager.take_snapshot()
    assert [*producers.reopened(0, 3, now=NOW + DAY_MS).manager.active_producers] == [2, 3]
    patient = producers.reopened(0, 3, now=NOW + DAY_MS, producer_id_expiration_ms=DAY_MS + 1)
    assert [*patient.manager.active_producers] == [1, 2, 3]


def test_no_snapshot_is_loaded_if_the_state_ends_at_the_log_end(producers: Producers) -> None:
    snapshot_at(producers, 1)
    producers.data(2, 0, 0)
    producers.manager.truncate_and_reload(0, 2, NOW)
    assert [*producers.manager.active_producers] == [1, 2]


def test_truncation_forgets_what_came_after_the_newest_snapshot_left(producers: Producers) -> None:
    snapshot_at(producers, 1)
    producers.data(1, 0, 1)
    producers.data(2, 0, 0)
    producers.manager.truncate_and_reload(0, 2, NOW)
    assert producers.manager.map_end_offset == 1
    assert producers.entry(1).last_seq == 0
    assert producers.manager.last_entry(2) is None


def test_without_a_snapshot_the_log_must_be_read_from_its_start(producers: Producers) -> None:
    producers.data(1, 0, 0, 5)
    producers.manager.truncate_and_reload(3, 10, NOW)
    assert (producers.manager.map_end_offset, producers.manager.is_empty) == (3, True)


def test_a_transaction_that_loading_finds_open_again_is_unstable_again(producers: Producers) -> None:
    producers.data(1, 0, 0, 99, transactional=True)
    producers.manager.take_snapshot()
    producers.marker(1, 0, 105)
    producers.manager.on_high_watermark_updated(106)
    producers.manager.take_snapshot()
    unstable = []
    for end_offset in (106, 100):
        producers.manager.truncate_and_reload(0, end_offset, NOW)
        unstable.append((producers.unstable, producers.manager.first_undecided_offset))
    assert unstable == [(None, None), (99, 99)]


def test_a_finished_transaction_that_truncation_removes_is_not_unstable(producers: Producers) -> None:
    producers.manager.update_map_end_offset(1)
    producers.manager.take_snapshot()
    producers.data(1, 0, 0, 99, transactional=True)
    producers.marker(1, 0, 105)
    unstable = [producers.unstable]
    producers.manager.truncate_and_reload(0, 50, NOW)
    assert [*unstable, producers.unstable] == [99, None]
    assert producers.manager.is_empty


# --- corrupt snapshots


@pytest.mark.parametrize("damage", CORRUPTIONS.values(), ids=CORRUPTIONS)
def test_a_corrupt_snapshot_is_deleted_and_the_older_one_loaded(
    producers: Producers, damage: Callable[[bytes], bytes]
) -> None:
    snapshot_at(producers, 1, 2)
    newest = producers.directory / "00000000000000000002.snapshot"
    newest.write_bytes(damage(newest.read_bytes()))
    loaded = producers.reopened(0, 2)
    assert (loaded.manager.map_end_offset, loaded.entry(1).last_seq) == (1, 0)
    assert producers.snapshots == [1]


def test_if_every_snapshot_is_corrupt_the_log_is_read_from_its_start(producers: Producers) -> None:
    snapshot_at(producers, 1, 2, 3)
    for path in producers.directory.glob("*.snapshot"):
        path.write_bytes(b"")
    loaded = producers.reopened(0, 3)
    assert (loaded.manager.map_end_offset, loaded.manager.is_empty, producers.snapshots) == (0, True, [])
    loaded.manager.update_map_end_offset(3)
    assert loaded.manager.take_snapshot() is not None


def test_a_snapshot_deleted_by_another_program_is_skipped(producers: Producers) -> None:
    snapshot_at(producers, 1, 2)
    other = Producers(producers.directory)
    (producers.directory / "00000000000000000002.snapshot").unlink()
    other.manager.truncate_and_reload(0, 2, NOW)
    assert other.manager.map_end_offset == 1


# --- deleting


def test_snapshots_up_to_the_log_start_and_beyond_the_log_end_are_deleted(producers: Producers) -> None:
    snapshot_at(producers, 1, 2, 3, 4, 5)
    producers.manager.truncate_and_reload(1, 3, NOW)
    assert producers.snapshots == [2, 3]
    assert (producers.manager.oldest_snapshot_offset, producers.manager.latest_snapshot_offset) == (2, 3)


def test_truncating_fully_deletes_all_snapshots_and_forgets_everything(producers: Producers) -> None:
    snapshot_at(producers, 1)
    producers.data(1, 0, 1, transactional=True)
    producers.manager.take_snapshot()
    producers.manager.truncate_fully_and_start_at(100)
    assert (producers.snapshots, producers.unstable, producers.manager.is_empty) == ([], None, True)
    assert producers.manager.map_end_offset == 100
    assert producers.manager.latest_snapshot_offset is None
    assert producers.manager.take_snapshot() is not None


def test_a_log_that_begins_anew_before_its_last_snapshot_writes_snapshots_again(producers: Producers) -> None:
    snapshot_at(producers, 50)
    producers.manager.truncate_fully_and_start_at(10)
    assert producers.manager.take_snapshot() is not None
    assert producers.snapshots == [10]


@pytest.mark.parametrize(
    ("bases", "found", "left"),
    [
        ([5], [2, 5, 42], [5, 42]),
        ([42], [2, 5, 42], [42]),
        ([0, 1, 2], [1, 2, 3, 4], [1, 2, 4]),
        ([0, 10], [5], []),
        ([0, 10], [10], [10]),
        ([], [2, 5], [5]),
        ([7], [], []),
    ],
)
def test_stray_snapshots_are_deleted_except_one_newer_than_all_segments(
    tmp_path: Path, bases: list[int], found: list[int], left: list[int]
) -> None:
    producers = Producers(tmp_path)
    for offset in found:
        write_snapshot(tmp_path / f"{offset:020}.snapshot", [])
    producers.manager.remove_stray_snapshots(bases)
    assert producers.snapshots == left
    assert producers.manager.latest_snapshot_offset == max(left, default=None)


def test_a_snapshot_renamed_for_deletion_is_no_longer_listed(producers: Producers) -> None:
    snapshot_at(producers, 1, 2)
    marked = producers.manager.remove_and_mark_for_deletion(1)
    assert marked == producers.directory / "00000000000000000001.snapshot.deleted"
    assert marked.exists()
    assert (producers.snapshots, producers.manager.oldest_snapshot_offset) == ([2], 2)
    assert producers.manager.remove_and_mark_for_deletion(1) is None


def test_renaming_a_missing_snapshot_for_deletion_does_nothing(producers: Producers) -> None:
    snapshot_at(producers, 1)
    (producers.directory / "00000000000000000001.snapshot").unlink()
    assert producers.manager.remove_and_mark_for_deletion(1) is None
    assert producers.manager.latest_snapshot_offset is None


def test_deleting_a_missing_snapshot_does_nothing(producers: Producers) -> None:
    snapshot_at(producers, 1)
    producers.manager.remove_and_delete_snapshot(7)
    (producers.directory / "00000000000000000001.snapshot").unlink()
    producers.manager.remove_and_delete_snapshot(1)
    assert producers.manager.latest_snapshot_offset is None


def test_reload_snapshots_finds_snapshots_written_by_others(producers: Producers) -> None:
    write_snapshot(producers.directory / "00000000000000000009.snapshot", [])
    assert producers.manager.latest_snapshot_offset is None
    producers.manager.reload_snapshots()
    assert producers.manager.latest_snapshot_offset == 9


def test_no_snapshot_is_written_at_a_log_start_that_passed_all_snapshots(producers: Producers) -> None:
    snapshot_at(producers, 2)
    producers.manager.remove_and_delete_snapshot(2)
    producers.manager.on_log_start_offset_incremented(5)
    assert producers.manager.take_snapshot() is None
    producers.data(1, 0, 0, 5, origin=REPLICATION)
    assert producers.manager.take_snapshot() is not None


# --- a log that is only read


def test_a_reader_skips_corrupt_snapshots_and_changes_no_file(producers: Producers) -> None:
    snapshot_at(producers, 1, 2, 3)
    (producers.directory / "00000000000000000003.snapshot").write_bytes(bytes(37))
    before = files(producers.directory)
    loaded = producers.reopened(0, 3, writable=False)
    assert (loaded.manager.map_end_offset, loaded.entry(1).last_seq) == (2, 1)
    loaded.data(1, 0, 2, 2)
    assert loaded.manager.take_snapshot() is None
    loaded.manager.remove_and_delete_snapshot(1)
    assert loaded.manager.remove_and_mark_for_deletion(2) is None
    loaded.manager.remove_stray_snapshots([0])
    loaded.manager.truncate_and_reload(0, 1, NOW)
    loaded.manager.truncate_fully_and_start_at(0)
    assert files(producers.directory) == before


def test_a_reader_accepts_a_missing_directory(tmp_path: Path) -> None:
    producers = Producers(tmp_path / "missing", writable=False)
    producers.manager.truncate_and_reload(0, 10, NOW)
    assert (producers.manager.map_end_offset, producers.manager.is_empty) == (0, True)
