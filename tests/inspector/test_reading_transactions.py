"""Transactions: which are open, which hang, which were aborted, and what ends them."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog import AppendOrigin, WritableLog
from kafkalog.inspector.model import segment_index as windows
from kafkalog.inspector.model.model import Model
from kafkalog.record.control import ControlRecordType, end_transaction_marker
from tests.helpers.golden import unpacked
from tests.helpers.inspected import all_batches, read_through, reader_of, segment_file
from tests.helpers.partition_dirs import batch, marker

NOW = 1_700_000_000_000
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def transactional(offset: int, producer: int, *values: bytes) -> bytes:
    return batch(
        offset, values or (b"v",), producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True
    )


def append(log: WritableLog, producer: int, sequence: int) -> None:
    data = kafkalog.ByteBufferMessageSet.from_records(
        [kafkalog.Record(b"v", timestamp=NOW)],
        producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True,
    )  # fmt: skip
    log.append_as_leader(data, 0)


def end(log: WritableLog, producer: int, kind: ControlRecordType) -> None:
    log.append_as_leader(end_transaction_marker(kind, producer, 0, timestamp=NOW), 0, AppendOrigin.COORDINATOR)


def test_a_hanging_transaction_is_listed_with_the_command_that_ends_it() -> None:
    model = Model(unpacked() / "kafka-3.9" / "data" / "v2-txn-0")
    found = model.partition().transactions()
    (hanging,) = found.open
    assert (hanging.producer_id, hanging.first_offset, hanging.hanging) == (1000, 1411, True)
    assert hanging.abort_command == (
        "kafka-transactions.sh --bootstrap-server HOST:9092 abort --topic v2-txn --partition 0 --start-offset 1411"
    )
    assert hanging.start_timestamp is not None
    assert found.last_stable_offset == 1411
    assert found.problem is None
    model.close()


def test_aborted_transactions_are_those_of_the_indexes() -> None:
    model = Model(unpacked() / "kafka-3.9" / "data" / "v2-txn-0")
    reader = model.partition()
    found = reader.transactions()
    markers = [
        (row.producer_id, row.base_offset, state.base_offset)
        for state in reader.refresh().segments
        for row in all_batches(read_through(reader.segment(state.base_offset)))
        if row.control == "ABORT"
    ]
    assert [(each.producer_id, each.last_offset, each.base_offset) for each in found.aborted] == markers
    assert found.aborted_count == len(markers) > 3
    model.close()


def last_stable(directory: Path) -> int:
    """As somebody else finds it, who reads the log from its start."""
    with kafkalog.open(directory) as log:
        return log.last_stable_offset


def test_the_last_stable_offset_follows_a_writer(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        append(log, 1, 0)
        model = Model(tmp_path / "t-0")
        reader = model.partition()
        assert reader.refresh().last_stable is None
        assert reader.work_out_last_stable() == reader.refresh().last_stable == 0
        append(log, 2, 0)
        end(log, 1, COMMIT)
        assert reader.refresh().last_stable == last_stable(log.directory) == 1
        log.roll()
        append(log, 1, 1)
        end(log, 2, ABORT)
        assert reader.refresh().last_stable == last_stable(log.directory) == 3
        end(log, 1, COMMIT)
        state = reader.refresh()
        assert state.last_stable == state.log_end == last_stable(log.directory)
        log.truncate_to(3)
        assert reader.refresh().last_stable is None
        assert reader.work_out_last_stable() == last_stable(log.directory) == 1
        model.close()


def test_batches_become_aborted_once_the_marker_was_read(tmp_path: Path) -> None:
    data = [transactional(0, 1), transactional(1, 2), marker(2, 1, ABORT), transactional(3, 1), marker(4, 2, COMMIT)]
    path = segment_file(tmp_path, b"".join(data[:2]))
    reader = reader_of(path)
    assert [row.kind for row in all_batches(reader)] == ["transactional", "transactional"]
    path.write_bytes(b"".join(data))
    read_through(reader)
    rows = all_batches(reader)
    assert [row.kind for row in rows] == ["aborted", "transactional", "control", "transactional", "control"]
    assert [row.control for row in rows] == [None, None, "ABORT", None, "COMMIT"]
    reader.close()


def test_a_marker_in_a_later_segment_decides_what_lies_before(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    with kafkalog.open(directory, "a") as log:
        for producer in (1, 2, 3):
            append(log, producer, 0)
        log.roll()
        end(log, 1, ABORT)
        end(log, 2, COMMIT)
        append(log, 3, 1)
        log.roll()
        end(log, 3, ABORT)
        model = Model(directory)
        reader = model.partition()
        kinds = [
            [row.kind for row in all_batches(read_through(reader.segment(row.base_offset)))]
            for row in reader.refresh().segments
        ]
        assert kinds == [["aborted", "transactional", "aborted"], ["control", "control", "aborted"], ["control"]]
        model.close()


def test_the_next_transaction_is_found_in_both_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW_ROWS", 2)
    data = [
        batch(0),
        batch(1),
        transactional(2, 1),
        transactional(3, 1),
        marker(4, 1, ABORT),
        batch(5),
        transactional(6, 2),
    ]
    reader = reader_of(segment_file(tmp_path, b"".join(data)))
    assert [reader.next_transaction(row) for row in range(7)] == [2, 2, 4, 4, 6, 6, None]
    assert [reader.next_transaction(row, False) for row in range(7)] == [None, None, None, None, None, 4, 4]
    reader.close()


def test_a_damaged_transaction_index_is_reported_and_open_transactions_are_listed(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        append(log, 1, 0)
        end(log, 1, ABORT)
        append(log, 2, 0)
    index = next((tmp_path / "t-0").glob("*.txnindex"))
    index.write_bytes(b"\x09\x09" + index.read_bytes()[2:])
    model = Model(tmp_path / "t-0")
    found = model.partition().transactions()
    assert [each.producer_id for each in found.open] == [2]
    assert "txnindex" in (found.problem or "")
    model.close()
