"""What Kafka reads in the brokers' directories, as rows; and rows of Spark in the same form."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.helpers import golden
from tests.helpers.golden import Partition

DELETED_RECORDS = "v2-deleted-records-0"
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
# (key, value, topic, partition, offset, timestamp in ms, timestamp type, headers as pairs)
Row = tuple[Any, ...]


def expected_rows(partition: Partition) -> list[Row]:
    """The rows of one partition, in order."""
    start = 492 if partition.directory.name == DELETED_RECORDS else 0
    topic, _, number = partition.directory.name.rpartition("-")
    return [
        (key, value, topic, int(number), offset, timestamp, TIMESTAMP_TYPES[batch["timestamp_type"]], headers or None)
        for batch in partition.batches()
        if not batch["control"]
        for offset, timestamp, _, key, value, headers in batch["records"]
        if offset >= start
    ]


def of_archive(archive: str) -> list[Row]:
    """The rows of all partitions of a broker."""
    found = [row for each in golden.checked_partitions() if each.archive == archive for row in expected_rows(each)]
    return in_order(found)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """By topic, partition and offset."""
    return sorted(rows, key=lambda row: row[2:5])


def of_spark(rows: Iterable[Any]) -> list[Row]:
    """Rows of a DataFrame whose timestamps were cast to long, in ms; of Spark 4.0 too, which gives bytearrays."""
    return in_order(
        (
            *(_bytes(row.key), _bytes(row.value), row.topic, row.partition, row.offset, row.ms, row.timestampType),
            None if row.headers is None else tuple((each.key, _bytes(each.value)) for each in row.headers),
        )
        for row in rows
    )


def of_arrow(batches: Iterable[Any]) -> list[Row]:
    """Rows of Arrow batches with all of the source's columns, in the order in which they come."""
    rows = (row.values() for batch in batches for row in _in_us(batch).to_pylist())
    return [(*row[:5], row[5] // 1000, row[6], _pairs(row[7])) for row in map(tuple, rows)]


def _in_us(batch: Any) -> Any:
    return batch.set_column(5, "timestamp", batch.column(5).cast("int64"))


def _pairs(headers: list[dict[str, Any]] | None) -> tuple[Any, ...] | None:
    return None if headers is None else tuple((each["key"], each["value"]) for each in headers)


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def in_ms(frame: Any) -> Any:
    """The frame with a column `ms`: collecting timestamps takes the machine's time zone and no negative times."""
    return frame.selectExpr("*", "unix_millis(timestamp) AS ms").drop("timestamp")


def broker_view() -> dict[str, dict[str, Any]]:
    """What kafka-3.9 gave to its consumers, by topic."""
    text = (golden.unpacked() / "kafka-3.9" / "expected" / "broker-view.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def transactional_topics() -> list[str]:
    """The topics of kafka-3.9 of which a consumer of committed records was given fewer."""
    return sorted(topic for topic, view in broker_view().items() if view["read_committed"] != view["read_uncommitted"])


def limits_work() -> bool:
    """Whether Spark bounds the micro-batches of a source in Python."""
    import pyspark

    return tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
