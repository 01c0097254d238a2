"""Partitions found, offsets resolved, segments cut and packed: each record is in one split and one only."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog.errors import NotALogError, OffsetOutOfRangeError
from kafkalog.spark import plan_splits
from kafkalog.spark.read.discover import discover
from kafkalog.spark.read.offset_ranges import earliest_offsets, latest_offsets, starting_offsets
from kafkalog.spark.read.partition import Partition
from kafkalog.storage.checkpoint.checkpoint_file import (
    EpochEntry,
    write_leader_epoch_checkpoint,
    write_offset_checkpoint,
)
from kafkalog.storage.file_names import TopicPartition
from tests.helpers import golden
from tests.helpers.partition_dirs import NOW, batch, write_segments
from tests.helpers.spark_logs import log_of, offsets, options, splits

DELETED = golden.unpacked() / "kafka-3.9" / "data" / "v2-deleted-records-0"
with_fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
END = 240


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """240 records in two segments of 40 batches."""
    return log_of(tmp_path_factory.mktemp("data") / "orders-0")


def at(offset: int) -> dict[str, Any]:
    return {"orders": {"0": offset}}


# --- what there is


def test_a_partition_a_data_directory_a_glob_and_a_url_lead_to_the_same(tmp_path: Path) -> None:
    log_of(tmp_path / "a b" / "orders-0")
    log_of(tmp_path / "a b" / "orders-1", segments=1)
    found = [str(split.path) for split in splits(tmp_path / "a b")]
    assert [Path(path).parent.name for path in found] == ["orders-0", "orders-0", "orders-1"]
    for path in (tmp_path / "*", (tmp_path / "a b").as_uri(), tmp_path / "a b" / "orders-*"):
        assert [split.path for split in splits(path)] == found


def test_a_directory_that_is_named_twice_is_read_once(orders: Path, tmp_path: Path) -> None:
    link = tmp_path / "orders-0"
    link.symlink_to(orders)
    assert offsets(orders, orders.parent, link) == list(range(END))


def test_the_replica_with_the_highest_leader_epoch_is_read(tmp_path: Path) -> None:
    longer = log_of(tmp_path / "a" / "orders-0", segments=3)
    leading = log_of(tmp_path / "b" / "orders-0", segments=1)
    write_leader_epoch_checkpoint(leading / "leader-epoch-checkpoint", [EpochEntry(0, 0), EpochEntry(7, 100)])
    assert {Path(each.path).parent for each in splits(longer.parent, leading.parent)} == {leading}


def test_the_longest_replica_of_one_epoch_is_read(tmp_path: Path) -> None:
    shorter, longer = (log_of(tmp_path / name / "orders-0", segments=n) for name, n in (("a", 1), ("b", 2)))
    for order in ((shorter, longer), (longer, shorter)):
        assert {Path(each.path).parent for each in splits(*order)} == {longer}


def test_a_partition_being_deleted_is_not_read(orders: Path, tmp_path: Path) -> None:
    log_of(tmp_path / "orders-0")
    (tmp_path / "orders-0").rename(tmp_path / f"orders-0.{'a' * 32}-delete")
    log_of(tmp_path / "payments-0", segments=1)
    assert {each.topic for each in splits(tmp_path)} == {"payments"}


def test_a_glob_reads_only_the_logs_that_it_matches(orders: Path, tmp_path: Path) -> None:
    log_of(tmp_path / f"orders-0.{'a' * 32}-delete", segments=5)
    (tmp_path / "orders-0").symlink_to(orders)
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "meta.properties").write_text("version=0\n")
    for pattern in ("*", "orders*"):
        assert offsets(tmp_path / pattern) == list(range(END))
    for pattern in ("meta*", "lost*"):
        with pytest.raises(NotALogError, match=rf"{pattern[:4]}\*: .*none of what matches is one"):
            splits(tmp_path / pattern)


@pytest.mark.parametrize(
    "name", ["a b", "100%", "a%20b", "日本", "[x]", "st*r", "q?", "com,ma", "hash#tag", "new\nline"]
)
def test_any_directory_can_be_named_as_it_is_and_by_a_url(tmp_path: Path, name: str) -> None:
    directory = log_of(tmp_path / name / "orders-0", batches=2, segments=1).parent
    for path in (directory, directory.as_uri(), directory.as_uri().replace("///", "//localhost/")):
        assert offsets(path) == list(range(6))
    if "%" not in name:
        assert offsets(f"file://{directory}") == list(range(6))


def test_a_file_url_that_names_a_host_is_refused() -> None:
    with pytest.raises(ValueError, match=r"option path: 'file://backup/kafka' names a host, 'backup'; .* file:///"):
        options("file://backup/kafka")


def test_a_file_deleted_while_planning_is_not_in_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As retention and truncation take them away from under a plan of live directories."""
    log_of(tmp_path / "orders-0", segments=4)
    going = sorted((tmp_path / "orders-0").glob("*.log"))[:3]
    cuts = Partition.cuts

    def cuts_after_retention(self: Partition, *arguments: Any) -> list[int]:
        if going:
            going.pop(0).unlink()
        return cuts(self, *arguments)

    monkeypatch.setattr(Partition, "cuts", cuts_after_retention)
    assert offsets(tmp_path, splitBytes=1000) == list(range(360, 480))


def test_a_path_without_a_log_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        splits(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match=r"nothing matches .*/x\*"):
        splits(f"{tmp_path}/x*")
    with pytest.raises(NotALogError):
        splits(tmp_path)


def test_topics_are_chosen_and_one_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "payments-0"):
        log_of(tmp_path / name, segments=1)
    chosen = splits(tmp_path, assign={"orders": [1], "payments": [0]})
    assert [(each.topic, each.partition) for each in chosen] == [("orders", 1), ("payments", 0)]
    assert {each.topic for each in splits(tmp_path, subscribePattern="^p")} == {"payments"}
    with pytest.raises(ValueError, match="option subscribe: not found: refunds"):
        splits(tmp_path, subscribe="refunds")


@pytest.fixture
def beside_unreadable(tmp_path: Path) -> Path:
    """A data directory: orders-0, which can be read, and payments-0 and refunds-0, which cannot, not even by root."""
    log_of(tmp_path / "data" / "orders-0")
    for name in ("payments-0", "refunds-0"):
        log_of(tmp_path / "data" / name, segments=1)
    (tmp_path / "data" / "payments-0" / f"{500:020d}.log").symlink_to(tmp_path / "gone")
    (tmp_path / "data" / "refunds-0" / f"{500:020d}.log").symlink_to(f"{500:020d}.log")
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("option", "value"), [("subscribe", "orders"), ("subscribePattern", "^ord"), ("assign", {"orders": [0]})]
)
def test_a_topic_that_is_not_asked_for_may_be_unreadable(beside_unreadable: Path, option: str, value: Any) -> None:
    for path in (beside_unreadable, beside_unreadable / "*"):
        assert offsets(path, **{option: value}) == list(range(END))
        with pytest.raises(FileNotFoundError, match="payments-0"):
            splits(path)
        with pytest.raises(OSError, match="refunds-0"):
            splits(path, subscribe="orders,refunds")


def test_a_broken_link_is_an_error_only_for_its_own_topic(tmp_path: Path) -> None:
    log_of(tmp_path / "orders-0")
    (tmp_path / "payments-0").symlink_to("payments-0")
    assert offsets(tmp_path, subscribe="orders") == list(range(END))
    with pytest.raises(OSError, match="payments-0"):
        splits(tmp_path)


def unlistable(monkeypatch: pytest.MonkeyPatch, refused: Path) -> None:
    """That directory cannot be listed; permissions would not keep root from it."""
    listed = os.scandir, Path.iterdir

    def refuse(path: Any) -> None:
        if Path(path) == refused:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def scandir(path: Any = ".") -> Any:
        refuse(path)
        return listed[0](path)

    def iterdir(self: Path) -> Any:
        refuse(self)
        return listed[1](self)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(Path, "iterdir", iterdir)


def test_a_glob_skips_an_unlistable_partition_of_another_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("orders-0", "payments-0"):
        log_of(tmp_path / name)
    unlistable(monkeypatch, tmp_path / "payments-0")
    assert offsets(tmp_path / "*-0", subscribe="orders") == list(range(END))
    for chosen in ({}, {"subscribe": "payments"}):
        with pytest.raises(PermissionError, match="payments-0"):
            splits(tmp_path / "*-0", **chosen)


def test_a_glob_never_skips_an_unlistable_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name may be such as a partition has."""
    for name in ("broker-1", "broker-2"):
        log_of(tmp_path / name / "orders-0")
    unlistable(monkeypatch, tmp_path / "broker-2")
    with pytest.raises(PermissionError, match="broker-2"):
        splits(tmp_path / "broker-*", subscribe="orders")


# --- from where to where


@with_fixtures
@given(st.data())
def test_any_range_of_offsets_is_read_exactly_however_it_is_split(orders: Path, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, END))
    end = data.draw(st.integers(start, END))
    size = data.draw(st.integers(300, 20_000))
    most = data.draw(st.none() | st.integers(1, 100))
    given = {} if most is None else {"maxRecordsPerPartition": most}
    found = offsets(orders, startingOffsets=at(start), endingOffsets=at(end), splitBytes=size, **given)
    assert found == list(range(start, end))


def test_as_many_splits_as_asked_for_are_made_where_there_are_batches(orders: Path) -> None:
    assert len(plan_splits(options(orders))) == 1
    for wanted in (2, 3, 8, 20):
        assert wanted <= len(plan_splits(options(orders, minPartitions=wanted))) <= 8 * wanted


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
def test_every_partition_must_be_named_and_none_that_is_not_there(orders: Path, option: str) -> None:
    with pytest.raises(ValueError, match=f"option {option} must name every partition: orders-0 missing"):
        splits(orders, **{option: {"payments": {"0": 5}}})
    with pytest.raises(ValueError, match=f"option {option}: no such partition is read: orders-3"):
        splits(orders, **{option: {"orders": {"0": 5, "3": 5}}})


def test_times_lead_to_the_first_record_as_late(orders: Path) -> None:
    found = offsets(orders, startingTimestamp=NOW + 100, endingOffsetsByTimestamp=at(NOW + 130))
    assert found == list(range(100, 130))
    assert offsets(orders, startingTimestamp=NOW + 200, endingTimestamp=NOW + 9999) == list(range(200, END))


def test_a_start_later_than_all_records_is_an_error_or_the_end(orders: Path) -> None:
    with pytest.raises(
        ValueError, match=rf"option startingTimestamp: orders-0 has no record as late as {NOW + END} ms"
    ):
        offsets(orders, startingTimestamp=NOW + END)
    assert offsets(orders, startingTimestamp=NOW + END, startingOffsetsByTimestampStrategy="latest") == []


def test_a_committed_start_by_time_is_among_decided_records_as_with_a_broker(tmp_path: Path) -> None:
    undecided = batch(2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    directory = write_segments(tmp_path / "orders-0", {0: [batch(0, [b"a", b"b"]), undecided, batch(3)]})
    committed = {"kafka.isolation.level": "read_committed"}
    for time in (NOW + 2, NOW + 3):
        with pytest.raises(ValueError, match=f"orders-0 has no decided record as late as {time} ms"):
            offsets(directory, startingTimestamp=time, **committed)
        latest = {"startingOffsetsByTimestampStrategy": "latest", **committed}
        assert offsets(directory, startingTimestamp=time, **latest) == []
    assert offsets(directory, startingTimestamp=NOW, **committed) == [0, 1]
    assert offsets(directory, startingTimestamp=NOW + 3) == [3]


def test_deleted_records_are_data_loss_that_may_be_tolerated(caplog: pytest.LogCaptureFixture) -> None:
    start = {"v2-deleted-records": {"0": 10}}
    with pytest.raises(OffsetOutOfRangeError, match=r"v2-deleted-records-0: offsets 10\.\.491 are not there"):
        offsets(DELETED, startingOffsets=start)
    assert offsets(DELETED, startingOffsets=start, failOnDataLoss=False)[0] == 492
    assert "offsets 10..491 are not there; there are 492..1199" in caplog.text


def test_offsets_behind_the_end_are_data_loss_too(orders: Path) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=r"offsets 240\.\.299 are not there"):
        offsets(orders, endingOffsets=at(300))
    assert offsets(orders, endingOffsets=at(300), failOnDataLoss=False) == list(range(END))


def test_a_micro_batch_has_ranges_of_its_own(orders: Path) -> None:
    planned = plan_splits(options(orders), {TopicPartition("orders", 0): (7, 9)})
    assert [(each.first_offset, each.last_offset) for group in planned for each in group.splits] == [(7, 8)]
    gone = {TopicPartition("payments", 0): (0, 5)}
    with pytest.raises(OffsetOutOfRangeError, match="payments-0 is not there any more"):
        plan_splits(options(orders), gone)
    assert plan_splits(options(orders, failOnDataLoss=False), gone) == []


def test_streams_get_earliest_latest_and_starting_offsets(orders: Path) -> None:
    found, partition = discover(options(orders)), TopicPartition("orders", 0)
    assert earliest_offsets(found) == {partition: 0}
    assert latest_offsets(options(orders), found) == {partition: END}
    assert starting_offsets(options(orders, startingOffsets=at(9)), found) == {partition: 9}


def test_the_log_start_of_the_data_directory_counts(tmp_path: Path) -> None:
    log_of(tmp_path / "orders-0")
    write_offset_checkpoint(tmp_path / "log-start-offset-checkpoint", {TopicPartition("orders", 0): 100})
    assert offsets(tmp_path) == list(range(100, END))


# --- cutting


@with_fixtures
@given(st.binary(max_size=900), st.integers(300, 3000))
def test_a_wrong_index_changes_nothing_that_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int
) -> None:
    directory = log_of(tmp_path_factory.mktemp("data") / "orders-0", segments=1)
    (directory / f"{0:020d}.index").write_bytes(data)
    assert offsets(directory, splitBytes=size) == list(range(END // 2))
    assert offsets(directory, splitBytes=size, startingOffsets=at(50), endingOffsets=at(60)) == list(range(50, 60))


def test_a_missing_index_is_replaced_by_batch_headers(orders: Path, tmp_path: Path) -> None:
    directory = log_of(tmp_path / "orders-0", segments=1)
    cut = splits(directory, splitBytes=2000)
    (directory / f"{0:020d}.index").unlink()
    assert len(splits(directory, splitBytes=2000)) == pytest.approx(len(cut), abs=2)
    assert len(cut) > 5


def test_zeros_after_the_entries_of_an_open_index_are_ignored(tmp_path: Path) -> None:
    directory = log_of(tmp_path / "orders-0", segments=1)
    index = directory / f"{0:020d}.index"
    cut = splits(directory, splitBytes=2000)
    index.write_bytes(index.read_bytes() + bytes(10 << 20))
    assert len(splits(directory, splitBytes=2000)) == pytest.approx(len(cut), abs=2)
    assert offsets(directory, splitBytes=2000) == list(range(END // 2))


def test_a_torn_tail_of_the_last_segment_is_not_read(tmp_path: Path) -> None:
    directory = log_of(tmp_path / "orders-0")
    with (directory / f"{120:020d}.log").open("ab") as file:
        file.write(b"\0\0\0\0\0\0\0\xf0\0\0\1\0torn")
    assert offsets(directory) == list(range(END))


def test_an_empty_partition_has_no_splits(tmp_path: Path) -> None:
    assert plan_splits(options(write_segments(tmp_path / "orders-0", {0: []}))) == []


def test_many_segments_are_planned_without_reading_their_contents(tmp_path: Path) -> None:
    directory = write_segments(tmp_path / "orders-0", {i: [batch(i)] for i in range(300)})
    for log in directory.glob("*.log"):
        # A hole in the file: as long as a segment, without its bytes. Together 38 GB, more than a test could read.
        os.truncate(log, 128 << 20)
    assert len(splits(directory)) == 300
