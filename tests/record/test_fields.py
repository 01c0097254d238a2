"""The fields of an entry: each byte is in one, and they say what the entry says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkalog import FileMessageSet
from kafkalog.record import layout
from kafkalog.record.fields import EntryFields, Field
from tests.helpers.golden import Partition
from tests.helpers.partitions import sampled_partition
from tests.reference.encode import V2Batch, records

PLACES = {
    "length": layout.SIZE_AT,
    "partition leader epoch": layout.BATCH_LEADER_EPOCH_AT,
    "magic": layout.MAGIC_AT,
    "crc": layout.BATCH_CRC_AT,
    "attributes": layout.BATCH_ATTRIBUTES_AT,
    "records count": layout.BATCH_RECORDS_COUNT_AT,
    "records": layout.RECORD_BATCH_OVERHEAD,
}


def fields_of(data: bytes, start: int = 0, size: int | None = None) -> EntryFields:
    def read(position: int, length: int) -> bytes:
        return data[position : position + length]

    return EntryFields(read, start, len(data) if size is None else size)


def ensure_whole(fields: list[Field], start: int, end: int) -> None:
    assert (fields[0].start, fields[-1].end) == (start, end)
    assert all(before.end == after.start for before, after in pairwise(fields))


@sampled_partition
def test_fields_fill_each_entry_of_a_broker_and_say_what_it_says(partition: Partition) -> None:
    for segment in partition.segments[:3]:
        data = segment.log.read_bytes()
        with FileMessageSet(segment.log) as file:
            for batch in list(file.batches())[:5]:
                fields = fields_of(data, batch.position, batch.size_in_bytes)
                ensure_whole(list(fields.every()), batch.position, batch.position + batch.size_in_bytes)
                values = {field.name: field.value for field in fields.listed(0)}
                assert (values["magic"], values["crc"]) == (batch.magic, batch.checksum)
                if batch.magic >= 2:
                    assert values["base offset"] == batch.base_offset
                    assert values["records count"] == batch.records_count
                    assert values["producer id"] == batch.producer_id
                else:
                    assert values["offset"] == batch.last_offset


def test_header_fields_lie_where_the_layout_says() -> None:
    data = b"\x55" * 10 + V2Batch(records(b"a", b"b")).encoded()
    starts = {field.name: field.start - 10 for field in fields_of(data, 10, len(data) - 10).listed(0)}
    assert {name: starts[name] for name in PLACES} == PLACES


def test_a_record_is_found_by_number_and_by_position_in_any_order() -> None:
    data = V2Batch(records(*[b"v%d" % i for i in range(1000)])).encoded()
    fields = fields_of(data)
    for number in (999, 3, 500, 0, 64, 63):
        start = fields.position_of_record(number)
        assert start is not None
        assert (fields.at(start).name, fields.at(start).path) == ("length", (f"record {number}",))
        value = fields.at(data.index(b"v%d" % number) + 1)
        assert (value.name, value.value) == ("value", b"v%d" % number)
    assert fields.position_of_record(1000) is None


@pytest.mark.parametrize("size", [1, 16, 17, 30, 60, 61, 62, 70])
def test_a_cut_entry_has_the_fields_that_are_whole(size: int) -> None:
    data = V2Batch(records(b"abc")).encoded()[:size]
    fields = fields_of(data)
    ensure_whole(list(fields.every()), 0, size)
    assert all(fields.at(i).start <= i < fields.at(i).end for i in range(size))
