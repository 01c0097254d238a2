"""A log in a store is read by ranges, and gives what it gives on a disk."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import IsolationLevel
from kafkalog.errors import ChangedWhileReading, CorruptRecordError, NotALogError
from kafkalog.fsck.verifying import verify_path
from kafkalog.storage import remote_path
from kafkalog.storage.checkpoint.checkpoint_file import write_offset_checkpoint
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.files import remote_file
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.remote_path import to_path
from tests.helpers import golden
from tests.helpers.partition_dirs import NOW, batch, log_of
from tests.helpers.partitions import sampled_of_all_partitions
from tests.helpers.stores import MemoryStore

pytest.importorskip("fsspec", reason="fsspec is missing: pip install 'kafkalog[remote]'")
EVERY = (IsolationLevel.LOG_END, IsolationLevel.TXN_COMMITTED)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    """An empty store, of which what is there is asked anew each time."""
    monkeypatch.setattr("kafkalog.storage.read.segment_listing.BELIEVED_SECONDS", 0)
    made = MemoryStore(monkeypatch)
    yield made
    made.clear()


@pytest.fixture
def orders(tmp_path: Path, store: MemoryStore) -> str:
    """The URL of three segments of ten records."""
    return store.put(log_of(tmp_path / "orders-0"), "backup/orders-0")


def log_file(url: str, base: int) -> str:
    return f"{url}/{base:020d}.log"


def offsets(url: str) -> list[int]:
    with kafkalog.open(url) as log:
        return [record.offset for record in log]


@sampled_of_all_partitions
def test_what_brokers_wrote_is_the_same_in_a_store(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, partition: golden.Partition
) -> None:
    monkeypatch.setattr(remote_file, "MOST_BYTES", 3000)
    directory = partition.directory
    store.put(directory.parent, "data")
    with kafkalog.open(directory) as local, kafkalog.open(f"memory://data/{directory.name}") as far:
        for name in ("log_start_offset", "log_end_offset", "high_watermark", "last_stable_offset", "recovery_point"):
            assert getattr(far, name) == getattr(local, name)
        assert far.high_watermark_metadata == local.high_watermark_metadata
        assert far.leader_epochs.entries == local.leader_epochs.entries
        assert far.producer_state.active_producers == local.producer_state.active_producers
        assert far.size_in_bytes == local.size_in_bytes
        for isolation in EVERY:
            assert list(far.records(isolation=isolation)) == list(local.records(isolation=isolation))
            assert far.count(isolation=isolation) == local.count(isolation=isolation)
        start, end = local.log_start_offset, local.log_end_offset
        middle = (start + end) // 2
        assert list(far.records(middle, middle + 20)) == list(local.records(middle, middle + 20))
        one, other = (each.read(middle, 5000, IsolationLevel.TXN_COMMITTED, True) for each in (far, local))
        assert one.fetch_offset_metadata == other.fetch_offset_metadata
        assert one.aborted_transactions == other.aborted_transactions
        assert [record.offset for record in one.message_set] == [record.offset for record in other.message_set]
        times = {record.timestamp for record in local.records(middle, middle + 3)} | {0, 2**60, -1}
        for time in times:
            assert far.offset_for_timestamp(max(time, -3)) == local.offset_for_timestamp(max(time, -3))


def test_a_log_that_grows_and_is_rolled_is_followed(store: MemoryStore, orders: str) -> None:
    with kafkalog.open(orders) as log:
        assert log.log_end_offset == 30
        store.change(log_file(orders, 20), lambda data: data + batch(30))
        assert log.log_end_offset == 31
        store.files.pipe_file(f"/backup/orders-0/{31:020d}.log", batch(31))
        assert [record.offset for record in log] == list(range(32))
        store.files.rm(f"/backup/orders-0/{0:020d}.log")
        assert log.log_start_offset == 10


def test_a_listing_is_believed_for_some_seconds(
    store: MemoryStore, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalog.storage.read.segment_listing.BELIEVED_SECONDS", 1000)
    with kafkalog.open(orders) as log:
        before = len(store.listed)
        for _ in range(5):
            assert (log.log_start_offset, log.log_end_offset) == (0, 30)
        assert len(store.listed) == before
        assert len(store.ranges) < 10
        with pickle.loads(pickle.dumps(log)) as copy:
            assert [record.offset for record in copy] == list(range(30))


def test_the_checkpoints_of_the_data_directory_count(store: MemoryStore, tmp_path: Path) -> None:
    log_of(tmp_path / "data" / "orders-0")
    for name, offset in (("log-start-offset-checkpoint", 12), ("replication-offset-checkpoint", 25)):
        write_offset_checkpoint(tmp_path / "data" / name, {TopicPartition("orders", 0): offset})
    with kafkalog.open(store.put(tmp_path / "data", "data") + "/orders-0") as log:
        assert (log.log_start_offset, log.high_watermark, log.last_stable_offset) == (12, 25, 25)


# --- damage


@pytest.mark.parametrize("tail", [batch(30)[:-5], bytes(100_000), bytes(5)], ids=["torn", "zeroed", "some zeros"])
def test_a_torn_or_zeroed_tail_ends_the_log(store: MemoryStore, orders: str, tail: bytes) -> None:
    store.change(log_file(orders, 20), lambda data: data + tail)
    with kafkalog.open(orders) as log:
        assert log.log_end_offset == 30
    assert offsets(orders) == list(range(30))


def test_damage_names_the_url(store: MemoryStore, orders: str) -> None:
    store.change(log_file(orders, 10), lambda data: data[:-1] + b"?")
    with pytest.raises(CorruptRecordError, match=f"{log_file(orders, 10)}: position "):
        offsets(orders)
    found = list(verify_path(orders))
    assert [(each.code, each.path) for each in found] == [("crc-mismatch", log_file(orders, 10))]


@pytest.mark.parametrize("change", [lambda data: data[:-3], lambda data: data[:-100] + bytes(100)])
def test_a_sealed_segment_with_a_torn_tail_is_damage_as_on_a_disk(
    store: MemoryStore, orders: str, tmp_path: Path, change: Any
) -> None:
    local = Path(shutil.copytree(tmp_path / "orders-0", tmp_path / "damaged" / "orders-0"))
    path = local / f"{10:020d}.log"
    path.write_bytes(change(path.read_bytes()))
    store.change(log_file(orders, 10), change)
    findings = [[str(each) for each in verify_path(place)] for place in (local, orders)]
    assert findings[0] == [each.replace(orders, str(local)) for each in findings[1]]
    for place in (local, orders):
        with kafkalog.open(place) as log, pytest.raises(CorruptRecordError):
            list(log)


def test_a_wrong_index_changes_nothing_that_is_read(store: MemoryStore, orders: str) -> None:
    for base in (0, 10, 20):
        for kind in ("index", "timeindex"):
            store.files.pipe_file(f"/backup/orders-0/{base:020d}.{kind}", bytes(range(256)) * 3)
    with kafkalog.open(orders) as log:
        assert log.log_end_offset == 30
        assert next(iter(log.records(17))).offset == 17


# --- files that change while they are read


def test_a_file_that_became_shorter_is_an_error_that_names_it(store: MemoryStore, orders: str) -> None:
    path = log_file(orders, 0)
    with closing(open_source(path)) as file:
        size = file.size
        store.change(path, lambda data: data[:500])
        assert bytes(file.view(0, 100))
        with pytest.raises(ChangedWhileReading, match=rf"{path}: position 400: the file became shorter .*found 500"):
            file.view(400, size - 400)
        with pytest.raises(ChangedWhileReading, match=path):
            file.view(size, 1)


def test_a_range_that_a_store_refuses_as_behind_the_end_means_that_the_file_became_shorter(
    store: MemoryStore, orders: str
) -> None:
    path = log_file(orders, 0)
    with closing(open_source(path)) as file:
        store.change(path, lambda data: data[:500])
        store.failing = lambda _: (_ for _ in ()).throw(OSError("416 Requested Range Not Satisfiable"))
        with pytest.raises(ChangedWhileReading, match=path):
            file.view(600, 10)
        with pytest.raises(OSError, match=f"{path} cannot be read: .*416"):
            file.view(400, 10)


def test_a_file_that_was_deleted_between_requests_is_an_error_that_names_it(
    store: MemoryStore, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalog.storage.read.segment_listing.BELIEVED_SECONDS", 1000)
    with kafkalog.open(orders) as log:
        records = iter(log)
        next(records)
        for base in (0, 10, 20):
            store.files.rm(f"/backup/orders-0/{base:020d}.log")
        with pytest.raises(FileNotFoundError, match=orders):
            list(records)


# --- requests and memory


def test_ranges_grow_while_a_file_is_read_on_and_only_two_are_kept(store: MemoryStore) -> None:
    store.files.pipe_file("/large", bytes(64 << 20))
    with closing(open_source("memory://large")) as file:
        assert isinstance(file, remote_file.RemoteFile)
        for position in range(0, 64 << 20, 16 << 10):
            assert len(file.view(position, 16 << 10)) == 16 << 10
            assert sum(len(data) for _, data in file._ranges) <= 2 * remote_file.MOST_BYTES
        lengths = [each.length for each in store.ranges]
        assert lengths[:5] == [64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20]
        assert max(lengths) == 8 << 20
        assert sum(lengths) <= 64 << 20
        store.ranges.clear()
        for position in (1 << 20, 50 << 20, 20 << 20):
            file.view(position, 10)
        assert [each.length for each in store.ranges] == [64 << 10] * 3
    with pytest.raises(kafkalog.errors.LogStateError, match="closed"):
        file.view(0, 1)


def test_any_views_are_the_bytes_of_the_file(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_file, "FIRST_BYTES", 100)
    monkeypatch.setattr(remote_file, "MOST_BYTES", 1000)
    data = os.urandom(5000)
    store.files.pipe_file("/some", data)
    with closing(open_source("memory://some")) as file:

        def look(seed: int) -> None:
            for i in range(300):
                position = (seed * 7919 + i * 104_729) % 5000
                length = min(5000 - position, (i * 31) % 1700)
                assert bytes(file.view(position, length)) == data[position : position + length]

        threads = [threading.Thread(target=look, args=(seed,)) for seed in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()


def test_opening_a_log_reads_the_end_of_the_last_segment_and_no_other(store: MemoryStore, tmp_path: Path) -> None:
    url = store.put(log_of(tmp_path / "orders-0", segments=50, per_segment=300), "data/orders-0")
    with kafkalog.open(url) as log:
        assert log.log_end_offset == 15_000
        logs = [each for each in store.ranges if each.name.endswith(".log")]
        assert {each.name for each in logs} == {f"{14_700:020d}.log"}
        assert len(store.listed) < 8
        store.ranges.clear()
        assert next(iter(log.records(7123))).offset == 7123
        assert {each.name.partition(".")[0] for each in store.ranges} == {f"{6900:020d}"}
        assert len(store.ranges) <= 3


def test_a_search_by_time_fetches_one_index_of_each_segment_that_is_too_early(
    store: MemoryStore, tmp_path: Path
) -> None:
    url = store.put(log_of(tmp_path / "orders-0", segments=20), "data/orders-0")
    with kafkalog.open(url) as log:
        assert log.log_end_offset == 200
        store.ranges.clear()
        found = log.offset_for_timestamp(NOW + 155)
        assert found is not None
        assert found.offset == 155
        early = [each.name for each in store.ranges if int(each.name.partition(".")[0]) < 150]
        assert sorted(early) == [f"{base:020d}.timeindex" for base in range(0, 150, 10)]


def test_a_log_in_a_store_has_no_file_open(store: MemoryStore, orders: str) -> None:
    listing = Path("/proc/self/fd")
    if not listing.exists():
        pytest.skip("no /proc to count descriptors in")
    before = len(list(listing.iterdir()))
    with kafkalog.open(orders) as log:
        assert len(list(log)) == 30
        assert log.offset_for_timestamp(NOW + 5) is not None
        assert len(list(listing.iterdir())) == before


# --- what cannot be done


def test_a_log_in_a_store_is_not_appended_to(store: MemoryStore, orders: str) -> None:
    with pytest.raises(io.UnsupportedOperation, match="memory://backup/new-0 is in a store"):
        kafkalog.open("memory://backup/new-0", "a")
    with kafkalog.open(orders) as log, pytest.raises(io.UnsupportedOperation):
        log.append([kafkalog.Record(b"x")])  # type: ignore[attr-defined]


def test_what_is_no_partition_is_refused_by_name(store: MemoryStore, orders: str) -> None:
    with pytest.raises(FileNotFoundError, match="memory:///backup/none-0 does not exist"):
        kafkalog.open("memory://backup/none-0")
    with pytest.raises(NotADirectoryError, match="a partition directory is needed, and this is a file"):
        kafkalog.open(log_file(orders, 0))
    with pytest.raises(NotALogError, match="memory:///backup: a data directory, not a partition"):
        kafkalog.open("memory://backup")
    with pytest.raises(ValueError, match="'nosuch://x': Protocol not known"):
        kafkalog.open("nosuch://x")


def test_without_fsspec_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"pip install 'kafkalog\[remote\]' s3fs"):
        kafkalog.open("s3://backup/orders-0")


def test_a_path_in_a_store_has_the_operations_of_a_path(store: MemoryStore, orders: str) -> None:
    path = to_path(log_file(orders, 10))
    assert (path.name, path.suffix, path.parent.name) == (f"{10:020d}.log", ".log", "orders-0")
    assert path == path.parent / path.name == pickle.loads(pickle.dumps(path))
    assert hash(path) == hash(path.parent / path.name)
    assert repr(path) == f"RemotePath('{path}')"
    assert path.is_file()
    assert path.parent.is_dir()
    assert not path.with_name("other").exists()
    listed = {each.name: each for each in path.parent.iterdir()}
    assert listed[path.name].stat().st_size == path.stat().st_size == len(path.read_bytes())
    with pytest.raises(FileNotFoundError):
        listed[path.name].with_name("other").read_bytes()
    assert remote_path.is_remote("s3://x")
    assert not remote_path.is_remote("file:///x")


def test_writing_to_a_url_is_refused_and_creates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for mode in ("r", "a"):
        with pytest.raises(io.UnsupportedOperation, match="is in a store"):
            kafkalog.LogManager("memory://backup", mode)
    with pytest.raises(io.UnsupportedOperation, match="is in a store"):
        kafkalog.FileMessageSet("memory://backup/orders-0/00000000000000000000.log", read_only=False)
    assert not list(tmp_path.iterdir())


def test_a_file_url_is_a_path_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"file://{tmp_path}/my%20logs/orders-0"
    with kafkalog.open(url, "a") as log:
        log.append([kafkalog.Record(b"a")])
    assert offsets(url) == offsets(str(tmp_path / "my logs" / "orders-0")) == [0]
    assert [each.name for each in tmp_path.iterdir()] == ["my logs"]
    with pytest.raises(ValueError, match="names a host"):
        kafkalog.open("file://elsewhere/orders-0")


def test_a_directory_named_as_a_segment_is_no_segment(store: MemoryStore, orders: str, tmp_path: Path) -> None:
    (tmp_path / "inside").write_bytes(b"x")
    store.put(tmp_path / "inside", f"backup/orders-0/{9999:020d}.log/inside")
    with kafkalog.open(orders) as log, pytest.raises(NotALogError, match="not a regular file"):
        _ = log.log_end_offset


def test_a_batch_at_the_last_index_entry_that_cannot_be_decompressed_does_not_hide_the_log_end(
    store: MemoryStore, tmp_path: Path
) -> None:
    source = golden.unpacked() / "kafka-0.10.2" / "data" / "v1-gzip-0"
    directory = Path(shutil.copytree(source, tmp_path / source.name))
    last = max(directory.glob("*.log"))
    data = bytearray(last.read_bytes())
    data[-3] ^= 1
    last.write_bytes(data)
    with kafkalog.open(directory) as local, kafkalog.open(store.put(directory, f"f/{source.name}")) as far:
        assert far.log_end_offset == local.log_end_offset
        assert far.high_watermark == local.high_watermark
