"""The transaction index: Kafka's rules, files that real brokers made, damage, and a disk that fails."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptIndexError, LogStateError
from kafkalog.storage.index.transaction_index import ENTRY_SIZE, AbortedTxn, TransactionIndex
from tests.helpers.indexes import Rows, base_offset, dumped_by_partition, fill, no_space, small_disk

FOUR = [AbortedTxn(0, 0, 10, 11), AbortedTxn(1, 5, 15, 13), AbortedTxn(2, 18, 35, 25), AbortedTxn(3, 32, 50, 40)]
OFFSETS = st.integers(0, 2**63 - 1)
GOLDEN = dumped_by_partition(".txnindex")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.txnindex"


@pytest.fixture
def index(path: Path) -> TransactionIndex:
    return TransactionIndex(path, 0)


@pytest.fixture
def four(index: TransactionIndex) -> TransactionIndex:
    for txn in FOUR:
        index.append(txn)
    return index


# --- Kafka's rules


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "found", "is_complete"),
    [
        (0, 100, FOUR, False),
        (0, 32, FOUR[:3], True),
        (0, 35, FOUR, True),
        (10, 35, FOUR, True),
        (11, 35, FOUR[1:], True),
        (20, 41, FOUR[2:], False),
    ],
)
def test_transactions_that_overlap_a_read_are_collected_until_no_later_one_can(
    four: TransactionIndex, fetch_offset: int, upper_bound: int, found: list[AbortedTxn], is_complete: bool
) -> None:
    assert four.collect_aborted_txns(fetch_offset, upper_bound) == (found, is_complete)
    reading = TransactionIndex(four.path, 0, writable=False)
    assert reading.collect_aborted_txns(fetch_offset, upper_bound) == (found, is_complete)


@pytest.mark.parametrize("last_offset", [15, 10])
def test_a_marker_offset_not_after_the_last_is_refused(index: TransactionIndex, path: Path, last_offset: int) -> None:
    index.append(FOUR[1])
    for each in (index, TransactionIndex(path, 0)):
        with pytest.raises(ValueError, match="not larger than 15"):
            each.append(AbortedTxn(0, 0, last_offset, 11))
        assert list(each) == [FOUR[1]]


def test_a_marker_before_the_segment_is_corrupt(four: TransactionIndex, path: Path) -> None:
    four.sanity_check()
    with pytest.raises(CorruptIndexError) as error:
        TransactionIndex(path, 100).sanity_check()
    assert (error.value.path, error.value.position, error.value.found) == (str(path), 0, 10)


def test_truncating_removes_entries_from_the_first_marker_at_or_after_the_offset(
    four: TransactionIndex, path: Path
) -> None:
    four.truncate_to(51)
    assert list(four) == FOUR
    four.truncate_to(50)
    assert (list(four), four.last_offset, path.stat().st_size) == (FOUR[:3], 35, 3 * ENTRY_SIZE)
    four.append(FOUR[3])
    four.truncate_to(11)
    assert list(four) == FOUR[:1]
    four.reset()
    assert (list(four), four.last_offset, path.stat().st_size) == ([], None, 0)
    four.append(FOUR[0])
    assert list(TransactionIndex(path, 0)) == FOUR[:1]


def test_only_the_first_append_creates_the_file(index: TransactionIndex, path: Path) -> None:
    index.flush()
    index.truncate_to(5)
    index.reset()
    index.sanity_check()
    assert (list(index), index.last_offset, index.collect_aborted_txns(0, 9)) == ([], None, ([], False))
    assert not path.exists()
    index.append(FOUR[0])
    index.flush()
    assert list(index) == FOUR[:1]
    assert path.read_bytes() == bytes(2 + 8 + 8) + (10).to_bytes(8, "big") + (11).to_bytes(8, "big")


def test_a_renamed_index_is_used_under_its_new_name(four: TransactionIndex, path: Path) -> None:
    renamed = path.with_suffix(".txnindex.deleted")
    four.rename_to(renamed)
    assert (four.path, path.exists(), list(four)) == (renamed, False, FOUR)
    four.append(AbortedTxn(4, 51, 60, 61))
    four.close()
    assert renamed.stat().st_size == 5 * ENTRY_SIZE


def test_an_index_without_a_file_takes_its_new_name_too(index: TransactionIndex, path: Path) -> None:
    index.rename_to(path.with_suffix(".swap"))
    assert index.path == path.with_suffix(".swap")
    index.append(FOUR[0])
    assert index.path.exists()


def test_a_closed_index_refuses_reads_and_writes(four: TransactionIndex) -> None:
    four.close()
    four.close()
    four.flush()
    for ask in (lambda: list(four), lambda: four.append(FOUR[0]), four.reset):
        with pytest.raises(LogStateError, match="closed"):
            ask()


# --- entries


@given(st.builds(AbortedTxn, OFFSETS, OFFSETS, OFFSETS, OFFSETS))
def test_entries_round_trip(txn: AbortedTxn) -> None:
    raw = txn.to_bytes()
    assert (len(raw), raw[:2], AbortedTxn.from_bytes(raw)) == (ENTRY_SIZE, b"\0\0", txn)


# --- files of real brokers


@pytest.mark.parametrize("files", GOLDEN.values(), ids=GOLDEN)
def test_a_brokers_indexes_read_as_kafka_lists_them_and_are_written_with_the_same_bytes(
    tmp_path: Path, files: dict[Path, Rows]
) -> None:
    for path, expected in files.items():
        index = TransactionIndex(path, base_offset(path), writable=False)
        assert [(0, *txn) for txn in index] == expected
        index.sanity_check()
        again = TransactionIndex(tmp_path / path.name, base_offset(path))
        for txn in index:
            again.append(txn)
        assert again.path.read_bytes() == path.read_bytes()


# --- damage


def test_the_error_of_an_entry_names_the_file_and_keeps_its_traceback(path: Path) -> None:
    path.write_bytes(b"\0\1" + bytes(ENTRY_SIZE - 2))
    with pytest.raises(CorruptIndexError, match=r"\.txnindex: position 0") as error:
        list(TransactionIndex(path, 0, writable=False))
    assert error.traceback[-1].name == "from_bytes"


@pytest.mark.parametrize("version", [b"\0\1", b"\1\0", b"\xff\xff"])
def test_an_unknown_version_is_an_error_with_its_position(four: TransactionIndex, path: Path, version: bytes) -> None:
    raw = bytearray(path.read_bytes())
    raw[2 * ENTRY_SIZE : 2 * ENTRY_SIZE + 2] = version
    path.write_bytes(raw)
    for writable in (True, False):
        index = TransactionIndex(path, 0, writable=writable)
        uses: list[Callable[[], object]] = [index.sanity_check, partial(index.collect_aborted_txns, 0, 100)]
        for ask in uses:
            with pytest.raises(CorruptIndexError, match="version") as error:
                ask()
            assert (error.value.path, error.value.position) == (str(path), 2 * ENTRY_SIZE)
        assert index.collect_aborted_txns(0, 12).is_complete


def test_a_partial_entry_at_the_end_is_ignored_and_overwritten(four: TransactionIndex, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    index = TransactionIndex(path, 0)
    assert (list(index), index.last_offset) == (FOUR[:3], 35)
    index.sanity_check()
    index.append(FOUR[3])
    assert path.read_bytes() == b"".join(txn.to_bytes() for txn in FOUR)


def test_zeros_end_the_entries_and_fail_the_sanity_check(four: TransactionIndex, path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(2 * ENTRY_SIZE))
    assert list(TransactionIndex(path, 0, writable=False)) == FOUR
    with pytest.raises(CorruptIndexError, match="zero") as error:
        TransactionIndex(path, 0).sanity_check()
    assert error.value.position == 4 * ENTRY_SIZE


def test_falling_marker_offsets_fail_the_sanity_check(path: Path) -> None:
    path.write_bytes(FOUR[1].to_bytes() + FOUR[0].to_bytes())
    with pytest.raises(CorruptIndexError) as error:
        TransactionIndex(path, 0).sanity_check()
    assert (error.value.position, error.value.found) == (ENTRY_SIZE, 10)


def test_an_index_truncated_or_deleted_during_reading_yields_the_remaining_entries(path: Path) -> None:
    txns = [AbortedTxn(1, n, n, n) for n in range(1, 3001)]
    path.write_bytes(b"".join(txn.to_bytes() for txn in txns))
    index = TransactionIndex(path, 0, writable=False)
    entries = iter(index)
    assert [next(entries) for _ in range(10)] == txns[:10]
    os.truncate(path, 2000 * ENTRY_SIZE + 3)
    assert list(entries) == txns[10:2000]
    path.unlink()
    assert list(index) == []


def test_a_reader_changes_nothing_and_follows_the_writer(index: TransactionIndex, path: Path) -> None:
    reading = TransactionIndex(path, 0, writable=False)
    for n, txn in enumerate(FOUR):
        index.append(txn)
        assert list(reading) == FOUR[: n + 1]
    before = path.read_bytes()
    changes: list[Callable[[], object]] = [
        lambda: reading.append(FOUR[0]),
        reading.reset,
        lambda: reading.truncate_to(0),
        lambda: reading.rename_to(path.with_suffix(".x")),
    ]
    for change in changes:
        with pytest.raises(io.UnsupportedOperation, match=str(path)):
            change()
    assert path.read_bytes() == before


# --- a disk that fails


def append_without_end(index: TransactionIndex) -> None:
    for n in itertools.count(2):
        index.append(AbortedTxn(0, 0, n, 0))


@pytest.mark.slow
def test_a_full_disk_leaves_whole_entries_and_the_error(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        index = TransactionIndex(disk / "0.txnindex", 0)
        index.append(AbortedTxn(0, 0, 1, 0))
        other = fill(disk)
        with pytest.raises(OSError, match="No space") as error:
            append_without_end(index)
        written = len(list(index))
        assert error.value.filename == str(index.path)
        assert index.path.stat().st_size == written * ENTRY_SIZE
        assert index.last_offset == written > 1
        other.unlink()
        index.append(AbortedTxn(0, 0, written + 1, 0))
        assert index.last_offset == written + 1


def test_a_partial_write_is_undone(four: TransactionIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    taken = iter([5, 5])

    def in_part(fd: int, data: bytes, position: int) -> int:
        amount = next(taken, 0)
        return pwrite(fd, data[:amount], position) if amount else no_space()

    monkeypatch.setattr(os, "pwrite", in_part)
    before = four.path.read_bytes()
    with pytest.raises(OSError, match="No space"):
        four.append(AbortedTxn(4, 51, 60, 61))
    monkeypatch.undo()
    assert (four.path.read_bytes(), four.last_offset, list(four)) == (before, 50, FOUR)
    four.append(AbortedTxn(4, 51, 60, 61))
    assert four.last_offset == 60


def test_a_truncation_that_fails_leaves_the_index_as_it_was(
    four: TransactionIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "truncate", no_space)
    for change in (four.reset, lambda: four.truncate_to(15)):
        with pytest.raises(OSError, match="No space"):
            change()
    assert (list(four), four.last_offset) == (FOUR, 50)


# --- against a plain list


@given(
    gaps=st.lists(st.integers(1, 20), max_size=60),
    cuts=st.lists(st.integers(0, 700), max_size=3),
    ranges=st.lists(st.tuples(st.integers(0, 700), st.integers(0, 100)), min_size=1, max_size=10),
)
def test_collecting_agrees_with_a_list(
    tmp_path_factory: pytest.TempPathFactory,
    gaps: list[int],
    cuts: list[int],
    ranges: list[tuple[int, int]],
) -> None:
    index = TransactionIndex(tmp_path_factory.mktemp("index") / "0.txnindex", 0)
    txns: list[AbortedTxn] = []
    for gap in gaps:
        last = (txns[-1].last_offset if txns else 0) + gap
        txns.append(AbortedTxn(gap % 3, max(0, last - 3 * gap), last, max(0, last - 2 * gap)))
        index.append(txns[-1])
    for cut in cuts:
        index.truncate_to(cut)
        txns = [txn for txn in txns if txn.last_offset < cut]
    assert (list(index), list(TransactionIndex(index.path, 0))) == (txns, txns)
    for start, length in ranges:
        found, is_complete = index.collect_aborted_txns(start, start + length)
        looked_at = next((n + 1 for n, t in enumerate(txns) if t.last_stable_offset >= start + length), None)
        assert is_complete == (looked_at is not None)
        assert found == [t for t in txns[:looked_at] if t.last_offset >= start and t.first_offset < start + length]


def test_a_pipe_instead_of_the_file_is_corrupt(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0.txnindex")
    with pytest.raises(CorruptIndexError, match="not a regular file"):
        TransactionIndex(tmp_path / "0.txnindex", 0)
