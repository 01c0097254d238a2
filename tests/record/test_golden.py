"""Every batch and every record that brokers wrote, read from memory, is what Kafka's own classes read there."""

from __future__ import annotations

from collections import Counter

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
from tests.helpers.golden import Partition, Segment
from tests.helpers.reading import (
    batch_fields,
    batch_timestamp_types,
    column_records,
    data_records,
    expected_fields,
    record_fields,
    without_sequence,
)

every_segment = pytest.mark.parametrize("segment", golden.checked_segments(), ids=lambda segment: segment.id)
without_expectations = pytest.mark.parametrize(
    "partition",
    [partition for partition in golden.partitions() if partition.directory.name == golden.WITHOUT_EXPECTATIONS],
    ids=lambda partition: partition.id,
)


def message_set(segment: Segment) -> ByteBufferMessageSet:
    return ByteBufferMessageSet(segment.log.read_bytes())


@every_segment
def test_every_field_of_every_batch_is_kafkas(segment: Segment) -> None:
    found = [batch_fields(batch) for batch in message_set(segment).batches()]
    assert found == [expected_fields(batch) for batch in segment.batches()]


@every_segment
def test_every_record_of_every_batch_is_kafkas(segment: Segment) -> None:
    for batch, expected in zip(message_set(segment).batches(), segment.batches(), strict=True):
        assert [record_fields(record) for record in batch] == expected["records"]
        assert {record.timestamp_type for record in batch} <= {batch.timestamp_type}


@every_segment
def test_every_column_of_every_batch_is_kafkas(segment: Segment) -> None:
    for batch, expected in zip(message_set(segment).batches(), segment.batches(), strict=True):
        found = [record_fields(record) for record in column_records([batch.columns()])]
        assert without_sequence(found) == without_sequence(expected["records"])


@every_segment
def test_iterating_gives_every_record_but_those_of_control_batches(segment: Segment) -> None:
    found = list(message_set(segment))
    assert [record_fields(record) for record in found] == data_records(segment.batches())
    assert [record.timestamp_type for record in found] == batch_timestamp_types(segment.batches())


@pytest.mark.parametrize("threads", [1, 2])
@every_segment
def test_columns_give_every_record_but_those_of_control_batches(segment: Segment, threads: int) -> None:
    found = list(column_records(message_set(segment).columns(threads=threads)))
    assert without_sequence(map(record_fields, found)) == without_sequence(data_records(segment.batches()))
    assert [record.timestamp_type for record in found] == batch_timestamp_types(segment.batches())


@every_segment
def test_the_header_table_has_a_row_for_every_batch(segment: Segment) -> None:
    rows = message_set(segment).headers()
    expected = segment.batches()
    assert rows["position"].tolist() == [batch["position"] for batch in expected]
    assert rows["last_offset"].tolist() == [batch["last_offset"] for batch in expected]
    assert rows["max_timestamp"].tolist() == [batch["max_timestamp"] for batch in expected]


@every_segment
def test_a_brokers_segment_ends_where_an_entry_ends(segment: Segment) -> None:
    end = message_set(segment).end_of_data
    assert (end.kind.name, end.position) == ("END", segment.log.stat().st_size)


def test_the_bundled_logs_hold_control_batches_and_headers_and_nulls() -> None:
    """What the tests above would not notice if it were missing from the logs."""
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


@every_segment
def test_every_control_record_outside_the_metadata_quorum_ends_a_transaction(segment: Segment) -> None:
    for batch in message_set(segment).batches():
        if batch.is_control:
            assert all(isinstance(decode_control(record), EndTransactionMarker) for record in batch)


@without_expectations
def test_the_metadata_quorums_log_decodes_to_its_end(partition: Partition) -> None:
    for segment in partition.segments:
        batches = list(message_set(segment).batches())
        assert all(batch.is_valid for batch in batches)
        records = [record for batch in batches for record in batch]
        assert [record.offset for record in records] == list(range(batches[-1].next_offset))


@without_expectations
def test_the_metadata_quorums_control_records_say_who_leads(partition: Partition) -> None:
    batches = [batch for segment in partition.segments for batch in message_set(segment).batches() if batch.is_control]
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
