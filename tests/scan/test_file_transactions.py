"""The transactions of one file by its markers, and which batches are aborted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, FileMessageSet, Record
from kafkalog._speedups.framing import HEADER_DTYPE
from kafkalog.attributes import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkalog.record.control import ControlRecordType, end_transaction_marker
from kafkalog.scan.transaction_states import FileTransactions
from kafkalog.scan.transactions import marker_types
from kafkalog.storage.index.transaction_index import AbortedTxn
from kafkalog.storage.read.aborted_transactions import AbortedBatches

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
PRODUCERS = st.integers(0, 3) | st.just(2**63 - 1)
OFFSETS = st.integers(0, 30)


def data(offset: int, producer: int) -> bytes:
    settings: dict[str, Any] = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "base_offset": offset}
    return bytes(ByteBufferMessageSet.from_records([Record(b"v")], is_transactional=True, **settings).buffer)


def marker(offset: int, producer: int, kind: ControlRecordType) -> bytes:
    made = end_transaction_marker(kind, producer, 0, timestamp=0)
    return bytes(made.with_offsets(offset).buffer)


@given(st.lists(st.tuples(PRODUCERS, OFFSETS, OFFSETS)), st.lists(st.tuples(PRODUCERS, OFFSETS, st.booleans())))
def test_a_batch_is_aborted_if_a_transaction_of_its_producer_holds_its_offset(
    aborted: list[tuple[int, int, int]], batches: list[tuple[int, int, bool]]
) -> None:
    rows = np.zeros(len(batches), HEADER_DTYPE)
    for row, (producer, offset, is_transactional) in zip(rows, batches, strict=True):
        row["producer_id"], row["last_offset"] = producer, offset
        row["attributes"] = TRANSACTIONAL_BIT if is_transactional else 0
    found = AbortedBatches(AbortedTxn(*each, 0) for each in aborted).among(rows)
    assert found.tolist() == [
        is_transactional and any(whose == producer and first <= offset <= last for whose, first, last in aborted)
        for producer, offset, is_transactional in batches
    ]


def test_damaged_markers_hide_no_others(tmp_path: Path) -> None:
    entries = [marker(i, i, COMMIT if i % 2 else ABORT) for i in range(9)]
    entries[4] = entries[4][:61] + b"\xff" * (len(entries[4]) - 61)
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(entries))
    with FileMessageSet(path) as file:
        rows = file.headers()
        assert (rows["attributes"] & CONTROL_BIT != 0).all()
        names = marker_types(file, rows)
        assert [names.get(position) for position in rows["position"].tolist()] == [
            None if i == 4 else "COMMIT" if i % 2 else "ABORT" for i in range(9)
        ]
        assert marker_types(file, rows[4:5]) == {}


def test_markers_between_many_bytes_are_found(tmp_path: Path) -> None:
    large = ByteBufferMessageSet.from_records([Record(bytes(3 << 20))]).buffer
    path = tmp_path / "0.log"
    path.write_bytes(b"".join([marker(0, 1, ABORT), large, marker(2, 2, COMMIT), large, marker(4, 1, COMMIT)]))
    with FileMessageSet(path) as file:
        rows = file.headers()
        assert list(marker_types(file, rows[::2]).values()) == ["ABORT", "COMMIT", "COMMIT"]


def test_markers_decide_the_transactions_of_a_file_and_later_files_those_left_open(tmp_path: Path) -> None:
    entries = [data(0, 1), data(1, 2), marker(2, 1, ABORT), data(3, 1), marker(4, 2, COMMIT), marker(5, 7, ABORT)]
    path = tmp_path / "0.log"
    path.write_bytes(b"".join([*entries, data(6, 3)]))
    with FileMessageSet(path) as file:
        read, rows = FileTransactions(file), file.headers()
        ended = read.add(rows[:4]) + read.add(rows[4:])
        assert [each[:3] for each in ended] == [(1, 0, 2), (7, 5, 5)]
        assert read.open == {1: 3, 3: 6}
        assert read.aborted_among(rows).tolist() == [True, False, True, False, False, True, False]
        assert read.decide([AbortedTxn(1, 3, 90, 91), AbortedTxn(3, 40, 90, 91)]) == [AbortedTxn(1, 3, 90, 91)]
        assert read.aborted_among(rows).tolist() == [True, False, True, True, False, True, False]
