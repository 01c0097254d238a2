"""The bundled logs are all there, and the specification reads them as Kafka does.

So whatever is checked against the specification is checked against Kafka.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.helpers import golden
from tests.helpers.golden import Partition, Segment
from tests.reference.codes import Status
from tests.reference.framing import scan_headers
from tests.reference.message_set import decode_batches
from tests.reference.regions import Regions, regions


def test_every_segment_but_the_metadata_quorums_has_an_expectation() -> None:
    assert len(golden.checked_segments()) == 229
    assert all(segment.expected.is_file() for segment in golden.checked_segments())
    left_out = {partition.id for partition in golden.partitions()} - {p.id for p in golden.checked_partitions()}
    assert left_out == {"kafka-3.9/__cluster_metadata-0"}


def test_unpacking_keeps_the_times_of_the_files(golden_logs: Path) -> None:
    with tarfile.open(golden.ARCHIVES / "kafka-0.8.2.tar.xz") as tar:
        logs = [member for member in tar if member.name.endswith(".log")]
    assert logs
    assert all(int((golden_logs / member.name).stat().st_mtime) == int(member.mtime) for member in logs)


@pytest.mark.parametrize("partition", golden.partitions(), ids=lambda partition: partition.id)
def test_the_reference_reads_what_kafka_reads(partition: Partition) -> None:
    for segment in partition.segments:
        data = segment.log.read_bytes()
        rows, status, *_ = scan_headers(data)
        arguments = regions(data, rows)
        assert status == Status.END
        assert len(arguments.rows) == len(rows)
        if segment.expected.is_file():
            assert_headers(arguments, segment)
            assert_records(arguments, segment)


def assert_headers(arguments: Regions, segment: Segment) -> None:
    for row, batch in zip(arguments.rows, segment.batches(), strict=True):
        assert row["position"] == batch["position"]
        assert row["size_in_bytes"] == batch["size"]
        assert row["magic"] == batch["magic"]
        assert row["last_offset"] == batch["last_offset"]
        assert row["max_timestamp"] == batch["max_timestamp"]
        assert row["checksum"] == batch["crc"]


def assert_records(arguments: Regions, segment: Segment) -> None:
    block, owners, count, fault = decode_batches(*arguments)
    expected = [(i, *record) for i, batch in enumerate(segment.batches()) for record in batch["records"]]
    assert fault is None
    assert count == len(expected)
    for owner, column, (batch, offset, timestamp, _, key, value, headers) in zip(
        owners.tolist(), block.T.tolist(), expected, strict=True
    ):
        assert (owner, column[0], column[1]) == (batch, offset, timestamp)
        assert part(arguments.buffer, *column[2:4]) == key
        assert part(arguments.buffer, *column[4:6]) == value
        assert bool(column[7]) == bool(headers)


def part(buffer: bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else buffer[start : start + length]
