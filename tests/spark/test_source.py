"""`spark.read.format("kafkalog")` gives what the broker would have given."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import kafkalog.spark
from tests.helpers import golden
from tests.helpers.partitions import ARCHIVES
from tests.helpers.spark_rows import broker_view, in_ms, of_archive, of_spark

pytestmark = [pytest.mark.spark]

SEGMENTS = golden.ARCHIVES / "v2-zstd-0"
Load = Callable[..., Any]


@pytest.mark.parametrize("archive", ARCHIVES)
def test_all_partitions_of_a_data_directory_are_read_as_kafka_reads_them(archive: str, load: Load) -> None:
    topics = golden.checked_topics(archive)
    frame = load(golden.unpacked() / archive / "data", includeHeaders=True, splitBytes="256k", subscribe=topics)
    assert of_spark(in_ms(frame).collect()) == of_archive(archive)


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_the_offsets_are_those_that_the_broker_gave_to_a_consumer(level: str, load: Load) -> None:
    views = {topic: view[level] for topic, view in broker_view().items() if view.get(level)}
    frame = load(
        golden.unpacked() / "kafka-3.9" / "data",
        "offset long, topic string",
        **{"kafka.isolation.level": level, "subscribe": ",".join(views), "splitBytes": "64k"},
    )
    found: dict[str, list[int]] = {topic: [] for topic in views}
    for offset, topic in frame.collect():
        found[topic].append(offset)
    assert {topic: sorted(offsets) for topic, offsets in found.items()} == views


def test_the_schema_is_that_of_sparks_kafka_source(load: Load) -> None:
    plain = (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
    )
    headers = "headers:array<struct<key:string,value:binary>>"
    metadata = (
        "producerId:bigint,producerEpoch:int,sequence:int,leaderEpoch:int,isControl:boolean,file:string,position:bigint"
    )
    assert load(SEGMENTS).schema.simpleString() == plain + ">"
    assert load(SEGMENTS, includeHeaders=True).schema.simpleString() == f"{plain},{headers}>"
    everything = load(SEGMENTS, includeHeaders=True, includeMetadata=True, onCorrupt="permissive")
    assert everything.schema.simpleString() == f"{plain},{headers},{metadata},_corrupt:string>"
    assert all(field.nullable for field in everything.schema)


def test_metadata_gives_file_and_position_of_a_record(load: Load) -> None:
    row = load(SEGMENTS, includeMetadata=True).where("offset = 200").first()
    assert Path(row.file).name == "00000000000000000192.log"
    assert (row.isControl, row.producerId, row.sequence) == (False, -1, -1)
    assert 0 <= row.position < Path(row.file).stat().st_size


def test_columns_come_as_they_are_chosen_in_order_name_and_nullability(load: Load) -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    chosen = StructType([StructField("OFFSET", LongType(), nullable=False), StructField("topic", StringType())])
    frame = load(SEGMENTS, chosen)
    assert frame.schema == chosen
    assert [tuple(row) for row in frame.orderBy("OFFSET").take(2)] == [(0, "v2-zstd"), (1, "v2-zstd")]
    assert load(SEGMENTS, "leaderEpoch int, value binary").count() == frame.count() == 1200


def test_a_view_in_sql_is_read_by_name_options_and_path(spark_session: Any) -> None:
    spark_session.sql(
        "CREATE OR REPLACE TEMPORARY VIEW records USING kafkalog "
        f"OPTIONS (path '{SEGMENTS}', STARTINGOFFSETS 'earliest')"
    )
    found = spark_session.sql("SELECT count(*), min(offset), max(offset) FROM records").first()
    assert tuple(found) == (1200, 0, 1199)


def test_offsets_bound_what_is_read(load: Load) -> None:
    bounds = {"startingOffsets": '{"v2-zstd": {"0": 100}}', "endingOffsets": '{"v2-zstd": {"0": 500}}'}
    found = sorted(row.offset for row in load(SEGMENTS, "offset long", minPartitions=4, **bounds).collect())
    assert found == list(range(100, 500))


def test_a_directory_without_records_is_an_empty_frame(load: Load, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000000.log").touch()
    assert load(tmp_path / "orders-0").collect() == []


def test_the_source_is_found_without_being_registered(spark_session: Any) -> None:
    # A session of its own knows only what Spark itself looked up.
    found = spark_session.newSession().read.format("KafkaLog").load(str(SEGMENTS))
    assert found.schema.fieldNames()[0] == "key"


def test_registering_the_source_again_is_allowed(spark_session: Any, load: Load) -> None:
    for _ in range(2):
        kafkalog.spark.register(spark_session)
        assert load(SEGMENTS).count() > 0


# --- errors, as a user sees them


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"startingOffset": "earliest"},
            "unknown option 'startingoffset' (value 'earliest'); did you mean startingOffsets?",
        ),
        ({"minPartitions": "few"}, "option minPartitions: 'few' is not a whole number of 1 or more"),
        ({"onCorrupt": "ignore"}, "option onCorrupt: 'ignore' is not one of fail, permissive, skip"),
    ],
)
def test_a_wrong_option_is_refused_by_load_and_named(options: dict[str, str], message: str, load: Load) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as raised:
        load(SEGMENTS, **options)
    assert message in str(raised.value)


def test_a_path_that_is_not_there_is_refused_by_load_and_named(load: Load, tmp_path: Path) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=r"FileNotFoundError: option path: there is no .*nowhere"):
        load(tmp_path / "nowhere")


def test_a_column_that_does_not_exist_is_named_with_those_that_do(load: Load) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="schema: there is no column 'body'; there are key, value, topic"):
        load(SEGMENTS, "body binary").count()
    with pytest.raises(AnalysisException, match="schema: column offset is bigint, not int"):
        load(SEGMENTS, "offset int").count()


def test_damage_is_an_error_with_file_and_position(load: Load, tmp_path: Path) -> None:
    from pyspark.errors import PythonException

    copied = shutil.copytree(SEGMENTS, tmp_path / SEGMENTS.name)
    segment = copied / "00000000000000000384.log"
    segment.write_bytes(segment.read_bytes()[:-1] + b"\xff")
    with pytest.raises(PythonException, match=r"CorruptRecordError.*00000000000000000384.log"):
        load(copied).count()
    assert 0 < load(copied, onCorrupt="skip").count() < 1200
    assert load(copied, onCorrupt="permissive").where("_corrupt IS NOT NULL").count() == 1


# --- tasks


def dying_once(mark: Path) -> type[Any]:
    """The data source, whose first task's process is killed behind its first batch. Local classes travel by value."""
    from kafkalog.spark.data_source import KafkaLogDataSource, KafkaLogReader

    class DyingReader(KafkaLogReader):
        def read(self, partition: Any) -> Iterator[Any]:
            for batch in KafkaLogReader.read(self, partition):
                yield batch
                if not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)

    class DyingSource(KafkaLogDataSource):
        @classmethod
        def name(cls) -> str:
            return "kafkalog-dying"

        def reader(self, schema: Any) -> Any:
            made = KafkaLogDataSource.reader(self, schema)
            return DyingReader(made._options, made._columns)

    return DyingSource


def test_a_worker_killed_in_the_middle_of_its_task_changes_nothing(spark_session: Any, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    spark_session.dataSource.register(dying_once(killed))
    frame = spark_session.read.format("kafkalog-dying").schema("offset long").option("splitBytes", 8000)
    found = frame.load(str(SEGMENTS)).collect()
    assert killed.exists()
    assert sorted(row.offset for row in found) == list(range(1200))


def test_the_blocks_of_the_page_about_spark_print_what_it_shows(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ["PYSPARK_PYTHON"])
    shutil.copytree(SEGMENTS, tmp_path / "demo" / "v2-zstd-0")
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"^ *```python\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL):
        # That of Spark Connect needs a server.
        if ".remote(" not in block:
            placed = block.replace('"/tmp/', f'"{tmp_path}/').replace('"demo/', f'"{tmp_path}/demo/')
            exec(dedent(placed), names)
    assert names["spark"] is spark_session
    printed = capsys.readouterr().out
    shown = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 2
    assert printed.startswith(shown[0])
    assert printed.endswith(shown[1])
