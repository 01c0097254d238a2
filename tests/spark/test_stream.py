"""`spark.readStream.format("kafkalog")`: everything once, through restarts, rolls, retention and truncation.

A step is one run of a query with one checkpoint: it reads what is there and ends.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import LogConfig, Record
from tests.helpers import golden
from tests.helpers.spark_rows import broker_view, expected_rows, in_ms, limits_work, of_spark

pytestmark = [pytest.mark.spark]

SEGMENTS = golden.ARCHIVES / "v2-zstd-0"
Step = Callable[..., list[list[Any]]]


@pytest.fixture
def step(spark_session: Any, tmp_path: Path) -> Step:
    """`step(path, **options)`: the rows of each micro-batch, until there is nothing more; the checkpoint stays."""

    def run(path: Path, *, dies_in: int | None = None, schema: str | None = None, **options: Any) -> list[list[Any]]:
        batches: list[list[Any]] = []

        def take(frame: Any, number: int) -> None:
            if number == dies_in:
                raise RuntimeError("the query dies here")
            batches.append((in_ms(frame) if schema is None else frame).collect())

        reader = spark_session.readStream.format("kafkalog").options(**{"startingOffsets": "earliest", **options})
        frame = (reader if schema is None else reader.schema(schema)).load(str(path))
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except Exception as error:
            if dies_in is None or "dies here" not in str(error):
                raise
        finally:
            query.stop()
        return [batch for batch in batches if batch]

    return run


def offsets(batches: list[list[Any]]) -> list[int]:
    return [row.offset for batch in batches for row in batch]


def test_a_golden_log_comes_whole_in_micro_batches_with_a_crash_and_a_restart_between(step: Step) -> None:
    topic = next(each for each in golden.checked_partitions() if each.id == "kafka-3.9/v2-zstd-0")
    expected = expected_rows(topic)
    options = {"includeHeaders": True, "maxOffsetsPerTrigger": -(-len(expected) // 5)}
    first = step(topic.directory, dies_in=2, **options)
    second = step(topic.directory, **options)
    if limits_work():
        assert [len(first), len(second)] == [2, 3]
    assert of_spark([row for batch in first + second for row in batch]) == expected


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions_are_read_as_the_isolation_level_says(level: str, step: Step) -> None:
    directory = golden.unpacked() / "kafka-3.9" / "data" / "v2-txn-0"
    expected = broker_view()["v2-txn"][level]
    found = step(
        directory,
        schema="offset long",
        maxOffsetsPerTrigger=-(-(expected[-1] + 1) // 3),
        **{"kafka.isolation.level": level},
    )
    assert offsets(found) == expected


def test_a_restart_reads_what_came_since_in_new_segments_and_new_partitions(step: Step, tmp_path: Path) -> None:
    data = tmp_path / "data"
    written(data, "orders-0", 0, 30)
    assert offsets(step(data, schema="offset long")) == list(range(30))
    written(data, "orders-0", 30, 50)
    written(data, "orders-1", 0, 5)
    found = step(data, schema="topic string, partition int, offset long")
    assert sorted((row.partition, row.offset) for batch in found for row in batch) == [
        *((0, n) for n in range(30, 50)),
        *((1, n) for n in range(5)),
    ]
    assert step(data, schema="offset long") == []
    latest = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(latest.read_text().splitlines()[-1]) == {"orders": {"0": 50, "1": 5}}


def written(data: Path, name: str, start: int, end: int) -> None:
    """Records of those offsets appended, a batch each, some to a segment."""
    with kafkalog.open(data / name, "a", LogConfig(segment_bytes=1000)) as log:
        for n in range(start, end):
            log.append([Record(b"value %d" % n, b"key", timestamp=1_700_000_000_000 + n)])


def test_a_first_micro_batch_that_died_is_repeated_from_where_it_began(step: Step, tmp_path: Path) -> None:
    """Its end alone is in the checkpoint, and the earliest offset, where it began, is another one by then."""
    if not limits_work():
        pytest.skip("Spark before 4.2 does not tell where a micro-batch begins")
    data = tmp_path / "data"
    written(data, "orders-0", 0, 30)
    assert step(data, dies_in=0, schema="offset long", maxOffsetsPerTrigger=20) == []
    assert offsets(step(data, schema="offset long", startingOffsets="latest")) == list(range(30))


def test_records_deleted_before_they_were_read_end_the_query_or_are_skipped(step: Step, tmp_path: Path) -> None:
    copied = shutil.copytree(SEGMENTS, tmp_path / SEGMENTS.name)
    assert offsets(step(copied, schema="offset long", dies_in=1, maxOffsetsPerTrigger=100))[-1] >= 99
    if not limits_work():
        pytest.skip("Spark before 4.2 reads all at once")
    for base in ("00000000000000000000", "00000000000000000192"):
        (copied / f"{base}.log").unlink()
    with pytest.raises(Exception, match=r"v2-zstd-0: offsets 100..199 are not there; there are 384..1199"):
        step(copied, schema="offset long", maxOffsetsPerTrigger=100)
    found = step(copied, schema="offset long", failOnDataLoss=False)
    assert offsets(found) == list(range(384, 1200))


def test_a_truncated_log_ends_the_query_or_goes_on_at_its_new_end(step: Step, tmp_path: Path) -> None:
    copied = shutil.copytree(SEGMENTS, tmp_path / SEGMENTS.name)
    step(copied, schema="offset long")
    for path in (*copied.glob("*0960.*"), *copied.glob("*1152.*")):
        path.unlink()
    with pytest.raises(Exception, match=r"v2-zstd-0: offsets 960..1199 are truncated \(failOnDataLoss=false"):
        step(copied, schema="offset long")
    assert step(copied, schema="offset long", failOnDataLoss=False) == []
    for path in (*SEGMENTS.glob("*0960.*"), *SEGMENTS.glob("*1152.*")):
        shutil.copy(path, copied)
    assert offsets(step(copied, schema="offset long", failOnDataLoss=False)) == list(range(960, 1200))


def test_a_running_query_follows_appends_and_rolls(spark_session: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    written(data, "orders-0", 0, 5)
    frame = spark_session.readStream.format("kafkalog").option("startingOffsets", "earliest").load(str(data))
    writer = frame.select("offset").writeStream.format("memory").queryName("followed")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        written(data, "orders-0", 5, 40)
        query.processAllAvailable()
        found = sorted(row.offset for row in spark_session.table("followed").collect())
    finally:
        query.stop()
    assert found == list(range(40))


def refusal_of(frame: Any, directory: Path) -> str:
    """What a query says that ends at once."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(directory / "checkpoint"))
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is looked at by whoever asks
        writer.trigger(availableNow=True).start().awaitTermination()
    return str(caught.value)


def test_a_stream_has_no_end(spark_session: Any, tmp_path: Path) -> None:
    frame = spark_session.readStream.format("kafkalog").option("endingOffsets", "latest").load(str(SEGMENTS))
    ended = refusal_of(frame, tmp_path)
    assert "ValueError: option endingOffsets: 'latest' is for batch reads; a stream has no end" in ended
    assert "UnboundLocalError" not in ended


def test_a_stream_that_goes_on_has_no_end_either(spark_session: Any, step: Step, tmp_path: Path) -> None:
    step(SEGMENTS)
    frame = spark_session.readStream.format("kafkalog").option("endingTimestamp", "7").load(str(SEGMENTS))
    ended = refusal_of(frame, tmp_path)
    assert "ValueError: option endingTimestamp: '7' is for batch reads; a stream has no end" in ended
    assert "UnboundLocalError" not in ended


def test_a_stream_of_a_column_of_another_type_is_refused_with_the_column(spark_session: Any, tmp_path: Path) -> None:
    frame = spark_session.readStream.format("kafkalog").schema("offset string").load(str(SEGMENTS))
    ended = refusal_of(frame, tmp_path)
    assert "offset" in ended.partition("ValueError: ")[2].splitlines()[0]
    assert "UnboundLocalError" not in ended
