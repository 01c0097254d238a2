"""What brokers wrote, read by Spark's splits and written again, is the same but for what a new log decides itself.

Offsets count up from 0 without the gaps of transactions and compaction; the timestamps are those of the rows
(CreateTime), also of a topic whose broker had set them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import golden
from golden import Partition
from kafkalog.spark import ReadOptions, plan_splits, read_split
from spark.test_golden_splits import expected_rows, rows
from spark.writing import started

every_partition = pytest.mark.parametrize("partition", golden.checked_partitions(), ids=lambda partition: partition.id)


def without_what_a_new_log_decides(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*row[:4], row[5], row[7]) for row in found]


@every_partition
def test_rows_read_from_a_partition_and_written_again_are_the_same(partition: Partition, tmp_path: Path) -> None:
    options = ReadOptions.parse({"path": str(partition.directory), "includeHeaders": True, "splitBytes": 3000})
    topic = partition.directory.name.rpartition("-")[0]
    job = started(tmp_path, overwrite=True, topic=topic, batchBytes="2k", compression="lz4")
    messages = [job.write(read_split(split, None, options), task) for task, split in enumerate(plan_splits(options))]
    job.commit(reversed(messages))
    found, expected = rows(tmp_path), expected_rows(partition)
    assert [row[4] for row in found] == list(range(len(expected)))
    assert without_what_a_new_log_decides(found) == without_what_a_new_log_decides(expected)
