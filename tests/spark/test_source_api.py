"""The classes that Spark calls, called as it calls them, without a JVM."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'", exc_type=ImportError)

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from kafkalog.errors import LogLockedError
from kafkalog.spark import KafkaLogDataSource, ReadOptions, read_rdd
from kafkalog.spark.schema import columns_of_struct
from kafkalog.spark.stream_reader import KafkaLogStreamReader
from kafkalog.spark.write import job as writer
from kafkalog.spark.write.data_source_writer import KafkaLogArrowWriter, KafkaLogCommitMessage
from tests.helpers import golden
from tests.helpers.locking import lock_data_dir
from tests.helpers.spark_writing import values, values_in

SEGMENTS = golden.ARCHIVES / "v2-zstd-0"


def test_a_stream_sink_is_refused_with_the_way_that_works() -> None:
    with pytest.raises(NotImplementedError, match="does not write streams: write each micro-batch with foreachBatch"):
        KafkaLogDataSource({"path": str(SEGMENTS), "topic": "t"}).streamWriter(None, False)


def test_a_reader_and_its_partitions_are_pickled_and_one_without_a_split_has_no_rows() -> None:
    source = KafkaLogDataSource({"path": str(SEGMENTS), "splitbytes": "2000"})
    reader = pickle.loads(pickle.dumps(source.reader(StructType([StructField("offset", LongType())]))))
    partitions = [pickle.loads(pickle.dumps(each)) for each in reader.partitions()]
    found = [row for each in partitions for batch in reader.read(each) for row in batch.column(0).to_pylist()]
    assert found == list(range(1200))
    assert list(reader.read(None)) == list(reader.read(InputPartition(None))) == []
    assert max(len(pickle.dumps(each)) for each in partitions) < 400


@pytest.mark.parametrize(("nulls", "strict"), [((True, True, True), False), ((True, True, False), True)])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_headers_whose_parts_may_not_be_null_are_refused(
    nulls: tuple[bool, bool, bool], strict: bool, which: int
) -> None:
    """Spark's name of the type does not tell of them; its tasks would fail."""
    key, value, element = nulls[which:] + nulls[:which]
    header = StructType([StructField("key", StringType(), key), StructField("value", BinaryType(), value)])
    schema = StructType([StructField("headers", ArrayType(header, element), nullable=False)])
    if strict:
        with pytest.raises(ValueError, match=r"column headers is array<.*>, not array<.*> whose .* may not be null"):
            columns_of_struct(schema)
    else:
        assert [column.source for column in columns_of_struct(schema)] == ["headers"]


def test_read_rdd_refuses_a_session_of_spark_connect() -> None:
    class Session:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"[JVM_ATTRIBUTE_NOT_SUPPORTED] {name}")

    with pytest.raises(TypeError, match=r"Spark Connect does not have: read a DataFrame, spark.read.format"):
        read_rdd(Session(), SEGMENTS)


@pytest.mark.parametrize(
    "text",
    [
        '{"orders": {"0": "50"}}',
        '{"orders": {"0": 50.5}}',
        '{"orders": {"0": null}}',
        '{"orders": {"0": true}}',
        '{"orders": {"0": -2}}',
        '{"orders": {"zero": 5}}',
        '{"orders": {"0": 5, "00": 5}}',
        '{"orders": [1, 2]}',
        '{"orders": 5}',
        "[5]",
    ],
)
def test_wrong_offsets_in_the_checkpoint_are_refused_with_their_text(text: str) -> None:
    reader = KafkaLogStreamReader(ReadOptions.parse({"path": str(SEGMENTS)}, streaming=True), ())
    for start, end in ((json.loads(text), {"v2-zstd": {"0": 5}}), ({"v2-zstd": {"0": 5}}, json.loads(text))):
        with pytest.raises(ValueError, match=rf"invalid offsets in the checkpoint, expected .*: {re.escape(text)}$"):
            reader.partitions(start, end)
    with pytest.raises(ValueError, match="invalid offsets in the checkpoint"):
        reader.latestOffset(json.loads(text))


def test_the_arrow_writer_commits_and_aborts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = StructType([StructField("value", BinaryType())])
    sink = KafkaLogArrowWriter({"path": str(tmp_path), "topic": "t"}, schema, overwrite=False)
    message = sink.write(iter([values(b"1", b"2").select(["value"])]))
    assert isinstance(message, KafkaLogCommitMessage)
    monkeypatch.setattr(writer, "LOCK_WAIT_S", 0.05)
    with lock_data_dir(tmp_path), pytest.raises(LogLockedError):
        sink.commit([message, None])
    sink.commit([message, None])
    assert values_in(tmp_path) == [b"1", b"2"]
    other = KafkaLogArrowWriter({"path": str(tmp_path), "topic": "t"}, schema, overwrite=False)
    other.abort([other.write(iter([values(b"3").select(["value"])])), None])
    assert values_in(tmp_path) == [b"1", b"2"]
    assert not (tmp_path / "_kafkalog_tmp").exists()
