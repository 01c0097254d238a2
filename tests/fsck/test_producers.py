"""Transaction indexes and producer snapshots against the batches."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from kafkalog.fsck import Consequence
from kafkalog.storage.index.transaction_index import ENTRY_SIZE, AbortedTxn
from kafkalog.storage.producer.producer_snapshot import read_snapshot, write_snapshot
from tests.helpers.broker_dirs import TRANSACTIONS, broker_dir, findings, told
from tests.helpers.damage import flipped


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return broker_dir(tmp_path, TRANSACTIONS)


@pytest.fixture
def index(data: Path) -> Path:
    return sorted((data / TRANSACTIONS).glob("*.txnindex"))[2]


@pytest.fixture
def snapshot(data: Path) -> Path:
    """The newest one."""
    return max((data / TRANSACTIONS).glob("*.snapshot"))


@pytest.mark.parametrize("missing", [True, False])
def test_aborted_transactions_without_an_entry_are_found_with_their_offsets(index: Path, missing: bool) -> None:
    aborted = AbortedTxn.from_bytes(index.read_bytes()[:ENTRY_SIZE])
    if missing:
        index.unlink()
    else:
        index.write_bytes(b"")
    (found,) = findings(index.parent)
    assert (found.code, found.path, found.consequence) == ("txn-index-missing", str(index), Consequence.SERVED_WRONGLY)
    assert (found.first_offset, found.last_offset) == (aborted.first_offset, aborted.last_offset)


def test_a_missing_transaction_index_is_rebuilt_with_a_missing_offset_index(index: Path) -> None:
    index.unlink()
    index.with_suffix(".index").unlink()
    found = {each.code: each.consequence for each in findings(index.parent)}
    assert found == {"index-missing": Consequence.REBUILT, "txn-index-missing": Consequence.REBUILT}


def test_an_entry_without_an_aborted_transaction_is_found(index: Path) -> None:
    entries = index.read_bytes()
    last = AbortedTxn.from_bytes(entries[-ENTRY_SIZE:])
    wrong = last._replace(producer_id=last.producer_id + 9)
    index.write_bytes(entries[:-ENTRY_SIZE] + wrong.to_bytes())
    codes = [(each.code, each.position) for each in findings(index.parent)]
    assert codes == [("txn-index-missing", None), ("txn-index-entries", len(entries) - ENTRY_SIZE)]


def test_an_entry_that_ends_early(index: Path) -> None:
    size = index.stat().st_size
    with index.open("ab") as file:
        file.write(b"\0\0\1")
    (found,) = findings(index.parent)
    assert (found.code, found.position, found.length) == ("index-size", size, 3)


def test_an_index_that_does_not_follow_the_format_is_rebuilt(index: Path) -> None:
    content = index.read_bytes()
    for changed in (b"\0\1" + content[2:], bytes(len(content)), content[:ENTRY_SIZE] * 2):
        index.write_bytes(changed)
        assert told(index.parent) == [("txn-index-format", "rebuilt", index.name)]


def test_a_version_that_a_broker_notices_keeps_it_from_starting(index: Path) -> None:
    index.write_bytes(b"\1" + index.read_bytes()[1:])
    (found,) = findings(index.parent)
    assert (found.code, found.position, found.found) == ("txn-index-version", 0, 256)
    assert found.consequence is Consequence.NO_START


def test_a_snapshot_with_a_wrong_checksum_is_found(snapshot: Path) -> None:
    snapshot.write_bytes(flipped(snapshot.read_bytes(), 20, 3))
    (found,) = findings(snapshot.parent)
    assert (found.code, found.position, found.consequence) == ("snapshot-format", 2, Consequence.REBUILT)


def test_a_snapshot_of_an_unknown_version_is_found(snapshot: Path) -> None:
    snapshot.write_bytes(struct.pack(">h", 9) + snapshot.read_bytes()[2:])
    (found,) = findings(snapshot.parent)
    assert (found.code, found.expected, found.found) == ("snapshot-format", 1, 9)


def test_a_stale_snapshot_is_found(snapshot: Path) -> None:
    shutil.copy2(sorted(snapshot.parent.glob("*.snapshot"))[1], snapshot)
    found = findings(snapshot.parent)
    assert {(each.code, each.path) for each in found} == {("snapshot-differs", str(snapshot))}
    assert "an older last offset of producer" in found[0].message


def test_a_snapshot_that_says_less_than_the_batches_is_found_by_producer(snapshot: Path) -> None:
    first, *others = read_snapshot(snapshot)
    older = first._replace(producer_epoch=first.producer_epoch - 1)
    write_snapshot(snapshot, [older, *others], sync=False)
    (found,) = findings(snapshot.parent)
    assert f"producer {first.producer_id} " in found.message
    assert (found.expected, found.found) == (first.producer_epoch, older.producer_epoch)


def test_a_snapshot_with_batches_behind_its_offset_is_of_another_log(snapshot: Path) -> None:
    first, *others = read_snapshot(snapshot)
    (batch,) = first.batch_metadata
    ahead = first._replace(batch_metadata=(batch._replace(last_offset=99_999),))
    write_snapshot(snapshot, [ahead, *others], sync=False)
    (found,) = findings(snapshot.parent)
    assert (found.code, found.found) == ("snapshot-differs", 99_999)


def test_producers_without_any_snapshot_would_be_forgotten(data: Path) -> None:
    for path in (data / TRANSACTIONS).glob("*.snapshot"):
        path.unlink()
    assert told(data) == [("snapshot-missing", "served-wrongly", TRANSACTIONS)]


def test_an_older_snapshot_is_enough(snapshot: Path) -> None:
    snapshot.unlink()
    assert findings(snapshot.parent) == []


def test_the_entry_of_a_transaction_that_began_in_deleted_segments_is_right(index: Path) -> None:
    (index.parents[1] / ".kafka_cleanshutdown").unlink()
    for path in index.parent.iterdir():
        if path.stem.isdigit() and int(path.stem) < int(index.stem):
            path.unlink()
    assert findings(index.parent) == []
