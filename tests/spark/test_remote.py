"""Partitions in another store are read by ranges, and give what they give on a disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.errors import ChangedWhileReading, CorruptRecordError, NotALogError
from kafkalog.spark import plan_splits, read_records, read_split
from kafkalog.spark.read.discover import discover
from kafkalog.spark.read.partition import Partition
from kafkalog.storage.files import remote_file
from tests.helpers import golden
from tests.helpers.partition_dirs import NOW
from tests.helpers.partitions import sampled_archive
from tests.helpers.spark_logs import log_of, offsets, options

fsspec = pytest.importorskip("fsspec", reason="fsspec is missing: pip install 'kafkalog[remote]'")
END = 240


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty store, read in ranges that are shorter than many batches."""
    monkeypatch.setattr(remote_file, "MOST_BYTES", 5000)
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    yield files
    files.store.clear()


@pytest.fixture
def orders(store: Any, tmp_path: Path) -> str:
    """The URL of 240 records in two segments."""
    log_of(tmp_path / "orders-0")
    store.put(str(tmp_path), "/backup", recursive=True)
    return "memory://backup"


def records(source: Partition, **given: Any) -> list[Any]:
    parsed = options(source.path, **given)
    return [record for split in plan_splits(parsed) for record in read_records(split, parsed)]


def pairs(store: Any, archive: str) -> list[tuple[Partition, Partition]]:
    data = golden.unpacked() / archive / "data"
    store.put(str(data), f"/{archive}", recursive=True)
    return list(zip(discover(options(data)), discover(options(f"memory://{archive}")), strict=True))


@sampled_archive
def test_golden_logs_are_the_same_in_another_store(store: Any, archive: str) -> None:
    for local, far in pairs(store, archive):
        assert far.topic_partition == local.topic_partition
        assert (far.log_start_offset, far.log_end) == (local.log_start_offset, local.log_end)
        assert (far.last_stable_offset, far.leader_epoch) == (local.last_stable_offset, local.leader_epoch)
        for size, level in ((20_000, "read_committed"), (1 << 27, "read_uncommitted")):
            given = {"splitBytes": size, "kafka.isolation.level": level}
            assert records(far, **given) == records(local, **given)


@sampled_archive
def test_ranges_of_offsets_are_the_same_in_another_store(store: Any, archive: str) -> None:
    for local, far in pairs(store, archive):
        first, end, (topic, number) = local.log_start_offset, local.log_end.offset, local.topic_partition
        for a, b in ((first, end), (first + (end - first) // 3, first + (end - first) // 2), (end - 1, end)):
            bounds = {"startingOffsets": {topic: {str(number): max(a, 0)}}, "endingOffsets": {topic: {str(number): b}}}
            assert records(far, splitBytes=20_000, **bounds) == records(local, splitBytes=20_000, **bounds)


def test_times_lead_to_the_records_that_the_broker_named(store: Any) -> None:
    views = json.loads((golden.unpacked() / "kafka-3.9" / "expected" / "broker-view.json").read_text(encoding="utf-8"))
    for _, far in pairs(store, "kafka-3.9"):
        answers = views.get(far.topic_partition.topic, {}).get("offsets_for_times", [])
        assert [far.offset_for_timestamp(time) for time, *_ in answers] == [offset for _, offset, *_ in answers]


def test_paths_lead_to_partitions_as_on_a_disk(orders: str) -> None:
    for path in (orders, f"{orders}/orders-0", f"{orders}/ord*"):
        assert offsets(path, splitBytes=2000) == list(range(END))
    assert offsets(orders, startingTimestamp=NOW + 100, endingTimestamp=NOW + 130) == list(range(100, 130))


def test_a_missing_path_is_named(orders: str) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        discover(options("memory://missing"))
    with pytest.raises(FileNotFoundError, match=r"nothing matches 'memory://backup/x\*'"):
        discover(options(f"{orders}/x*"))
    with pytest.raises(ValueError, match="option path: 'nosuch://x'"):
        discover(options("nosuch://x"))


def test_a_glob_reads_only_the_logs_that_it_matches(orders: str, store: Any, tmp_path: Path) -> None:
    store.put(str(tmp_path / "orders-0"), f"/backup/orders-0.{'a' * 32}-delete", recursive=True)
    store.pipe_file("/backup/meta.properties", b"version=0")
    store.pipe_file("/backup/other/readme.txt", b"hello")
    for pattern in ("*", "ord*"):
        assert offsets(f"{orders}/{pattern}") == list(range(END))
    for pattern in ("meta*", "oth*"):
        with pytest.raises(NotALogError, match="none of what matches is one"):
            discover(options(f"{orders}/{pattern}"))


@pytest.fixture
def refused(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths that the store, as one with a policy, does not list."""
    found: list[str] = []
    listed = type(store).ls

    def ls(self: Any, path: str, *arguments: Any, **more: Any) -> Any:
        if path.rstrip("/") in found:
            raise PermissionError("Access Denied")
        return listed(self, path, *arguments, **more)

    monkeypatch.setattr(type(store), "ls", ls)
    return found


@pytest.mark.parametrize("path", ["", "/*-0"])
def test_a_topic_that_is_not_asked_for_may_be_refused(
    orders: str, store: Any, tmp_path: Path, refused: list[str], path: str
) -> None:
    store.put(str(tmp_path / "orders-0"), "/backup/payments-0", recursive=True)
    refused.append("/backup/payments-0")
    assert offsets(orders + path, subscribe="orders") == list(range(END))
    for given in ({}, {"subscribe": "payments"}):
        with pytest.raises(PermissionError, match=r"memory://.*payments-0 may not be read"):
            discover(options(orders + path, **given))


def test_a_glob_never_skips_a_refused_data_directory(store: Any, tmp_path: Path, refused: list[str]) -> None:
    """Its name may be such as a partition has."""
    log_of(tmp_path / "orders-0")
    for name in ("broker-1", "broker-2"):
        store.put(str(tmp_path), f"/{name}", recursive=True)
    refused.append("/broker-2")
    with pytest.raises(PermissionError, match="broker-2 may not be read"):
        discover(options("memory://broker-*", subscribe="orders"))


def test_a_directory_without_a_log_is_refused(store: Any) -> None:
    store.pipe_file("/other/readme.txt", b"hello")
    with pytest.raises(NotALogError, match="memory://"):
        discover(options("memory://other"))


def test_without_fsspec_the_error_says_what_to_install(orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"pip install 'kafkalog\[remote\]'"):
        discover(options(orders))


def test_without_the_package_of_a_store_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.registry import known_implementations

    missing = {"class": "missing_package.FileSystem", "err": "Install missing-package to access it"}
    monkeypatch.setitem(known_implementations, "missing", missing)
    with pytest.raises(ImportError, match="reading missing://x needs another package: Install missing-package"):
        discover(options("missing://x"))


def test_a_task_reads_ranges_and_not_its_whole_split(orders: str, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read = type(store).cat_file

    def noted(self: Any, path: str, start: int | None = None, end: int | None = None, **more: Any) -> Any:
        asked.append(-1 if start is None or end is None else end - start)
        return read(self, path, start=start, end=end, **more)

    parsed = options(orders)
    (split,) = plan_splits(parsed)
    monkeypatch.setattr(type(store), "cat_file", noted)
    monkeypatch.setattr("kafkalog.fsck.walk.RUN_BYTES", 2000)
    assert sum(each.num_rows for each in read_split(split, None, parsed)) == END
    assert len(asked) > 4
    assert min(asked) > 0
    assert max(asked) <= 5000


@pytest.mark.parametrize("mode", ["fail", "skip"])
def test_damage_is_found_and_passed_over(orders: str, store: Any, mode: str) -> None:
    path = f"/backup/orders-0/{0:020d}.log"
    data = bytearray(store.cat_file(path))
    data[90] ^= 1
    store.pipe_file(path, bytes(data))
    if mode == "fail":
        with pytest.raises(CorruptRecordError, match=r"^memory:///backup/orders-0/0+\.log: position 0"):
            offsets(orders)
    else:
        assert offsets(orders, onCorrupt=mode) == list(range(3, END))


def test_a_file_that_disappears_or_shrinks_is_an_error_that_names_it(orders: str, store: Any) -> None:
    parsed, tolerant = options(orders, splitBytes=15_000), options(orders, failOnDataLoss=False)
    first, second = (split for group in plan_splits(parsed) for split in group.splits)
    store.rm(f"/backup/orders-0/{0:020d}.log")
    with pytest.raises(FileNotFoundError):
        list(read_split(first, None, parsed))
    assert list(read_split(first, None, tolerant)) == []
    path = f"/backup/orders-0/{120:020d}.log"
    store.pipe_file(path, store.cat_file(path)[:1000])
    with pytest.raises(ChangedWhileReading, match=r"memory:///backup/orders-0/0+120\.log"):
        list(read_split(second, None, parsed))
    assert [record.offset for record in read_records(second, tolerant)] == list(range(120, 126))


def test_a_wrong_index_changes_nothing_that_is_read(orders: str, store: Any) -> None:
    for base in (0, 120):
        store.pipe_file(f"/backup/orders-0/{base:020d}.index", bytes(range(256)) * 3)
    middle = {"orders": {"0": 50}}, {"orders": {"0": 130}}
    assert offsets(orders, splitBytes=2000) == list(range(END))
    assert offsets(orders, startingOffsets=middle[0], endingOffsets=middle[1]) == list(range(50, 130))


def test_the_indexes_of_many_segments_are_fetched_together(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_of(tmp_path / "orders-0", batches=10, segments=40)
    store.put(str(tmp_path), "/backup", recursive=True)
    asked: list[int] = []
    read = type(store).cat

    def noted(self: Any, path: list[str], **more: Any) -> Any:
        asked.append(len(path))
        return read(self, path, **more)

    monkeypatch.setattr(type(store), "cat", noted)
    assert offsets("memory://backup", splitBytes=1500) == list(range(1200))
    assert asked == [32, 8]
