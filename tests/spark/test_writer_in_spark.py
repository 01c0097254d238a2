"""DataFrames written by Spark itself."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'")

from tests.helpers import golden
from tests.helpers.spark_rows import expected_rows, in_ms, of_spark
from tests.helpers.spark_writing import partitions_in, records_in
from tests.reference.murmur2 import partition_of_key

pytestmark = [pytest.mark.spark]


def test_a_dataframe_is_written_appended_to_and_overwritten(spark_session: Any, tmp_path: Path) -> None:
    rows = spark_session.range(0, 300, 1, 3).selectExpr(
        "cast(id as string) as key",
        "encode(concat('value ', id), 'utf-8') as value",
        "timestamp_millis(id) as timestamp",
        "array(struct('h' as key, cast('x' as binary) as value)) as headers",
    )
    to = rows.write.format("kafkalog").option("topic", "t").option("partitions", 2).option("compression", "lz4")
    expected = [[i for i in range(300) if partition_of_key(b"%d" % i, 2) == number] for number in range(2)]
    for mode, times in (("append", 1), ("append", 2), ("overwrite", 1)):
        to.mode(mode).save(str(tmp_path))
        assert partitions_in(tmp_path) == ["t-0", "t-1"]
        for number in range(2):
            found = records_in(tmp_path, f"t-{number}")
            assert [record.timestamp for record in found] == expected[number] * times
            assert all(record.value == b"value %b" % (record.key or b"") for record in found)
            assert {record.headers for record in found} == {(("h", b"x"),)}


def test_a_dataframe_that_fails_leaves_the_directory_as_it_was(spark_session: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    rows = spark_session.range(0, 100, 1, 2).selectExpr(
        "cast(id as string) as value", "if(id = 99, cast(null as string), 't') as topic"
    )
    with pytest.raises(PySparkException, match="1 rows have no topic"):
        rows.write.format("kafkalog").mode("append").save(str(tmp_path))
    assert partitions_in(tmp_path) == []


def test_a_frame_that_cannot_be_written_is_refused_before_anything_is(spark_session: Any, tmp_path: Path) -> None:
    from pyspark.errors import AnalysisException

    to = spark_session.range(1).write.format("kafkalog").mode("append").option("topic", "t")
    with pytest.raises(AnalysisException, match="column value is missing"):
        to.save(str(tmp_path))
    with pytest.raises(AnalysisException, match=r"unknown option .partition. \(value .1.\); did you mean partitions\?"):
        to.option("partition", 1).save(str(tmp_path))


def test_a_log_read_and_written_again_has_the_same_rows(spark_session: Any, tmp_path: Path) -> None:
    def read(path: Path) -> Any:
        return spark_session.read.format("kafkalog").option("includeHeaders", "true").load(str(path))

    partition = next(each for each in golden.checked_partitions() if each.id == "kafka-3.9/v2-zstd-0")
    read(partition.directory).coalesce(1).write.format("kafkalog").mode("append").save(str(tmp_path / "copy"))
    rows = of_spark(in_ms(read(tmp_path / "copy")).collect())
    assert [(*row[:6], row[7]) for row in rows] == [(*row[:6], row[7]) for row in expected_rows(partition)]


def test_the_documents_examples_run_as_they_stand(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ["PYSPARK_PYTHON"])
    text = (Path(__file__).parents[2] / "docs" / "spark-writer.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(block.replace("/tmp/kafka-backup", str(tmp_path)), names)
    assert names["spark"] is spark_session
    assert partitions_in(tmp_path) == [*(f"orders-{number}" for number in range(4)), "payments-0", "users-0"]
    assert sum(len(records_in(tmp_path, name)) for name in partitions_in(tmp_path)) == 3000


def test_columns_that_differ_in_case_alone_are_both_named(spark_session: Any, tmp_path: Path) -> None:
    from pyspark.errors import AnalysisException

    spark_session.conf.set("spark.sql.caseSensitive", "true")
    try:
        rows = spark_session.sql("select 'a' as value, 'b' as VALUE")
        with pytest.raises(AnalysisException, match="columns 'value' and 'VALUE' both stand for column value"):
            rows.write.format("kafkalog").mode("append").option("topic", "t").save(str(tmp_path))
    finally:
        spark_session.conf.unset("spark.sql.caseSensitive")
