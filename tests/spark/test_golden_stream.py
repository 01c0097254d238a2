"""What brokers wrote, streamed in micro-batches through deaths and restarts, is what Kafka reads in it.

`Query` calls a stream reader as Spark does, in its order and with offsets that are JSON in between, without a JVM.
`test_stream.py` has Spark itself do it.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'", exc_type=ImportError)
pytest.importorskip("pyspark.sql.streaming.datasource", reason="Spark before 4.2 does not bound micro-batches")

from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.schema import columns_of
from kafkalog.spark.stream_reader import KafkaLogStreamReader
from tests.helpers import golden
from tests.helpers.golden import Partition
from tests.helpers.partitions import sampled_archive, sampled_partition
from tests.helpers.spark_rows import (
    Row,
    broker_view,
    expected_rows,
    in_order,
    of_archive,
    of_arrow,
    transactional_topics,
)


class Query:
    """A query that is started again and again: its options, and what its checkpoint holds (JSON texts)."""

    def __init__(self, path: Path, **options: Any) -> None:
        given = {"path": str(path), "includeHeaders": True, "startingOffsets": "earliest", **options}
        self._options = ReadOptions.parse(given, streaming=True)
        self._ends: list[str] = []
        self._committed = 0

    def run(self, batches: int | None = None, *, dies: bool = False) -> Iterator[list[Row]]:
        """The rows of so many micro-batches (all that there are); it dies in the last one, when its rows are read."""
        reader = KafkaLogStreamReader(self._options, columns_of(None, self._options))
        worker = pickle.loads(pickle.dumps(reader))
        start = json.loads(self._ends[self._committed - 1]) if self._committed else reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        while batches is None or batches > 0:
            end = self._planned(reader, start)
            if end is None:
                return
            batches = None if batches is None else batches - 1
            rows = self._rows(reader, worker, start, end)
            if dies and batches == 0:
                return
            yield rows
            self._committed += 1
            reader.commit(end)
            start = end
        reader.stop()

    def _planned(self, reader: KafkaLogStreamReader, start: dict[str, Any]) -> dict[str, Any] | None:
        """The end of the next micro-batch: the one that is in the checkpoint, or a new one."""
        if self._committed == len(self._ends):
            end = json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit()))
            if end == json.dumps(start):
                return None
            self._ends.append(end)
        found: dict[str, Any] = json.loads(self._ends[self._committed])
        return found

    def _rows(self, reader: KafkaLogStreamReader, worker: Any, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
        tasks = [pickle.loads(pickle.dumps(each)) for each in reader.partitions(start, end)]
        return of_arrow(batch for task in tasks for batch in worker.read(task))


def streamed(path: Path, **options: Any) -> list[list[Row]]:
    """The rows of each micro-batch of a query that is stopped, dies, and is started again in between."""
    query = Query(path, **options)
    found = [*query.run(1)]
    found += query.run(2, dies=True)
    found += query.run(1)
    found += query.run()
    assert [*query.run()] == []
    return found


def a_third(count: int) -> int:
    """So many offsets a micro-batch that there are three or more, where there are so many offsets."""
    return max(1, count // 3)


@sampled_partition
def test_a_partition_comes_whole_in_three_or_more_micro_batches(partition: Partition) -> None:
    expected = expected_rows(partition)
    found = streamed(partition.directory, splitBytes=4000, maxOffsetsPerTrigger=a_third(len(expected)))
    assert [row for batch in found for row in batch] == expected
    assert len(found) >= min(3, len(expected))


@sampled_archive
def test_a_data_directory_comes_whole_in_three_or_more_micro_batches(archive: str) -> None:
    expected = of_archive(archive)
    options = {"subscribe": golden.checked_topics(archive), "maxOffsetsPerTrigger": a_third(len(expected))}
    found = streamed(golden.unpacked() / archive / "data", **options)
    assert in_order(row for batch in found for row in batch) == expected
    assert len(found) >= 3


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("topic", transactional_topics())
def test_the_offsets_are_those_that_the_broker_gave_to_a_consumer(topic: str, level: str) -> None:
    expected = broker_view()[topic][level]
    options = {"maxOffsetsPerTrigger": a_third(len(expected)), "kafka.isolation.level": level}
    found = streamed(golden.unpacked() / "kafka-3.9" / "data" / f"{topic}-0", **options)
    assert [row[4] for batch in found for row in batch] == expected
    assert len(found) >= min(3, len(expected))
