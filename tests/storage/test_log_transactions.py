from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkalog import AppendOrigin, ByteBufferMessageSet, IsolationLevel, Record, WritableLog
from kafkalog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    LogStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kafkalog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from kafkalog.storage.log import Log
from tests.helpers.logs import (
    CONFIG,
    EVERYTHING,
    NOW,
    active,
    append,
    bases,
    batch,
    crashed,
    files,
    fill,
    opened,
    producers_in,
    replicated,
    seen,
    snapshots,
)
from tests.helpers.making import ABORT, COMMIT, Clock, marker, together

COMMITTED = IsolationLevel.TXN_COMMITTED


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


class Producer:
    """A producer and its coordinator, by its id."""

    def __init__(self, log: WritableLog, producer_id: int, *, transactional: bool = True) -> None:
        self.log = log
        self.producer_id = producer_id
        self.epoch = 0
        self.sequence = 0
        self.transactional = transactional

    def send(self, count: int = 1) -> int:
        """Records in one batch; their first offset."""
        found = append(
            self.log,
            *[b"v"] * count,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=self.transactional,
        )
        self.sequence += count
        return found

    def end(self, kind: int, *, coordinator_epoch: int = 0, version: int = 0, epoch: int | None = None) -> int:
        """A marker; its offset."""
        marking = self.epoch if epoch is None else epoch
        sent = marker(
            0, kind, self.producer_id, producer_epoch=marking, coordinator_epoch=coordinator_epoch, timestamp=NOW
        )
        found = self.log.append_as_leader(sent, 0, AppendOrigin.COORDINATOR, transaction_version=version)
        return found.first_offset

    def commit(self) -> int:
        return self.end(COMMIT)

    def abort(self) -> int:
        return self.end(ABORT)


def aborted(log: Log) -> list[tuple[int, int, int, int]]:
    """All that the transaction indexes tell."""
    return [
        (each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset)
        for segment in log.segments
        for each in segment.txn_index
    ]


MIX = [(1, 0, 29, 8), (2, 8, 74, 36)]


def append_mix(log: WritableLog, *, roll_every: int = 0) -> None:
    """Four producers' transactions and plain records through one another, 90 offsets."""
    p1, p2, p3, p4 = (Producer(log, producer_id) for producer_id in (1, 2, 3, 4))

    def plain(count: int) -> None:
        append(log, *[b"v"] * count)

    steps = [
        lambda: p1.send(5),
        lambda: plain(3),
        lambda: p2.send(2),
        lambda: p1.send(4),
        lambda: p3.send(3),
        lambda: plain(2),
        lambda: p1.send(10),
        p1.abort,
        lambda: p2.send(6),
        lambda: p4.send(3),
        lambda: plain(10),
        lambda: p3.send(9),
        p3.commit,
        lambda: p4.send(8),
        lambda: p2.send(7),
        p2.abort,
        lambda: plain(10),
        lambda: p4.send(4),
        p4.commit,
    ]
    for i, step in enumerate(steps):
        step()
        if roll_every and i % roll_every == 0:
            log.roll()
    assert log.log_end_offset == 90


# --- what is stable


def test_a_transaction_is_stable_once_the_high_watermark_has_passed_its_marker(directory: Path) -> None:
    with opened(directory) as log:
        first, second = Producer(log, 1), Producer(log, 2)
        first.send(5)
        second.send(3)
        first.send(2)
        second.send(4)
        stable = [log.last_stable_offset]
        replicated(log)
        stable.append(log.last_stable_offset)
        first.commit()
        stable.append(log.last_stable_offset)
        replicated(log)
        stable.append(log.last_stable_offset)
        second.send(2)
        second.abort()
        stable.append(log.last_stable_offset)
        replicated(log)
        stable.append(log.last_stable_offset)
        assert stable == [0, 0, 0, 5, 5, log.log_end_offset]
        assert log.first_unstable_offset is None


def test_committed_reads_end_at_the_batch_that_holds_the_last_stable_offset(directory: Path) -> None:
    with opened(directory) as log:
        first, second = Producer(log, 1), Producer(log, 2)
        append(log, *[b"v"] * 5)
        first.send(3)
        append(log, b"a", b"b")
        second.send(4)
        replicated(log)
        assert (log.last_stable_offset, seen(log, 0, COMMITTED)) == (5, [0, 1, 2, 3, 4])
        first.commit()
        replicated(log)
        assert (log.last_stable_offset, seen(log, 0, COMMITTED)) == (10, list(range(10)))
        assert seen(log, 10, COMMITTED) == []
        second.abort()
        replicated(log)
        found = log.read(0, EVERYTHING, COMMITTED)
        assert [tuple(each) for each in found.aborted_transactions or ()] == [(2, 10)]
        assert [record.offset for record in log.records(isolation=COMMITTED)] == list(range(10))
        assert log.count(isolation=COMMITTED) == 10


@pytest.mark.parametrize("roll_every", [0, 3, 1])
def test_aborted_transactions_are_indexed_with_what_was_stable_then(directory: Path, roll_every: int) -> None:
    with opened(directory) as log:
        append_mix(log, roll_every=roll_every)
        assert aborted(log) == MIX
        unstable = []
        for mark in (30, 75, 90):
            log.update_high_watermark(mark)
            unstable.append(log.first_unstable_offset)
        assert unstable == [8, 36, None]


def test_a_follower_indexes_the_same_transactions(directory: Path) -> None:
    with opened(directory) as log, opened(directory.with_name("topic-1")) as follower:
        append_mix(log)
        for segment in files(log.directory, ".log").values():
            follower.append_as_follower(ByteBufferMessageSet(segment))
        assert aborted(follower) == MIX
        assert files(follower.directory, ".log") == files(log.directory, ".log")
        replicated(follower)
        assert follower.last_stable_offset == 90


@pytest.mark.parametrize("lost", [".txnindex", "index", ".snapshot", ""])
def test_lost_indexes_and_snapshots_are_rebuilt_after_a_crash(directory: Path, lost: str) -> None:
    with opened(directory) as log:
        append_mix(log, roll_every=3)
        log.flush()
    for name in files(directory):
        if lost and name.endswith(lost):
            (directory / name).unlink()
    with crashed(directory, recovery_point=0) as log:
        assert aborted(log) == MIX
        replicated(log)
        assert log.last_stable_offset == 90


def test_unflushed_transactions_are_indexed_again_after_a_crash(directory: Path) -> None:
    with opened(directory) as log:
        append_mix(log, roll_every=3)
        last = bases(log)[-2]
    for name in files(directory, ".txnindex"):
        if int(name.partition(".")[0]) >= last:
            (directory / name).unlink()
    with crashed(directory, recovery_point=last) as log:
        assert aborted(log) == MIX


def test_a_read_of_the_first_batch_of_a_long_aborted_transaction_returns_the_transaction(directory: Path) -> None:
    with opened(directory) as log:
        producer = Producer(log, 7)
        for _ in range(5):
            producer.send(2)
            log.roll()
        producer.abort()
        replicated(log)
        assert len(log.segments) == 6
        for start in range(10):
            found = log.read(start, EVERYTHING, COMMITTED)
            assert [tuple(each) for each in found.aborted_transactions or ()] == [(7, 0)]
        assert list(log.records(isolation=COMMITTED)) == []


@pytest.mark.parametrize(("log_start", "deletes"), [(5, False), (8, True)])
def test_the_last_stable_offset_is_not_before_the_logs_start(directory: Path, log_start: int, deletes: bool) -> None:
    with opened(directory) as log:
        Producer(log, 1).send(1)
        log.roll()
        fill(log, 9)
        replicated(log)
        assert log.first_unstable_offset == 0
        log.delete_records(log_start)
        if deletes:
            log.delete_old_segments()
        assert (log.first_unstable_offset, log.last_stable_offset) == (log_start, log_start)


def test_an_open_transaction_keeps_the_last_stable_offset_when_the_log_is_opened_again(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 2)
        Producer(log, 1).send(2)
        fill(log, 2)
        log.close()
    for opening in (opened, crashed):
        with opening(directory) as log:
            replicated(log)
            assert (log.last_stable_offset, log.high_watermark) == (2, 6)


def test_truncation_forgets_transactions_and_reopens_those_whose_marker_is_cut_off(
    directory: Path,
) -> None:
    with opened(directory) as log:
        fill(log, 2)
        producer = Producer(log, 1)
        producer.send(2)
        at = producer.abort()
        replicated(log)
        assert log.last_stable_offset == 5
        log.truncate_to(at)
        assert (log.first_unstable_offset, aborted(log)) == (2, [])
        log.truncate_to(2)
        assert log.first_unstable_offset is None


def test_an_empty_transaction_leaves_nothing_unstable(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 1)
        Producer(log, 1).end(ABORT)
        assert (log.first_unstable_offset, aborted(log)) == (None, [])


def test_a_transaction_index_that_cannot_be_written_keeps_the_last_stable_offset(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with opened(directory) as log:
        producer = Producer(log, 137)
        producer.send(10)
        with monkeypatch.context() as patched:
            patched.setattr(TransactionIndex, "append", full)
            with pytest.raises(OSError, match="No space"):
                producer.abort()
        assert (log.log_end_offset, log.last_stable_offset) == (11, 0)
        with pytest.raises(LogStateError, match="open it again"):
            append(log, b"later")
    with crashed(directory) as log:
        replicated(log)
        assert (log.log_end_offset, log.first_unstable_offset, len(aborted(log))) == (11, None, 1)
        assert aborted(log)[0][:3] == (137, 0, 10)


# --- what producers and coordinators may not send


def test_a_coordinator_that_was_replaced_is_refused(directory: Path) -> None:
    with opened(directory) as log:
        producer = Producer(log, 1)
        for coordinator in (1, 1, 2):
            producer.send()
            producer.end(COMMIT, coordinator_epoch=coordinator)
        producer.send()
        replicated(log)
        before = files(directory)
        with pytest.raises(TransactionCoordinatorFencedError):
            producer.end(ABORT, coordinator_epoch=1)
        assert files(directory) == before
        assert log.first_unstable_offset == 6


def test_a_replaced_coordinator_is_refused_after_the_log_was_opened_again(directory: Path) -> None:
    with opened(directory) as log:
        producer = Producer(log, 1)
        producer.send()
        producer.end(COMMIT, coordinator_epoch=5)
        log.close()
    with opened(directory) as log, pytest.raises(TransactionCoordinatorFencedError):
        Producer(log, 1).end(COMMIT, coordinator_epoch=4)


def test_the_second_protocols_marker_has_the_next_epoch(directory: Path) -> None:
    with opened(directory) as log:
        producer = Producer(log, 1)
        producer.epoch = 5
        producer.send()
        with pytest.raises(InvalidProducerEpochError):
            producer.end(COMMIT, version=2)
        producer.end(COMMIT, version=2, epoch=6)
        entry = log.producer_state.last_entry(1)
        assert entry is not None
        assert (entry.producer_epoch, log.first_unstable_offset) == (6, 0)
        replicated(log)
        assert log.first_unstable_offset is None


def test_a_leader_must_know_which_protocol_a_marker_follows(directory: Path) -> None:
    with opened(directory) as log:
        producer = Producer(log, 1)
        producer.send()
        with pytest.raises(ValueError, match="version"):
            producer.end(COMMIT, version=-1)
        assert log.log_end_offset == 1


def test_a_plain_batch_within_a_transaction_is_refused(directory: Path) -> None:
    with opened(directory) as log:
        producer = Producer(log, 1)
        producer.send()
        producer.transactional = False
        with pytest.raises(InvalidTxnStateError):
            producer.send()


# --- duplicates


def test_a_batch_sent_again_returns_its_offsets_and_is_not_written_again(directory: Path) -> None:
    with opened(directory) as log:

        def send(sequence: int, count: int = 1) -> tuple[int, int, bool]:
            sent = batch(*[b"v"] * count, producer_id=1, producer_epoch=0, base_sequence=sequence)
            info = log.append_as_leader(sent, 0)
            return info.first_offset, info.last_offset, info.is_duplicate

        for sequence in range(6):
            fill(log, 1)
            send(sequence)
        assert send(6, 3) == (12, 14, False)
        size = log.size_in_bytes
        assert send(6, 3) == (12, 14, True)
        assert [send(sequence)[0] for sequence in (3, 4, 5)] == [7, 9, 11]
        with pytest.raises(OutOfOrderSequenceError):
            send(7, 2)
        with pytest.raises(OutOfOrderSequenceError):
            send(0)
        assert (log.log_end_offset, log.size_in_bytes) == (15, size)


def test_a_follower_appends_what_it_is_sent_twice(directory: Path) -> None:
    sent = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "partition_leader_epoch": 0}
    with opened(directory) as log:
        for base in (0, 2):
            log.append_as_follower(batch(b"a", b"b", base_offset=base, **sent))
        assert (log.log_end_offset, log.count()) == (4, 4)


def test_two_batches_of_one_append_follow_each_other(directory: Path) -> None:
    def sent(base: int, sequence: int) -> ByteBufferMessageSet:
        return batch(
            b"v",
            base_offset=base,
            producer_id=1,
            producer_epoch=0,
            base_sequence=sequence,
            partition_leader_epoch=0,
        )

    with opened(directory) as log:
        log.append_as_follower(together(sent(0, 0), sent(1, 1), sent(2, 2)))
        entry = log.producer_state.last_entry(1)
        assert entry is not None
        assert (entry.last_seq, entry.last_data_offset) == (2, 2)


# --- compacted batches, snapshots


def test_the_last_sequence_of_a_compacted_batch_counts(directory: Path) -> None:
    kept = ByteBufferMessageSet.from_records(
        [Record(b"v", b"k", timestamp=NOW)] * 2,
        offsets=(23, 26),
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        partition_leader_epoch=0,
    )
    with opened(directory, log_start_offset=23) as log:
        log.append_as_follower(kept)
        before = log.producer_state.last_entry(1)
        assert before is not None
        assert before.last_seq == 3
        log.append_as_follower(batch(b"more", base_offset=27, partition_leader_epoch=0))
        log.truncate_to(27)
        after = log.producer_state.last_entry(1)
        assert after is not None
        assert after.last_seq == 3


def test_producers_expire_in_an_open_log_but_for_those_in_a_transaction(directory: Path) -> None:
    clock = Clock(NOW)
    with opened(directory, clock=clock) as log:
        Producer(log, 1, transactional=False).send()
        Producer(log, 2).send()
        clock.now += 86_400_000
        log.remove_expired_producers()
        assert sorted(log.producer_state.active_producers) == [2]
        Producer(log, 1, transactional=False).send()


def test_a_snapshot_is_taken_once_at_an_offset(directory: Path) -> None:
    with opened(directory) as log:
        Producer(log, 1, transactional=False).send()
        assert log.producer_state.take_snapshot() is not None
        assert log.producer_state.take_snapshot() is None
        assert (snapshots(log), producers_in(log, 1)) == ([1], [1])


def test_producers_whose_records_were_deleted_after_a_snapshot_are_unknown(directory: Path) -> None:
    config = replace(CONFIG, segment_bytes=200)
    with opened(directory, config) as log:
        for producer in (1, 2):
            Producer(log, producer, transactional=False).send()
            if producer == 1:
                log.roll()
        replicated(log)
        log.delete_records(1)
        log.delete_old_segments()
        assert sorted(log.producer_state.active_producers) == [1, 2]
        log.close()
        for name in files(directory, ".snapshot"):
            (directory / name).unlink()
    with crashed(directory, config, log_start_offset=1) as log:
        assert (bases(log), sorted(log.producer_state.active_producers)) == ([1], [2])
        assert active(log).base_offset == 1


def test_aborted_transactions_of_a_log_are_those_of_its_index(directory: Path) -> None:
    with opened(directory) as log:
        append_mix(log)
        assert list(active(log).txn_index) == [AbortedTxn(*entry) for entry in MIX]


def test_an_append_after_a_truncated_transaction_updates_the_first_unstable_offset(directory: Path) -> None:
    """Kafka too goes on saying where the transaction began until something is appended."""
    with opened(directory) as log:
        settings = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        log.append_as_follower(batch(b"a", b"b", base_offset=37, partition_leader_epoch=1, **settings))
        log.truncate_to(38)
        assert log.first_unstable_offset == 37
        append(log, b"c", epoch=1)
        assert log.first_unstable_offset is None
