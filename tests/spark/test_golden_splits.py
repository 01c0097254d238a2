"""What brokers wrote, planned and read split by split, is what Kafka reads in it, however it is split."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark import ReadOptions, SplitGroup, plan_splits, read_split
from tests.helpers import golden
from tests.helpers.golden import Partition
from tests.helpers.partitions import sampled_partition
from tests.helpers.spark_rows import Row, broker_view, expected_rows, of_arrow, transactional_topics


def rows(directory: Path, **options: Any) -> list[Row]:
    """All rows, each split having travelled."""
    parsed = ReadOptions.parse({"path": str(directory), "includeHeaders": True, **options})
    travelled = [pickle.loads(pickle.dumps(split)) for split in plan_splits(parsed)]
    return of_arrow(batch for split in travelled for batch in read_split(split, None, parsed))


def bytes_of_a_piece(directory: Path, pieces: int) -> int:
    """The value of splitBytes that cuts the largest segment into so many."""
    largest = max((path.stat().st_size for path in directory.glob("*.log")), default=1)
    return max(1, -(-largest // pieces))


@sampled_partition
def test_the_rows_of_a_partition_are_kafkas_in_any_number_of_splits_a_segment(partition: Partition) -> None:
    expected = expected_rows(partition)
    for pieces in (1, 2, 7):
        assert rows(partition.directory, splitBytes=bytes_of_a_piece(partition.directory, pieces)) == expected


def test_large_segments_are_cut_and_small_ones_packed() -> None:
    directory = golden.unpacked() / "kafka-3.9" / "data" / "v2-txn-0"
    whole = plan_splits(ReadOptions.parse({"path": str(directory)}))
    cut = plan_splits(ReadOptions.parse({"path": str(directory), "splitBytes": 3000}))
    assert [type(split) for split in whole] == [SplitGroup]
    assert len(cut) > len(list(directory.glob("*.log"))) == len(whole[0].splits)


def test_a_split_travels_in_less_than_three_hundred_bytes() -> None:
    splits = plan_splits(ReadOptions.parse({"path": str(golden.unpacked() / "kafka-3.9" / "data"), "splitBytes": 3000}))
    assert max(len(pickle.dumps(split)) for group in splits for split in group.splits) < 300


@pytest.mark.parametrize("topic", sorted(broker_view()))
def test_the_offsets_are_those_that_the_broker_gave_to_a_consumer(topic: str) -> None:
    directory, view = golden.unpacked() / "kafka-3.9" / "data" / f"{topic}-0", broker_view()[topic]
    for level in ("read_committed", "read_uncommitted"):
        options = {"kafka.isolation.level": level, "splitBytes": bytes_of_a_piece(directory, 7)}
        assert [row[4] for row in rows(directory, **options)] == view[level]


@pytest.mark.parametrize("topic", transactional_topics())
def test_committed_offsets_are_the_same_in_any_number_of_splits_a_segment(topic: str) -> None:
    directory, expected = (
        golden.unpacked() / "kafka-3.9" / "data" / f"{topic}-0",
        broker_view()[topic]["read_committed"],
    )
    for pieces in (1, 2, 30):
        options = {"kafka.isolation.level": "read_committed", "splitBytes": bytes_of_a_piece(directory, pieces)}
        assert [row[4] for row in rows(directory, **options)] == expected
