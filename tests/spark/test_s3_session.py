"""Spark itself reads golden logs from an S3-compatible store on loopback, which driver and workers are led to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'", exc_type=ImportError)
pytest.importorskip("fsspec", reason="fsspec is missing: pip install 'kafkalog[remote]'")
pytest.importorskip("s3fs", reason="s3fs is missing: pip install s3fs")
pytest.importorskip("moto.server", reason="moto is missing: pip install 'moto[server]'")

from tests.helpers import golden
from tests.helpers.s3_server import BUCKET, S3Server
from tests.helpers.spark_rows import broker_view, expected_rows, in_ms, limits_work, of_archive, of_spark

NAME = "v2-txn-0"
pytestmark = [
    pytest.mark.spark,
    # moto leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def store(spark_session: Any) -> Iterator[str]:
    """The URL of kafka-3.9's data directory. Spark's Python workers read fsspec's configuration when they need it."""
    server = S3Server()
    server.put(golden.unpacked() / "kafka-3.9" / "data", "data")
    configuration = Path(os.environ["FSSPEC_CONFIG_DIR"], "s3.json")
    configuration.write_text(json.dumps({"s3": server.options}))
    yield f"s3://{BUCKET}/data"
    configuration.unlink()
    server.close()


def test_a_data_directory_in_a_store_has_the_rows_that_it_has_on_a_disk(store: str, load: Callable[..., Any]) -> None:
    topics = golden.checked_topics("kafka-3.9")
    found = load(store, subscribe=topics, includeHeaders=True)
    expected = of_archive("kafka-3.9")
    assert found.count() == len(expected)
    assert of_spark(in_ms(found).collect()) == expected


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_a_partition_in_a_store_has_the_records_that_the_broker_gave_to_a_consumer(
    store: str, load: Callable[..., Any], level: str
) -> None:
    found = load(f"{store}/{NAME}", schema="offset long", minPartitions=7, **{"kafka.isolation.level": level})
    expected = broker_view()["v2-txn"][level]
    assert found.count() == len(expected)
    assert sorted(row.offset for row in found.collect()) == expected


def test_a_stream_from_a_store_gives_everything_once_through_restarts(
    store: str, spark_session: Any, tmp_path: Path
) -> None:
    partition = next(each for each in golden.checked_partitions() if each.id == f"kafka-3.9/{NAME}")
    expected = expected_rows(partition)
    batches: list[list[Any]] = []
    for _ in range(2):
        reader = spark_session.readStream.format("kafkalog").option("startingOffsets", "earliest")
        reader = reader.option("includeHeaders", "true").option("maxOffsetsPerTrigger", len(expected) // 3)
        writer = reader.load(f"{store}/{NAME}").writeStream.option("checkpointLocation", str(tmp_path))
        writer = writer.foreachBatch(lambda frame, _: batches.append(of_spark(in_ms(frame).collect())))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    assert [row for batch in batches for row in batch] == expected
    assert len(batches) >= (3 if limits_work() else 1)


def test_a_missing_path_in_the_store_is_an_error_with_its_url(store: str, load: Callable[..., Any]) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=f"{store}/missing does not exist"):
        load(f"{store}/missing").count()
