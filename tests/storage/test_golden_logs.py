"""Batches and records of logs that brokers wrote, read from files and directories, equal those that Kafka reads."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, TypeAlias

import pytest

import kafkalog
from kafkalog import FileMessageSet
from kafkalog.storage.fetch_data_info import IsolationLevel
from tests.helpers import golden
from tests.helpers.golden import Partition
from tests.helpers.partitions import every_partition, sampled_partition
from tests.helpers.reading import (
    batch_fields,
    column_records,
    data_records,
    expected_fields,
    record_fields,
    without_sequence,
)

Batch: TypeAlias = dict[str, Any]
DELETED_RECORDS = "v2-deleted-records-0"
HANGING_TRANSACTION = "v2-txn-0"  # open in the files; aborted by one more record when the broker was asked


def broker_view(partition: Partition) -> dict[str, Any]:
    """The broker's own answers about the partition."""
    text = (partition.directory.parents[1] / "expected" / "broker-view.json").read_text(encoding="utf-8")
    view: dict[str, Any] = json.loads(text)[partition.directory.name.removesuffix("-0")]
    return view


def viewed_partitions() -> list[Partition]:
    views = json.loads((golden.unpacked() / "kafka-3.9" / "expected" / "broker-view.json").read_text(encoding="utf-8"))
    in_archive = [partition for partition in golden.checked_partitions() if partition.archive == "kafka-3.9"]
    return [partition for partition in in_archive if partition.directory.name.removesuffix("-0") in views]


# --- the files of a partition


@sampled_partition
def test_every_field_and_record_of_every_batch_in_a_file_is_kafkas(partition: Partition) -> None:
    for segment in partition.segments:
        messages = FileMessageSet(segment.log)
        for batch, expected in zip(messages.batches(), segment.batches(), strict=True):
            assert batch_fields(batch) == expected_fields(expected)
            assert [record_fields(record) for record in batch] == expected["records"]


@sampled_partition
def test_iterating_a_file_yields_every_record_except_control_records(partition: Partition) -> None:
    for segment in partition.segments:
        found = [record_fields(record) for record in FileMessageSet(segment.log)]
        assert found == data_records(segment.batches())


@sampled_partition
def test_the_columns_of_a_file_are_kafkas(partition: Partition) -> None:
    for segment in partition.segments:
        found = column_records(FileMessageSet(segment.log).columns())
        assert without_sequence(map(record_fields, found)) == without_sequence(data_records(segment.batches()))


# --- one partition


def expected_of(partition: Partition) -> list[Batch]:
    """The partition's batches without those before the log's start, which may still be in the file."""
    start = 492 if partition.directory.name == DELETED_RECORDS else 0
    batches = []
    for batch in partition.batches():
        records = [record for record in batch["records"] if record[0] >= start]
        if batch["last_offset"] >= start:
            batches.append(batch | {"records": records})
    return batches


@every_partition
def test_the_records_of_a_log_are_kafkas(partition: Partition) -> None:
    found = [record_fields(record) for record in kafkalog.open(partition.directory).records()]
    assert found == data_records(expected_of(partition))


@every_partition
def test_the_columns_of_a_log_read_by_two_threads_are_kafkas(partition: Partition) -> None:
    found = column_records(kafkalog.open(partition.directory).columns(threads=2))
    assert without_sequence(map(record_fields, found)) == without_sequence(data_records(expected_of(partition)))


@sampled_partition
def test_the_batches_of_a_log_are_kafkas_including_control_batches(partition: Partition) -> None:
    found = [batch_fields(batch) for batch in kafkalog.open(partition.directory).batches()]
    assert found == [expected_fields(batch) for batch in expected_of(partition)]


@sampled_partition
def test_a_log_has_its_directorys_segments_and_ends_after_its_last_record(partition: Partition) -> None:
    log = kafkalog.open(partition.directory)
    last = [batch["last_offset"] for batch in partition.batches()]
    assert [segment.base_offset for segment in log.segments] == [int(s.log.stem) for s in partition.segments]
    assert log.log_end_offset == (last[-1] + 1 if last else 0)


@pytest.mark.parametrize("partition", viewed_partitions(), ids=lambda partition: partition.id)
def test_the_records_of_a_log_are_those_that_the_broker_gave_to_a_consumer(partition: Partition) -> None:
    view = broker_view(partition)
    log = kafkalog.open(partition.directory)
    assert log.log_start_offset == view["low"]
    assert [record.offset for record in log.records()] == view["read_uncommitted"]


@sampled_partition
def test_two_readers_of_a_log_do_not_disturb_each_other(partition: Partition) -> None:
    log = kafkalog.open(partition.directory)
    offsets = [record.offset for record in islice(log.records(), 500)]
    both = zip(log.records(), log.records(), strict=True)
    assert [(a.offset, b.offset) for a, b in islice(both, 500)] == [(offset, offset) for offset in offsets]


def test_the_metadata_quorums_log_is_read_to_its_end() -> None:
    (partition,) = (p for p in golden.partitions() if p.directory.name == golden.WITHOUT_EXPECTATIONS)
    log = kafkalog.open(partition.directory)
    control = [record.offset for batch in log.batches() if batch.is_control for record in batch]
    data = [record.offset for record in log.records()]
    assert control
    assert sorted(control + data) == list(range(log.log_end_offset))


# --- the broker's answers


def with_view(name: str) -> pytest.MarkDecorator:
    """Parametrise by partition and broker's view, for the partitions whose view contains `name`."""
    found = [(each, broker_view(each)) for each in viewed_partitions() if name in broker_view(each)]
    return pytest.mark.parametrize(("partition", "view"), found, ids=[each.id for each, _ in found])


@with_view("end_read_uncommitted")
def test_the_watermarks_of_a_log_are_the_brokers(partition: Partition, view: dict[str, Any]) -> None:
    with kafkalog.open(partition.directory) as log:
        end = view["end_read_uncommitted"] - (partition.directory.name == HANGING_TRANSACTION)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (view["low"], end, end)


@with_view("end_read_committed")
def test_the_last_stable_offset_is_the_brokers_except_for_a_transaction_that_was_open(
    partition: Partition, view: dict[str, Any]
) -> None:
    with kafkalog.open(partition.directory) as log:
        if partition.directory.name == HANGING_TRANSACTION:
            assert log.last_stable_offset == first_offset_of_open_transactions(partition) < log.high_watermark
        else:
            assert log.last_stable_offset == view["end_read_committed"]


@with_view("read_committed")
def test_committed_records_are_those_of_the_brokers_consumer(partition: Partition, view: dict[str, Any]) -> None:
    with kafkalog.open(partition.directory) as log:
        found = [record.offset for record in log.records(isolation=IsolationLevel.TXN_COMMITTED)]
    assert found == view["read_committed"]


@with_view("offsets_for_times")
def test_a_time_leads_to_the_record_that_the_broker_named(partition: Partition, view: dict[str, Any]) -> None:
    with kafkalog.open(partition.directory) as log:
        found = [(time, log.offset_for_timestamp(time)) for time, *_ in view["offsets_for_times"]]
    answers = [[time, None] if at is None else [time, at.offset, at.timestamp] for time, at in found]
    assert answers == view["offsets_for_times"]


def first_offset_of_open_transactions(partition: Partition) -> int:
    """Worked out from the batches alone."""
    first: dict[int, int] = {}
    for batch in partition.batches():
        if batch["control"]:
            first.pop(batch["producer_id"], None)
        elif batch["transactional"]:
            first.setdefault(batch["producer_id"], batch["base_offset"])
    return min(first.values())
