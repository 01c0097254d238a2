"""What brokers wrote, read by Spark's splits and written again, is the same but for what a new log decides itself.

Offsets count up from 0 without the gaps of transactions and compaction; the timestamps are those of the rows
(CreateTime), also of a topic whose broker had set them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark import ReadOptions, plan_splits, read_split
from tests.helpers import golden
from tests.helpers.golden import Partition
from tests.helpers.partitions import sampled_partition
from tests.helpers.spark_rows import Row, broker_view, expected_rows, transactional_topics
from tests.helpers.spark_writing import started
from tests.spark.test_golden_splits import rows


def without_what_a_new_log_decides(found: list[Row]) -> list[Row]:
    return [(*row[:4], row[5], row[7]) for row in found]


def copied(partition: Partition, to: Path, **more: Any) -> list[Row]:
    """The rows of the copy, whose offsets count up from 0."""
    options = ReadOptions.parse({"path": str(partition.directory), "includeHeaders": True, "splitBytes": 3000, **more})
    topic = partition.directory.name.rpartition("-")[0]
    job = started(to, overwrite=True, topic=topic, batchBytes="2k", compression="lz4")
    messages = [job.write(read_split(split, None, options), task) for task, split in enumerate(plan_splits(options))]
    job.commit(reversed(messages))
    found = rows(to)
    assert [row[4] for row in found] == list(range(len(found)))
    return found


@sampled_partition
def test_rows_read_from_a_partition_and_written_again_are_the_same(partition: Partition, tmp_path: Path) -> None:
    found, expected = copied(partition, tmp_path), expected_rows(partition)
    assert without_what_a_new_log_decides(found) == without_what_a_new_log_decides(expected)


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("topic", transactional_topics())
def test_a_copy_has_only_the_records_that_a_consumer_was_given(topic: str, level: str, tmp_path: Path) -> None:
    """Aborted transactions that were left out when the rows were read are not there for any reader of the copy."""
    partition = next(each for each in golden.checked_partitions() if each.id == f"kafka-3.9/{topic}-0")
    given = set(broker_view()[topic][level])
    expected = [row for row in expected_rows(partition) if row[4] in given]
    found = copied(partition, tmp_path, **{"kafka.isolation.level": level})
    assert without_what_a_new_log_decides(found) == without_what_a_new_log_decides(expected)
