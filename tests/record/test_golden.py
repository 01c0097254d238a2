"""Every batch and every record that brokers wrote, read from memory, is what Kafka's own classes read there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog import ByteBufferMessageSet
from kafkalog.record.control import (
    EndTransactionMarker,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    decode_control,
)
from tests.helpers import golden
from tests.helpers.golden import Partition
from tests.helpers.partitions import every_partition, sampled_partition
from tests.helpers.reading import (
    batch_fields,
    batch_timestamp_types,
    column_records,
    data_records,
    expected_fields,
    record_fields,
    without_sequence,
)

metadata_quorum = pytest.mark.parametrize(
    "partition",
    [partition for partition in golden.partitions() if partition.directory.name == golden.WITHOUT_EXPECTATIONS],
    ids=lambda partition: partition.id,
)


def message_sets(partition: Partition) -> Iterator[ByteBufferMessageSet]:
    """Return the segments of a partition, each in memory."""
    for segment in partition.segments:
        yield ByteBufferMessageSet(segment.log.read_bytes())


def with_expectations(partition: Partition) -> Iterator[tuple[ByteBufferMessageSet, list[dict[str, Any]]]]:
    """Return the segments of a partition, each with the batches that Kafka reads in it."""
    for messages, segment in zip(message_sets(partition), partition.segments, strict=True):
        yield messages, segment.batches()


@sampled_partition
def test_every_batch_and_all_of_its_records_are_kafkas(partition: Partition) -> None:
    for messages, expected_batches in with_expectations(partition):
        for batch, expected in zip(messages.batches(), expected_batches, strict=True):
            assert batch_fields(batch) == expected_fields(expected)
            records = list(batch)
            assert [record_fields(record) for record in records] == expected["records"]
            assert {record.timestamp_type for record in records} <= {batch.timestamp_type}
            columns = [record_fields(record) for record in column_records([batch.columns()])]
            assert without_sequence(columns) == without_sequence(expected["records"])
        end = messages.end_of_data
        assert (end.kind.name, end.position) == ("END", messages.size_in_bytes)


@sampled_partition
def test_iterating_gives_every_record_but_those_of_control_batches(partition: Partition) -> None:
    for messages, expected in with_expectations(partition):
        found = list(messages)
        assert [record_fields(record) for record in found] == data_records(expected)
        assert [record.timestamp_type for record in found] == batch_timestamp_types(expected)


@every_partition
def test_columns_give_every_record_but_those_of_control_batches(partition: Partition) -> None:
    for messages, expected in with_expectations(partition):
        for threads in (1, 2):
            found = list(column_records(messages.columns(threads=threads)))
            assert without_sequence(map(record_fields, found)) == without_sequence(data_records(expected))
            assert [record.timestamp_type for record in found] == batch_timestamp_types(expected)


def test_the_header_table_has_a_row_for_every_batch() -> None:
    for partition in golden.checked_partitions():
        for messages, expected in with_expectations(partition):
            rows = messages.headers()
            assert rows["position"].tolist() == [batch["position"] for batch in expected], partition.id
            assert rows["last_offset"].tolist() == [batch["last_offset"] for batch in expected], partition.id
            assert rows["max_timestamp"].tolist() == [batch["max_timestamp"] for batch in expected], partition.id


def test_the_golden_logs_contain_every_kind_of_batch_and_record() -> None:
    """The tests above would not notice if one kind were missing from the logs."""
    batches = [batch for segment in golden.checked_segments() for batch in segment.batches()]
    records = [record for batch in batches for record in batch["records"]]
    assert Counter(batch["magic"] for batch in batches).keys() == {0, 1, 2}
    assert {batch["codec"] for batch in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert sum(batch["control"] for batch in batches) > 50
    assert any(batch["delete_horizon"] for batch in batches)
    assert any(
        batch["magic"] == 2 and batch["count"] <= batch["last_offset"] - batch["base_offset"] for batch in batches
    )
    assert {None, b""} <= {key for *_, key, _, _ in records}
    assert {None, b""} <= {value for *_, value, _ in records}
    assert any(name == "ünï" and value is None for *_, headers in records for name, value in headers)


def test_every_control_record_outside_the_metadata_quorum_ends_a_transaction() -> None:
    for partition in golden.checked_partitions():
        for messages in message_sets(partition):
            control = [record for batch in messages.batches() if batch.is_control for record in batch]
            assert all(isinstance(decode_control(record), EndTransactionMarker) for record in control), partition.id


@metadata_quorum
def test_the_log_of_the_metadata_quorum_is_decoded_to_its_end(partition: Partition) -> None:
    for messages in message_sets(partition):
        batches = list(messages.batches())
        assert all(batch.is_valid for batch in batches)
        records = [record for batch in batches for record in batch]
        assert [record.offset for record in records] == list(range(batches[-1].next_offset))


@metadata_quorum
def test_the_control_records_of_the_metadata_quorum_name_the_leader(partition: Partition) -> None:
    batches = [batch for messages in message_sets(partition) for batch in messages.batches() if batch.is_control]
    found = [decode_control(record) for batch in batches for record in batch]
    kinds = {type(each) for each in found}
    assert LeaderChange in kinds
    assert kinds <= {LeaderChange, SnapshotHeader, SnapshotFooter, KRaftVersion, KRaftVoters}
    for each in found:
        if isinstance(each, LeaderChange):
            assert each.leader_id in {voter.voter_id for voter in each.voters}


def test_a_metadata_snapshot_begins_and_ends_with_its_control_records() -> None:
    """`bootstrap.checkpoint` is one: the same format in a file of another name."""
    for snapshot in golden.unpacked().glob("*/data/bootstrap.checkpoint"):
        records = [r for b in ByteBufferMessageSet(snapshot.read_bytes()).batches() if b.is_control for r in b]
        found = [decode_control(record) for record in records]
        assert isinstance(found[0], SnapshotHeader)
        assert isinstance(found[-1], SnapshotFooter)
