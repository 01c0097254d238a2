"""`Log.to_arrow_reader` and the Arrow interfaces of logs and columns, for other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import Log, LogConfig, LogManager, Record, WritableLog
from kafkalog.errors import CorruptRecordError, OffsetOutOfRangeError
from tests.helpers.golden import Partition, partitions

pa = pytest.importorskip("pyarrow")
SCHEMA = pytest.importorskip("kafkalog.arrow").SCHEMA


def rows_of(log: Log, **options: Any) -> list[dict[str, Any]]:
    """The rows that a table of all records has, by way of `Record`s."""
    return [
        {
            "offset": record.offset,
            "timestamp": None if record.timestamp == -1 else record.timestamp,
            "timestamp_type": int(record.timestamp_type),
            "key": record.key,
            "value": record.value,
            "headers": [{"key": key, "value": value} for key, value in record.headers],
        }
        for record in log.records(**options)
    ]


def as_rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table, with times as milliseconds."""
    if "timestamp" in table.schema.names:
        at = table.schema.get_field_index("timestamp")
        table = table.set_column(at, "timestamp", table.column("timestamp").cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@pytest.mark.parametrize("partition", partitions(), ids=str)
@pytest.mark.parametrize("isolation", ["log_end", "read_committed"])
def test_the_rows_of_golden_logs_are_their_records(partition: Partition, isolation: Any) -> None:
    with kafkalog.open(partition.directory) as log:
        table = log.to_arrow_reader(isolation=isolation).read_all()
        assert table.schema == SCHEMA
        assert as_rows(table) == rows_of(log, isolation=isolation)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[WritableLog]:
    """100,000 small records in two segments, one of 20 MiB, and a few more."""
    with kafkalog.open(tmp_path / "t-0", "a", LogConfig(max_message_bytes=64 << 20)) as made:
        for first in range(0, 100_000, 10_000):
            made.append([Record(b"%d" % offset, timestamp=offset) for offset in range(first, first + 10_000)])
            if first == 50_000:
                made.roll()
        made.append([Record(bytes(20 << 20), b"large")])
        made.append([Record(None, b"last", headers=[("h", None)])])
        yield made


def test_batches_are_large_enough_for_row_groups_and_bounded(log: WritableLog) -> None:
    sizes = [batch.num_rows for batch in log.to_arrow_reader()]
    assert sum(sizes) == 100_002
    assert max(sizes) <= 65_536
    assert len(sizes) <= 5
    assert sizes[-2:] == [1, 1]


def test_a_range_and_some_columns_are_read_in_the_order_asked_for(log: WritableLog) -> None:
    table = log.to_arrow_reader(59_998, 60_003, columns=["value", "offset"], threads=2).read_all()
    assert table.to_pylist() == [{"value": b"%d" % offset, "offset": offset} for offset in range(59_998, 60_003)]


@pytest.mark.parametrize("columns", [["offset", "size"], "offset", [], [["offset"]]])
def test_columns_that_there_are_not_are_refused_at_once(log: WritableLog, columns: Any) -> None:
    with pytest.raises(
        ValueError, match="columns are different names among offset, timestamp, timestamp_type, key, value, headers"
    ):
        log.to_arrow_reader(columns=columns)


def test_errors_of_the_log_are_raised_as_they_are(log: WritableLog) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        log.to_arrow_reader(200_000).read_all()
    assert log.to_arrow_reader(200_000, on_out_of_range="latest").read_all().num_rows == 0
    log.flush()
    path = log.segments[0].path
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with kafkalog.open(log.directory) as damaged, pytest.raises(CorruptRecordError):
        damaged.to_arrow_reader().read_all()


def test_arrow_libraries_take_a_log_and_columns_as_they_are(log: WritableLog) -> None:
    assert pa.table(log).num_rows == 100_002
    part = next(log.columns())
    assert pa.record_batch(part).to_pylist() == part.to_arrow().to_pylist()


@pytest.mark.slow
def test_polars_and_duckdb_query_a_log(log: WritableLog) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    frame = polars.DataFrame(log)
    assert (frame.height, frame["offset"].max()) == (100_002, 100_001)
    found = duckdb.sql("select count(*), count(key), max(octet_length(value)) from log").fetchall()
    assert found == [(100_002, 2, 20 << 20)]


def test_the_records_of_a_data_directory_are_one_table(golden_logs: Path) -> None:
    data = golden_logs / "kafka-3.9" / "data"
    with LogManager(data) as manager:
        table = manager.to_arrow_reader().read_all()
        assert table.schema == pytest.importorskip("kafkalog.arrow").PARTITIONS_SCHEMA
        rows = [
            {"topic": log.topic_partition.topic, "partition": log.topic_partition.partition, **row}
            for log in manager.values()
            if log.topic_partition is not None
            for row in rows_of(log)
        ]
        assert as_rows(table) == rows
        topic = rows[0]["topic"]
        some = manager.to_arrow_reader([topic], columns=["partition", "topic"], isolation="read_committed").read_all()
        committed = sum(
            log.count(isolation="read_committed")
            for name, log in manager.items()
            if name[: len(topic) + 1] == f"{topic}-"
        )
        assert (some.schema.names, some.num_rows) == (["partition", "topic"], committed)
        assert set(some.column("topic").to_pylist()) == {topic}
        with pytest.raises(KeyError, match="has no topic no-such-topic"):
            manager.to_arrow_reader(["no-such-topic"])
        with pytest.raises(ValueError, match="topic, partition, offset"):
            manager.to_arrow_reader(columns=["broker"])
