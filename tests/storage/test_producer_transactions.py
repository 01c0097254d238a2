"""Transactions: when one is open, how it ends, and up to where the log is stable."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafkalog.errors import InvalidProducerEpochError, InvalidTxnStateError, TransactionCoordinatorFencedError
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_entry import CompletedTxn
from tests.helpers.producers import (
    ABORT,
    CLIENT,
    COORDINATOR,
    DAY_MS,
    NOW,
    REPLICATION,
    Producers,
    data_batch,
    marker_batch,
)


@pytest.fixture
def producers(tmp_path: Path) -> Producers:
    return Producers(tmp_path)


def open_transaction(producers: Producers, producer_id: int, offset: int, epoch: int = 0) -> None:
    producers.data(producer_id, epoch, 0, offset, transactional=True)


def test_a_plain_batch_during_the_producers_own_transaction_is_refused(producers: Producers) -> None:
    open_transaction(producers, 1, 0)
    with pytest.raises(InvalidTxnStateError):
        producers.data(1, 0, 1)
    producers.data(2, 0, 0)
    producers.marker(1, 0)
    producers.data(1, 0, 1)


def test_the_first_unstable_offset_has_the_position_of_the_transactions_first_batch(producers: Producers) -> None:
    producers.append(data_batch(1, 0, 0, 20, count=5, transactional=True), position=700)
    producers.append(data_batch(1, 0, 5, 25, transactional=True), position=900)
    assert producers.entry(1).current_txn_first_offset == 20
    assert producers.manager.first_unstable_offset == LogOffsetMetadata(20, 0, 700)
    assert producers.manager.first_undecided_offset == 20


@pytest.mark.parametrize("kind", [ABORT, b"\0\0\0\1"])
def test_a_marker_ends_the_transaction_and_says_how(producers: Producers, kind: bytes) -> None:
    open_transaction(producers, 1, 20)
    assert producers.marker(1, 0, 30, kind=kind, timestamp=NOW + 5) == CompletedTxn(1, 20, 30, kind == ABORT)
    assert producers.entry(1).current_txn_first_offset is None
    assert producers.entry(1).last_timestamp == NOW + 5
    assert producers.manager.first_undecided_offset is None


def test_a_marker_without_data_completes_nothing(producers: Producers) -> None:
    open_transaction(producers, 1, 24)
    assert producers.marker(2, 0, 25) is None
    assert producers.marker(1, 0, 28, kind=ABORT) == CompletedTxn(1, 24, 28, True)
    assert producers.marker(1, 0, 29) is None
    producers.manager.on_high_watermark_updated(30)
    producers.data(1, 0, 1, 30, count=2, transactional=True)
    assert producers.unstable == 30


def test_one_append_may_hold_a_transaction_and_its_marker_and_the_next(producers: Producers) -> None:
    info = producers.manager.prepare_update(1, REPLICATION)
    assert info.append(data_batch(1, 0, 0, 24, count=4, transactional=True)) is None
    ended = info.append(marker_batch(1, 0, 28, kind=ABORT))
    assert ended == CompletedTxn(1, 24, 28, True)
    assert info.append(marker_batch(1, 0, 29)) is None
    info.append(data_batch(1, 0, 4, 30, count=2, transactional=True))
    producers.manager.update(info)
    producers.manager.complete_txn(ended)
    assert producers.unstable == 24
    producers.manager.on_high_watermark_updated(30)
    assert producers.unstable == 30


# --- which markers are taken


def test_a_marker_of_an_old_epoch_is_refused_whatever_the_version(producers: Producers) -> None:
    open_transaction(producers, 1, 0, epoch=5)
    for version in (0, 1, 2):
        with pytest.raises(InvalidProducerEpochError):
            producers.marker(1, 3, version=version)


@pytest.mark.parametrize("version", [0, 1])
def test_before_version_2_a_marker_has_the_transactions_own_epoch(producers: Producers, version: int) -> None:
    open_transaction(producers, 1, 0, epoch=5)
    assert producers.marker(1, 5, version=version) is not None


def test_from_version_2_on_a_marker_has_a_later_epoch(producers: Producers) -> None:
    open_transaction(producers, 1, 0, epoch=5)
    with pytest.raises(InvalidProducerEpochError, match=r"TV2.*expected more than 5, found 5"):
        producers.marker(1, 5, version=2)
    assert producers.marker(1, 6, version=2) == CompletedTxn(1, 0, 1, False)
    assert producers.entry(1).producer_epoch == 6


def test_a_repeated_version_2_marker_is_accepted_after_the_transaction_has_ended(producers: Producers) -> None:
    open_transaction(producers, 1, 0, epoch=5)
    assert producers.marker(1, 6, version=2) is not None
    assert producers.marker(1, 6, version=2) is None
    open_transaction(producers, 1, 3, epoch=6)
    with pytest.raises(InvalidProducerEpochError):
        producers.marker(1, 6, version=2)


def test_a_marker_needs_its_version_unless_another_replica_has_checked(producers: Producers) -> None:
    open_transaction(producers, 1, 0, epoch=5)
    for origin in (CLIENT, COORDINATOR):
        with pytest.raises(ValueError, match="transaction version"):
            producers.marker(1, 5, version=-1, origin=origin)
    assert producers.marker(1, 5, version=-1, origin=REPLICATION) is not None


def test_a_replica_accepts_markers_that_a_coordinator_may_not_send(producers: Producers) -> None:
    open_transaction(producers, 1, 0, epoch=5)
    producers.marker(1, 5, coordinator_epoch=3)
    assert producers.marker(1, 4, coordinator_epoch=1, origin=REPLICATION) is None
    assert (producers.entry(1).producer_epoch, producers.entry(1).coordinator_epoch) == (4, 1)


def test_a_coordinator_that_has_been_replaced_is_fenced(producers: Producers) -> None:
    for coordinator_epoch in (1, 1, 2):
        producers.marker(1, 0, coordinator_epoch=coordinator_epoch)
    with pytest.raises(TransactionCoordinatorFencedError) as caught:
        producers.marker(1, 0, coordinator_epoch=1)
    assert caught.value.found == 1


def test_a_replaced_coordinator_is_fenced_after_loading_too(producers: Producers) -> None:
    producers.marker(1, 0, coordinator_epoch=1)
    producers.manager.take_snapshot()
    loaded = producers.reopened(0, 1)
    with pytest.raises(TransactionCoordinatorFencedError):
        loaded.marker(1, 0, coordinator_epoch=0)


# --- up to where the log is stable


def test_a_transaction_stays_unstable_until_the_high_watermark_passes_its_marker(producers: Producers) -> None:
    open_transaction(producers, 1, 99)
    open_transaction(producers, 2, 105)
    assert producers.unstable == 99
    producers.marker(1, 0, 109)
    assert (producers.manager.first_undecided_offset, producers.unstable) == (105, 99)
    for high_watermark, unstable in ((100, 99), (109, 99), (110, 105)):
        producers.manager.on_high_watermark_updated(high_watermark)
        assert producers.unstable == unstable
    producers.marker(2, 0, 112, kind=ABORT)
    assert (producers.manager.first_undecided_offset, producers.unstable) == (None, 105)
    producers.manager.on_high_watermark_updated(113)
    assert producers.unstable is None


def test_a_later_transaction_may_be_stable_before_an_earlier_one(producers: Producers) -> None:
    open_transaction(producers, 1, 10)
    open_transaction(producers, 2, 11)
    producers.marker(2, 0, 12)
    producers.manager.on_high_watermark_updated(13)
    assert producers.unstable == 10
    producers.marker(1, 0, 13)
    producers.manager.on_high_watermark_updated(14)
    assert producers.unstable is None


def test_the_last_stable_offset_after_a_marker_is_the_first_of_anothers_open_transactions(producers: Producers) -> None:
    for producer_id, offset in ((1, 0), (2, 25), (3, 57)):
        open_transaction(producers, producer_id, offset)
    ends = {1: CompletedTxn(1, 0, 82, False), 2: CompletedTxn(2, 25, 104, False), 3: CompletedTxn(3, 57, 90, False)}
    manager = producers.manager
    assert manager.last_stable_offset(ends[1]) == 25
    manager.complete_txn(ends[1])
    assert manager.last_stable_offset(ends[3]) == 25
    manager.complete_txn(ends[3])
    assert manager.last_stable_offset(ends[2]) == 105


def test_a_transaction_that_was_not_begun_cannot_be_completed(producers: Producers) -> None:
    with pytest.raises(ValueError, match="no transaction of topic-0 is open at offset 7"):
        producers.manager.complete_txn(CompletedTxn(1, 7, 9, False))


def test_offsets_before_the_log_start_are_stable_and_their_producers_stay_known(producers: Producers) -> None:
    open_transaction(producers, 1, 0)
    producers.marker(1, 0)
    unstable = []
    for log_start in (1, 5):
        producers.manager.on_log_start_offset_incremented(log_start)
        unstable.append(producers.unstable)
    assert unstable == [0, None]
    assert producers.manager.map_end_offset == 5
    assert producers.entry(1).last_seq == 0


def test_interleaved_transactions_have_the_right_last_stable_offsets(producers: Producers) -> None:
    first_two = [(1, 0, 5, 0), (2, 8, 2, 0), (1, 10, 4, 5), (3, 14, 3, 0), (1, 19, 10, 9)]
    for producer_id, offset, count, sequence in first_two:
        producers.data(producer_id, 0, sequence, offset, count=count, transactional=True)
    done = [(1, ABORT, 29)]
    ended = [stable_and_end(producers, *end) for end in done]
    for producer_id, offset, count, sequence in [(2, 30, 6, 2), (4, 36, 3, 0), (3, 49, 9, 3)]:
        producers.data(producer_id, 0, sequence, offset, count=count, transactional=True)
    ended.append(stable_and_end(producers, 3, b"\0\0\0\1", 58))
    for producer_id, offset, count, sequence in [(4, 59, 8, 3), (2, 67, 7, 8)]:
        producers.data(producer_id, 0, sequence, offset, count=count, transactional=True)
    ended.append(stable_and_end(producers, 2, ABORT, 74))
    producers.data(4, 0, 11, 85, count=4, transactional=True)
    ended.append(stable_and_end(producers, 4, b"\0\0\0\1", 89))
    aborted = [(each.producer_id, each.first_offset, each.last_offset, stable) for each, stable in ended if each[3]]
    assert aborted == [(1, 0, 29, 8), (2, 8, 74, 36)]
    seen = []
    for high_watermark in (30, 75, 90):
        producers.manager.on_high_watermark_updated(high_watermark)
        seen.append(producers.unstable)
    assert seen == [8, 36, None]


def stable_and_end(producers: Producers, producer_id: int, kind: bytes, offset: int) -> tuple[CompletedTxn, int]:
    """End a transaction; return it and the last stable offset before it is completed."""
    batch = marker_batch(producer_id, 0, offset, kind=kind)
    info = producers.manager.prepare_update(producer_id, COORDINATOR)
    completed = info.append(batch, None, 0)
    assert completed is not None
    producers.manager.update(info)
    stable = producers.manager.last_stable_offset(completed)
    producers.manager.complete_txn(completed)
    return completed, stable


# --- time


def test_a_producer_with_an_open_transaction_does_not_expire(producers: Producers) -> None:
    open_transaction(producers, 1, 99)
    producers.data(2, 0, 0)
    producers.manager.remove_expired_producers(NOW + 2 * DAY_MS)
    assert [*producers.manager.active_producers] == [1]
    assert producers.unstable == 99


# --- other threads


def test_threads_may_query_producer_state_during_appends(producers: Producers) -> None:
    manager, done = producers.manager, threading.Event()

    def ask() -> int:
        asked = 0
        while not (asked and done.is_set()):
            known = [entry.producer_id for entry in manager.active_producers.values()]
            assert known == sorted(known)
            first, undecided = manager.first_unstable_offset, manager.first_undecided_offset
            assert first is None or first.message_offset % 2 == 0
            assert undecided is None or undecided % 2 == 0
            asked += 1
        return asked

    with ThreadPoolExecutor(2) as readers:
        asking = [readers.submit(ask) for _ in range(2)]
        try:
            for producer_id in range(100):
                open_transaction(producers, producer_id, 2 * producer_id)
                producers.marker(producer_id, 0)
                manager.on_high_watermark_updated(2 * producer_id + producer_id % 3)
        finally:
            done.set()
        assert all(each.result() for each in asking)
