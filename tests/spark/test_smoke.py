"""The one session of Spark in the fast tier; all that it is asked for is in one test, so that one worker starts a JVM.

What is read back is what Kafka's own classes read in the golden logs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import golden
from tests.helpers.golden import Partition
from tests.helpers.spark_rows import expected_rows, in_ms, of_spark
from tests.spark.sessions import spark_started

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def partition(name: str) -> Partition:
    return next(each for each in golden.checked_partitions() if each.id == name)


def test_spark_reads_streams_writes_and_makes_rdds_of_golden_logs(tmp_path: Path) -> None:
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("a JVM does not start with the address sanitizer")
    with spark_started(tmp_path) as session:
        frame_has_the_rows_of_kafka(session, partition("kafka-0.10.2/v1-gzip-0"))
        stream_has_the_rows_of_kafka(session, partition("kafka-3.9/v2-lz4-0"), tmp_path / "checkpoint")
        rdd_has_the_records_of_kafka(session, partition("kafka-3.9/v2-txn-0"))
        written_rows_are_read_again(session, partition("kafka-3.9/v2-zstd-0"), tmp_path / "written")


def read(session: Any, path: Path) -> Any:
    return session.read.format("kafkalog").option("includeHeaders", "true").load(str(path))


def frame_has_the_rows_of_kafka(session: Any, log: Partition) -> None:
    assert of_spark(in_ms(read(session, log.directory)).collect()) == expected_rows(log)


def stream_has_the_rows_of_kafka(session: Any, log: Partition, checkpoint: Path) -> None:
    rows: list[Any] = []
    reader = (
        session.readStream.format("kafkalog").option("includeHeaders", "true").option("startingOffsets", "earliest")
    )
    writer = reader.load(str(log.directory)).writeStream.option("checkpointLocation", str(checkpoint))
    query = writer.foreachBatch(lambda frame, _: rows.extend(in_ms(frame).collect())).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60), "the stream did not end within a minute"
    finally:
        query.stop()
    assert of_spark(rows) == expected_rows(log)


def rdd_has_the_records_of_kafka(session: Any, log: Partition) -> None:
    from kafkalog.spark import read_rdd

    records = read_rdd(session, log.directory, splitBytes=100_000)
    found = records.map(lambda record: (record.key, record.value, record.offset, record.timestamp)).collect()
    assert found == [(row[0], row[1], row[4], row[5]) for row in expected_rows(log)]


def written_rows_are_read_again(session: Any, log: Partition, path: Path) -> None:
    read(session, log.directory).coalesce(1).write.format("kafkalog").mode("append").save(str(path))
    rows = of_spark(in_ms(read(session, path)).collect())
    assert [(*row[:6], row[7]) for row in rows] == [(*row[:6], row[7]) for row in expected_rows(log)]
