"""What brokers wrote, planned and read split by split, is what Kafka reads in it, however it is split."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import golden
from golden import Partition
from kafkalog.spark import ReadOptions, SplitGroup, plan_splits, read_split

DELETED_RECORDS = "v2-deleted-records-0"
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
every_partition = pytest.mark.parametrize("partition", golden.checked_partitions(), ids=lambda partition: partition.id)


def expected_rows(partition: Partition) -> list[tuple[Any, ...]]:
    start = 492 if partition.directory.name == DELETED_RECORDS else 0
    topic, _, number = partition.directory.name.rpartition("-")
    return [
        (key, value, topic, int(number), offset, timestamp, TIMESTAMP_TYPES[batch["timestamp_type"]], headers or None)
        for batch in partition.batches()
        if not batch["control"]
        for offset, timestamp, _, key, value, headers in batch["records"]
        if offset >= start
    ]


def rows(directory: Path, **options: Any) -> list[tuple[Any, ...]]:
    """All rows as tuples; times in ms, headers as pairs."""
    parsed = ReadOptions.parse({"path": str(directory), "includeHeaders": True, **options})
    found: list[tuple[Any, ...]] = []
    for split in plan_splits(parsed):
        for batch in read_split(pickle.loads(pickle.dumps(split)), None, parsed):
            table = batch.set_column(5, "timestamp", batch.column(5).cast("int64"))
            found.extend(tuple(row.values()) for row in table.to_pylist())
    return [(*row[:5], row[5] // 1000, row[6], _pairs(row[7])) for row in found]


def _pairs(headers: list[dict[str, Any]] | None) -> tuple[Any, ...] | None:
    return None if headers is None else tuple((each["key"], each["value"]) for each in headers)


@pytest.mark.parametrize("pieces", [1, 2, 7])
@every_partition
def test_the_rows_of_a_partition_are_kafkas_in_any_number_of_splits_a_segment(
    partition: Partition, pieces: int
) -> None:
    largest = max((segment.log.stat().st_size for segment in partition.segments), default=1)
    assert rows(partition.directory, splitBytes=max(1, -(-largest // pieces))) == expected_rows(partition)


def test_large_segments_are_cut_and_small_ones_packed() -> None:
    directory = golden.unpacked() / "kafka-3.9" / "data" / "v2-txn-0"
    whole = plan_splits(ReadOptions.parse({"path": str(directory)}))
    cut = plan_splits(ReadOptions.parse({"path": str(directory), "splitBytes": 3000}))
    assert [type(split) for split in whole] == [SplitGroup]
    assert len(cut) > len(list(directory.glob("*.log"))) == len(whole[0].splits)


def test_a_split_travels_in_less_than_three_hundred_bytes() -> None:
    splits = plan_splits(ReadOptions.parse({"path": str(golden.unpacked() / "kafka-3.9" / "data"), "splitBytes": 3000}))
    assert max(len(pickle.dumps(split)) for group in splits for split in group.splits) < 300


def viewed() -> list[tuple[str, dict[str, Any]]]:
    text = (golden.unpacked() / "kafka-3.9" / "expected" / "broker-view.json").read_text(encoding="utf-8")
    return [(topic, view) for topic, view in json.loads(text).items() if topic in _committed_topics(text)]


def _committed_topics(text: str) -> set[str]:
    return {topic for topic, view in json.loads(text).items() if "read_committed" in view}


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("pieces", [1, 2, 7])
@pytest.mark.parametrize(("topic", "view"), viewed(), ids=[topic for topic, _ in viewed()])
def test_the_offsets_are_those_that_the_broker_gave_to_a_consumer(
    topic: str, view: dict[str, Any], pieces: int, level: str
) -> None:
    directory = golden.unpacked() / "kafka-3.9" / "data" / f"{topic}-0"
    largest = max((path.stat().st_size for path in directory.glob("*.log")), default=1)
    options = {"kafka.isolation.level": level, "splitBytes": max(1, -(-largest // pieces))}
    assert [row[4] for row in rows(directory, **options)] == view[level]
