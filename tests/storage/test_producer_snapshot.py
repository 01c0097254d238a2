"""`.snapshot` files: their bytes, those of brokers, and damage."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import AppendOrigin, FileMessageSet
from kafkalog.errors import CorruptSnapshotError
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.producer.producer_snapshot import encode_snapshot, read_snapshot, snapshot_files, write_snapshot
from kafkalog.storage.producer.producer_state_entry import BatchMetadata, ProducerStateEntry
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from tests.helpers import golden
from tests.helpers.golden import Partition
from tests.helpers.strategies import DAMAGES

WITH_SNAPSHOTS = [partition for partition in golden.partitions() if snapshot_files(partition.directory)]
ARCHIVES_WITH_DUMPS = sorted({partition.archive for partition in WITH_SNAPSHOTS})

with_snapshots = pytest.mark.parametrize("partition", WITH_SNAPSHOTS, ids=lambda partition: partition.id)

int16s = st.sampled_from([0, 1, -1, 2**15 - 1]) | st.integers(-(2**15), 2**15 - 1)
int32s = st.sampled_from([0, -1, 2**31 - 1]) | st.integers(-(2**31), 2**31 - 1)
int64s = st.sampled_from([0, -1, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)
offsets = st.integers(0, 2**63 - 1)


@st.composite
def entries(draw: st.DrawFn) -> ProducerStateEntry:
    timestamp = draw(int64s)
    batch = st.tuples(st.builds(BatchMetadata, int32s, offsets, int32s, st.just(timestamp)))
    batches = draw(st.just(()) | batch)
    return ProducerStateEntry(draw(int64s), draw(int16s), draw(int32s), timestamp, draw(st.none() | offsets), batches)


def snapshot_of(body: bytes, version: int = 1) -> bytes:
    """Return the bytes of a file with a right CRC over this body."""
    return struct.pack(">hI", version, crc32c(body)) + body


def test_a_snapshot_of_one_producer_is_these_56_bytes(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000042.snapshot"
    entry = ProducerStateEntry(7, 3, 2, 1_700_000_000_000, 30, (BatchMetadata(5, 41, 1, 1_700_000_000_000),))
    write_snapshot(path, [entry])
    body = struct.pack(">iqhiqiqiq", 1, 7, 3, 5, 41, 1, 1_700_000_000_000, 2, 30)
    assert path.read_bytes() == snapshot_of(body)
    assert path.stat().st_size == 56
    assert read_snapshot(path) == [entry]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_snapshot_without_producers_is_ten_bytes(tmp_path: Path) -> None:
    path = tmp_path / "1.snapshot"
    write_snapshot(path, [], sync=False)
    assert path.read_bytes() == snapshot_of(bytes(4))
    assert read_snapshot(path) == []


def test_a_snapshot_keeps_only_the_latest_batch_of_a_producer(tmp_path: Path) -> None:
    path = tmp_path / "9.snapshot"
    batches = tuple(BatchMetadata(number, number, 0, 9) for number in range(5))
    write_snapshot(path, [ProducerStateEntry(1, 0, -1, 9, None, batches)])
    assert read_snapshot(path) == [ProducerStateEntry(1, 0, -1, 9, None, batches[-1:])]


def test_a_shorter_snapshot_replaces_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "9.snapshot"
    path.write_bytes(bytes(1000))
    write_snapshot(path, [])
    assert path.stat().st_size == 10


@given(st.lists(entries(), max_size=5))
def test_snapshots_round_trip(tmp_path_factory: pytest.TempPathFactory, known: list[ProducerStateEntry]) -> None:
    path = tmp_path_factory.getbasetemp() / "again.snapshot"
    path.write_bytes(encode_snapshot(known))
    assert read_snapshot(path) == known


# --- damage


def refused(path: Path, data: bytes) -> CorruptSnapshotError:
    path.write_bytes(data)
    with pytest.raises(CorruptSnapshotError) as caught:
        read_snapshot(path)
    assert caught.value.path == str(path)
    return caught.value


@pytest.mark.parametrize("length", [0, 1, 2, 6, 9])
def test_a_file_that_ends_in_its_header_is_refused(tmp_path: Path, length: int) -> None:
    error = refused(tmp_path / "1.snapshot", encode_snapshot([])[:length])
    assert (error.expected, error.found) == ("10 bytes", length)


@pytest.mark.parametrize("version", [0, 2, -1])
def test_a_version_that_is_not_1_is_refused(tmp_path: Path, version: int) -> None:
    error = refused(tmp_path / "1.snapshot", snapshot_of(bytes(4), version))
    assert (error.position, error.expected) == (0, 1)


def test_zeros_are_refused_for_their_version(tmp_path: Path) -> None:
    assert refused(tmp_path / "1.snapshot", bytes(37)).position == 0


@pytest.mark.parametrize("count", [-1, -(2**31), 2, 2**31 - 1])
def test_more_producers_than_there_are_bytes_are_refused_though_the_crc_holds(tmp_path: Path, count: int) -> None:
    body = struct.pack(">i", count) + bytes(46)
    assert refused(tmp_path / "1.snapshot", snapshot_of(body)).position == 6


def test_bytes_after_the_last_producer_are_ignored_if_the_crc_covers_them(tmp_path: Path) -> None:
    path = tmp_path / "1.snapshot"
    path.write_bytes(snapshot_of(bytes(4) + b"more"))
    assert read_snapshot(path) == []


def test_every_flipped_bit_and_every_shorter_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "1.snapshot"
    data = encode_snapshot([ProducerStateEntry(7, 3, 2, 99, 30, (BatchMetadata(5, 41, 1, 99),))])
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        refused(path, bytes(flipped))
    for length in range(len(data)):
        refused(path, data[:length])


@given(st.data(), st.lists(entries(), min_size=1, max_size=3))
def test_damage_raises_corrupt_snapshot_error_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, known: list[ProducerStateEntry]
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.snapshot"
    sound = encode_snapshot(known)
    path.write_bytes(data.draw(data.draw(st.sampled_from(DAMAGES))(sound)))
    try:
        assert read_snapshot(path) == known
    except CorruptSnapshotError:
        assert path.read_bytes() != sound


# --- which files are snapshots


def test_snapshots_are_found_by_their_names(tmp_path: Path) -> None:
    others = ["5.snapshot.deleted", "x.snapshot", "-5.snapshot", "7.snapshot.tmp", "8.log", f"{2**63}.snapshot"]
    for name in ["00000000000000000042.snapshot", "5.snapshot", *others]:
        (tmp_path / name).touch()
    (tmp_path / "6.snapshot").mkdir()
    found = {5: tmp_path / "5.snapshot", 42: tmp_path / "00000000000000000042.snapshot"}
    assert snapshot_files(tmp_path) == found
    assert snapshot_files(tmp_path / "missing") == {}


# --- what brokers wrote


LINE = re.compile(
    r"producerId: (-?\d+) producerEpoch: (-?\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: "
    r"OptionalLong(?:\.empty|\[(\d+)\]) lastTimestamp: (-?\d+) "
    r"(?:firstSequence: (-?\d+) lastSequence: (-?\d+) lastOffset: (-?\d+) offsetDelta: (-?\d+) timestamp: (-?\d+))?"
)


def dumped(archive: str) -> dict[str, list[tuple[str | None, ...]]]:
    """Return the entries that Kafka's dump tool lists for each snapshot of an archive, by file."""
    lines = (golden.unpacked() / archive / "expected" / "index-dump.txt").read_text().splitlines()
    found: dict[str, list[tuple[str | None, ...]]] = {}
    name = ""
    for line in lines:
        if line.startswith("Dumping "):
            name = line.removeprefix("Dumping ")
        elif name.endswith(".snapshot"):
            match = LINE.fullmatch(line)
            assert match, line
            found.setdefault(name, []).append(match.groups())
    return found


def as_dumped(entry: ProducerStateEntry) -> tuple[str | None, ...]:
    began, batches = entry.current_txn_first_offset, entry.batch_metadata
    head = (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, began, entry.last_timestamp)
    batch = (batches[0].first_seq, *batches[0]) if batches else (None,) * 5
    return tuple(None if field is None else str(field) for field in (*head, *batch))


@pytest.mark.parametrize(
    "archive", [name for name in ARCHIVES_WITH_DUMPS if (golden.unpacked() / name / "expected/index-dump.txt").exists()]
)
def test_a_brokers_snapshots_read_as_kafkas_dump_tool_lists_them(archive: str) -> None:
    data = golden.unpacked() / archive / "data"
    expected = dumped(archive)
    assert expected
    for path in sorted(data.glob("*/*.snapshot")):
        seen = expected.pop(f"{path.parent.name}/{path.name}", [])
        assert [as_dumped(entry) for entry in read_snapshot(path)] == seen, path
    assert not expected


@with_snapshots
def test_a_brokers_snapshots_are_encoded_byte_for_byte(partition: Partition) -> None:
    for path in snapshot_files(partition.directory).values():
        assert encode_snapshot(read_snapshot(path)) == path.read_bytes()


@with_snapshots
def test_producer_state_rebuilt_from_a_brokers_log_equals_its_snapshots(partition: Partition, tmp_path: Path) -> None:
    snapshots = sorted(snapshot_files(partition.directory).items())
    manager = ProducerStateManager(tmp_path, partition.directory.name)
    for log in sorted(partition.directory.glob("*.log")):
        with FileMessageSet(log) as file:
            for batch in file.batches():
                while snapshots and snapshots[0][0] <= batch.base_offset:
                    assert_same(manager, snapshots.pop(0)[1])
                take(manager, batch)
    for _, path in snapshots:
        assert_same(manager, path)


def take(manager: ProducerStateManager, batch: RecordBatch) -> None:
    if batch.producer_id >= 0:
        info = manager.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
        completed = info.append(batch)
        manager.update(info)
        if completed is not None:
            manager.complete_txn(completed)
    manager.update_map_end_offset(batch.next_offset)


def assert_same(manager: ProducerStateManager, path: Path) -> None:
    known = {
        entry._replace(batch_metadata=tuple(each._replace(timestamp=entry.last_timestamp) for each in last))
        for entry in manager.active_producers.values()
        for last in [entry.batch_metadata[-1:]]
    }
    assert known == set(read_snapshot(path)), path
