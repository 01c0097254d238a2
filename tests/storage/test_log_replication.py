"""What one log has read, another takes; and a transaction that is ended by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalog import AppendOrigin, ByteBufferMessageSet, FileMessageSet, IsolationLevel, LogOffsetMetadata, Record
from kafkalog.errors import InvalidProducerEpochError
from kafkalog.record.control import ControlRecordType, EndTransactionMarker, decode_control, end_transaction_marker
from tests.helpers.logs import EVERYTHING, NOW, append, batch, opened, replicated


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


def transactional(*values: bytes) -> ByteBufferMessageSet:
    return batch(*values, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)


def test_a_follower_takes_what_its_leader_reads(tmp_path: Path) -> None:
    with opened(tmp_path / "leader-0") as leader, opened(tmp_path / "follower-0") as follower:
        for value in (b"a", b"b", b"c"):
            append(leader, value, epoch=4)
        while follower.log_end_offset < leader.log_end_offset:
            # As small a piece as there is: the last batch is cut, which is left out.
            found = leader.read(follower.log_end_offset, 100, min_one_message=True)
            before = follower.log_end_offset
            follower.append_as_follower(found.message_set)
            assert follower.log_end_offset > before, "a fetch returns no further record"
        assert list(follower) == list(leader)
        assert follower.leader_epochs.entries == leader.leader_epochs.entries
        follower.flush()
        leader.flush()
        assert follower.segments[0].path.read_bytes() == leader.segments[0].path.read_bytes()


def test_a_leader_takes_a_segment_file_that_a_client_would_send(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "sent").write_bytes(bytes(batch(b"a", b"b").buffer))
    with opened(directory) as log, FileMessageSet(tmp_path / "sent") as sent:
        assert log.append_as_leader(sent, 0).offsets_count == 2
        assert [record.value for record in log] == [b"a", b"b"]


@pytest.mark.parametrize("wrong", [b"bytes", [Record(b"v")], None])
def test_an_argument_that_is_no_message_set_is_named(directory: Path, wrong: Any) -> None:
    with opened(directory) as log:
        for take in (log.append_as_follower, lambda given: log.append_as_leader(given, 0)):
            with pytest.raises(TypeError, match=f"message_set is a MessageSet.*, not {type(wrong).__name__}"):
                take(wrong)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda log: log.append_as_leader(batch(), -1), "leader_epoch is -1"),
        (lambda log: log.append_as_leader(batch(), 0, "leader"), "origin is 'leader', not one of replication"),
        (lambda log: log.append_as_leader(batch(), 0, transaction_version="2"), "transaction_version is a whole"),
        (lambda log: log.append_as_follower(batch(), None), "leader_epoch is a whole number, not NoneType"),
        (lambda log: log.update_high_watermark("3"), "high_watermark is a whole number, not str"),
        (lambda log: log.maybe_increment_high_watermark(None), "high_watermark is a whole number, not NoneType"),
        (lambda log: log.truncate_to("a"), "offset is a whole number, not str"),
        (lambda log: log.truncate_to(-1), "offset is -1"),
        (lambda log: log.delete_records("4"), "before_offset is a whole number, not str"),
        (lambda log: log.delete_records(-2), "before_offset is -2"),
        (lambda log: log.maybe_increment_log_start_offset(None), "offset is a whole number, not NoneType"),
    ],
)
def test_a_wrong_argument_is_named_and_changes_nothing(directory: Path, wrong: Any, told: str) -> None:
    with opened(directory) as log:
        append(log, b"a")
        with pytest.raises((TypeError, ValueError), match=told):
            wrong(log)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 1)


def test_each_way_to_move_the_high_watermark_takes_an_offset_with_or_without_its_place(directory: Path) -> None:
    with opened(directory) as log:
        for _ in range(4):
            append(log)
        assert log.maybe_increment_high_watermark(1) == LogOffsetMetadata(0, 0, 0)
        assert log.update_high_watermark(LogOffsetMetadata(3)) == 3


def test_deleting_before_minus_one_deletes_up_to_the_high_watermark(directory: Path) -> None:
    with opened(directory) as log:
        for _ in range(4):
            append(log)
        log.update_high_watermark(3)
        assert log.delete_records(-1)
        assert (log.log_start_offset, [record.offset for record in log]) == (3, [3])
        assert not log.delete_records(-1)


@pytest.mark.parametrize(("kind", "seen"), [(ControlRecordType.COMMIT, [b"t"]), (ControlRecordType.ABORT, [])])
def test_a_marker_ends_a_transaction(directory: Path, kind: ControlRecordType, seen: list[bytes]) -> None:
    with opened(directory) as log:
        log.append_as_leader(transactional(b"t"), 0)
        replicated(log)
        assert log.last_stable_offset == 0
        log.append_as_leader(end_transaction_marker(kind, 7, 0, timestamp=NOW), 0, AppendOrigin.COORDINATOR)
        replicated(log)
        assert log.last_stable_offset == 2
        assert [each.value for each in log.records(isolation=IsolationLevel.TXN_COMMITTED)] == seen
        assert len(log.read(0, EVERYTHING, IsolationLevel.TXN_COMMITTED).aborted_transactions or ()) == (not seen)


def test_a_marker_has_the_fields_it_was_made_with() -> None:
    made = end_transaction_marker(ControlRecordType.ABORT, 2**62, 12, coordinator_epoch=5, timestamp=NOW)
    (sent,) = made.batches()
    assert (sent.producer_id, sent.producer_epoch, sent.is_control, sent.is_transactional) == (2**62, 12, True, True)
    assert (sent.base_sequence, sent.max_timestamp) == (-1, NOW)
    (record,) = sent
    assert decode_control(record) == EndTransactionMarker(ControlRecordType.ABORT, 5)


def test_a_marker_of_the_second_transaction_version_needs_a_later_epoch(directory: Path) -> None:
    with opened(directory) as log:
        log.append_as_leader(transactional(b"t"), 0)
        for epoch, refused in ((0, True), (1, False)):
            made = end_transaction_marker(ControlRecordType.COMMIT, 7, epoch, timestamp=NOW)
            if refused:
                with pytest.raises(InvalidProducerEpochError):
                    log.append_as_leader(made, 0, AppendOrigin.COORDINATOR, transaction_version=2)
            else:
                log.append_as_leader(made, 0, AppendOrigin.COORDINATOR, transaction_version=2)
        assert log.producer_state.active_producers[7].producer_epoch == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kind": ControlRecordType.LEADER_CHANGE}, "kind is LEADER_CHANGE"),
        ({"kind": "DONE"}, "kind is 'DONE', not one of"),
        ({"producer_id": -1}, "producer_id is -1"),
        ({"producer_epoch": 2**15}, "producer_epoch is 32768"),
        ({"coordinator_epoch": -1}, "coordinator_epoch is -1"),
        ({"timestamp": -1}, "timestamp is -1 ms since the epoch"),
    ],
)
def test_invalid_fields_of_a_marker_are_named(given: dict[str, Any], told: str) -> None:
    fields = {"kind": ControlRecordType.COMMIT, "producer_id": 1, "producer_epoch": 0, "timestamp": NOW} | given
    with pytest.raises((TypeError, ValueError), match=told):
        end_transaction_marker(**fields)
