"""All transactions of a log, as their batches and markers tell them."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog import AppendOrigin, ByteBufferMessageSet, Record, TopicPartition, WritableLog
from kafkalog.inspector.model.model import Model
from kafkalog.record.control import ControlRecordType, end_transaction_marker
from kafkalog.scan import transactions
from kafkalog.scan.transactions import TransactionScan, TransactionsState, abort_command, transactions_of
from tests.helpers.golden import unpacked
from tests.helpers.inspected import all_batches, all_steps, read_through, segment_file

NOW = 1_700_000_000_000
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
GOLDEN = unpacked() / "kafka-3.9" / "data"


def scanned(path: Path, seconds: float = 1.0) -> TransactionsState:
    scan = TransactionScan(path, is_file=path.is_file())
    all_steps(lambda: scan.step(seconds))
    scan.close()
    return scan.state()


def append(log: WritableLog, producer: int, sequence: int, records: int = 1, at: int = NOW) -> int:
    data = ByteBufferMessageSet.from_records(
        [Record(b"v", timestamp=at)] * records,
        producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True,
    )  # fmt: skip
    log.append_as_leader(data, 0)
    return len(bytes(data.buffer))


def end(log: WritableLog, producer: int, kind: ControlRecordType, at: int = NOW) -> None:
    log.append_as_leader(end_transaction_marker(kind, producer, 0, timestamp=at), 0, AppendOrigin.COORDINATOR)


def test_each_transaction_has_its_records_bytes_and_times(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        size = append(log, 1, 0, 3)
        size += append(log, 1, 3, 2)
        append(log, 2, 0)
        end(log, 1, COMMIT, NOW + 5_000)
        log.roll()
        end(log, 2, ABORT, NOW + 7_000)
        append(log, 3, 0, 4, NOW + 8_000)
        found = scanned(tmp_path / "t-0")
    assert (found.open, found.aborted, found.committed, found.last_stable_offset) == (1, 1, 1, 8)
    still, aborted, committed = found.rows
    assert (still.producer_id, still.first_offset, still.records, still.last_offset) == (3, 8, 4, None)
    assert "--start-offset 8" in (still.abort_command or "")
    assert (aborted.state, aborted.first_offset, aborted.last_offset, aborted.records) == ("aborted", 5, 7, 1)
    assert (committed.state, committed.first_offset, committed.last_offset) == ("committed", 0, 6)
    assert (committed.batches, committed.records, committed.size_in_bytes) == (2, 5, size)
    assert (committed.start_timestamp, committed.end_timestamp) == (NOW, NOW + 5_000)
    assert found.problem is None


def test_transactions_of_a_broker_are_counted_by_its_markers() -> None:
    for name in ("v2-txn-0", "v2-compacted-txn-0"):
        model = Model(GOLDEN / name)
        reader = model.partition()
        rows = [
            row
            for state in reader.refresh().segments
            for row in all_batches(read_through(reader.segment(state.base_offset)))
        ]
        known = reader.transactions()
        model.close()
        found = scanned(GOLDEN / name, 0)
        assert found.committed == sum(row.control == "COMMIT" for row in rows)
        assert found.aborted == sum(row.control == "ABORT" for row in rows)
        data = [row for row in rows if row.is_transactional and row.kind != "control"]
        assert sum(row.records or 0 for row in found.rows) == sum(row.records or 0 for row in data)
        assert sum(row.size_in_bytes or 0 for row in found.rows) == sum(row.size for row in data)
        # Those without batches are in no index.
        aborted = [(row.first_offset, row.last_offset) for row in found.rows if row.state == "aborted" and row.records]
        indexed = [(each.first_offset, each.last_offset) for each in reversed(known.aborted)]
        assert set(aborted) <= set(indexed)
        assert name != "v2-txn-0" or aborted == indexed
        assert all(row.end_timestamp is not None for row in found.rows if row.last_offset is not None)


def test_progress_rises_to_the_end_and_the_state_can_be_asked_on_the_way() -> None:
    scan = TransactionScan(GOLDEN / "v2-txn-0")
    seen = [scan.progress, scan.step(0)]
    assert 0 == seen[-1].done_bytes < seen[-1].total_bytes
    assert scan.state().rows == ()
    seen.append(scan.step(0))
    assert scan.state().rows[0].state == "hanging"
    assert scan.state().rows[0].records is None
    seen += all_steps(lambda: scan.step(0))
    assert [each.done_bytes for each in seen] == sorted(each.done_bytes for each in seen)
    assert len(seen) > 5
    assert scan.state().rows[0].records == 40
    assert scan.step().is_done
    scan.close()


def test_the_newest_ended_transactions_are_listed_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LISTED_ENDED", 3)
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        for i in range(20):
            append(log, 1, i)
            end(log, 1, ABORT if i % 2 else COMMIT)
        found = scanned(tmp_path / "t-0")
    assert (found.aborted, found.committed) == (10, 10)
    assert [row.last_offset for row in found.rows] == [39, 37, 35, 33, 31, 29]


def test_markers_decide_aborts_where_there_is_no_transaction_index(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        append(log, 1, 0)
        end(log, 1, ABORT)
    for path in (tmp_path / "t-0").glob("*.txnindex"):
        path.unlink()
    found = scanned(tmp_path / "t-0")
    assert (found.aborted, [row.state for row in found.rows]) == (1, ["aborted"])


def test_transactions_without_a_marker_are_undecided_in_a_lone_file() -> None:
    path = max((GOLDEN / "v2-txn-0").glob("*.log"))
    found = scanned(path)
    assert found.rows[0].state == "undecided"
    assert found.rows[0].abort_command is None
    assert (found.open, found.committed, found.aborted) == (0, 3, 2)


def test_damage_is_reported_and_transactions_before_it_are_counted(tmp_path: Path) -> None:
    data = bytearray(min((GOLDEN / "v2-txn-0").glob("*20.log")).read_bytes())
    whole = scanned(segment_file(tmp_path / "whole", bytes(data), 20))
    data[len(data) // 2 :] = b"\x99" * (len(data) - len(data) // 2)
    found = scanned(segment_file(tmp_path / "cut", bytes(data), 20))
    assert "not read through" in (found.problem or "")
    assert 0 < found.committed < whole.committed
    assert scanned(segment_file(tmp_path / "empty", b"")).rows == ()


def test_a_deleted_directory_is_a_problem(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        append(log, 1, 0)
    for path in (tmp_path / "t-0").iterdir():
        path.unlink()
    (tmp_path / "t-0").rmdir()
    scan = TransactionScan(tmp_path / "t-0")
    assert scan.step().is_done
    assert scan.state().problem is not None
    scan.close()


def test_a_transaction_hangs_when_it_has_been_silent_for_longer_than_any_may_last(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        append(log, 7, 0)
        append(log, 8, 0)
        end(log, 8, COMMIT)
        last = next(iter(log.producer_state.active_producers.values())).last_timestamp
        assert [each.hanging for each in transactions_of(log, last + 1_200_000).open] == [False]
        assert [each.hanging for each in transactions_of(log, last + 1_200_001).open] == [True]
        end(log, 7, ABORT)
        found = transactions_of(log)
        assert (found.open, found.aborted_count, found.aborted[0].producer_id) == ((), 1, 7)


def test_the_abort_command_quotes_the_topic_for_a_shell() -> None:
    assert "--topic 'a b;c' --partition 3" in abort_command(TopicPartition("a b;c", 3), 9)
