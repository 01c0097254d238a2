"""What a writer is told is held against what it knows and against the directory, before anything is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.write.options import WriteOptions, check_columns
from tests.helpers.spark_writing import partitions_in, rows, started, state_of, values, values_in, written


def topic_of(path: Path, partitions: int) -> None:
    """t, with a record in its first partition."""
    written(path, [values(b"old")], topic="t", partitions=partitions)


# --- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option path is required"),
        ({"path": "/x", "segmentbyte": "1"}, "unknown option 'segmentbyte' (value '1'); did you mean segmentBytes?"),
        ({"path": "/x", "kafka.bootstrap.servers": "a:1"}, "(value 'a:1'); no broker is used"),
        ({"path": "/x", "batchBytes": "many"}, "option batchBytes is 'many': expected 70"),
        ({"path": "/x", "batchBytes": "2m", "segmentBytes": "1m"}, "batchBytes is 2097152: more than segmentBytes"),
        ({"path": "/x", "compression": "rar"}, "option compression is 'rar': expected one of none"),
        ({"path": "/x", "partitions": "0"}, "option partitions is '0'"),
        ({"path": "/x", "topic": ".."}, "option topic is '..'"),
        ({"path": "/x", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}, "option topicId is 'AAAA"),
        ({"path": "/x", "topicId": "bUPDMCVQRZiKdmIvGGjhHg"}, "requires option topic"),
        ({"path": "s3://bucket/x"}, "option path is 's3://bucket/x': expected a local or mounted directory"),
    ],
)
def test_an_option_that_cannot_be_is_named_with_its_value(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        WriteOptions.parse(options)


def test_a_path_may_be_a_file_url() -> None:
    assert WriteOptions.parse({"PATH": "file:///a%20b/c"}).path == Path("/a b/c")


def test_an_unknown_option_is_refused_as_for_reading() -> None:
    found = []
    for parse in (ReadOptions.parse, WriteOptions.parse):
        with pytest.raises(ValueError, match="unknown option") as caught:
            parse({"path": "/x", "pathh": "/y"})
        found.append(str(caught.value))
    assert found == ["unknown option 'pathh' (value '/y'); did you mean path?"] * 2


# --- columns


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": "binary"}, "column value is missing"),
        ({"value": "binary", "VALUE": "string"}, "columns 'value' and 'VALUE' both stand for column value"),
        ({"value": "int"}, "column value is of type int: expected binary or string"),
        ({"value": "binary", "Partition": "bigint"}, "column partition is of type bigint"),
        ({"value": "binary", "headers": "map<string,binary>"}, "column headers is of type map"),
        ({"value": "binary"}, "neither option topic nor a column topic"),
    ],
)
def test_columns_that_cannot_be_written_are_refused_before_anything_is(columns: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_columns([*columns.items()], WriteOptions(Path("/x")))


def test_columns_that_differ_in_case_alone_are_refused_by_the_task_too(tmp_path: Path) -> None:
    twice = pa.RecordBatch.from_pydict({"value": pa.array(["1"]), "Offset": pa.array([1]), "VALUE": pa.array(["2"])})
    with pytest.raises(ValueError, match="columns 'value' and 'VALUE' both stand for column value"):
        started(tmp_path, topic="t").write([twice])
    unknown = pa.RecordBatch.from_pydict({"value": pa.array(["1"]), "x": pa.array([1]), "X": pa.array([2])})
    written(tmp_path, [unknown], topic="t")
    assert values_in(tmp_path) == [b"1"]


# --- the path


def test_a_partitions_directory_is_no_place_for_partitions(tmp_path: Path) -> None:
    topic_of(tmp_path, 1)
    before = state_of(tmp_path)
    with pytest.raises(ValueError, match=f"option path is '{tmp_path}/t-0': .*use the data directory that contains it"):
        started(tmp_path / "t-0", topic="u")
    assert state_of(tmp_path) == before


@pytest.mark.parametrize("below", ["", "/a", "/a/b"])
def test_a_file_is_no_directory_to_write_to(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("text")
    path, what = f"{tmp_path}/file{below}", f"{tmp_path}/file is not a directory"
    with pytest.raises(ValueError, match=f"option path is '{path}': {what}"):
        started(Path(path), topic="t")


# --- how many partitions


@pytest.mark.parametrize("options", [{"topic": "t"}, {}])
def test_a_topic_cannot_have_fewer_partitions_again(tmp_path: Path, options: dict[str, Any]) -> None:
    topic_of(tmp_path, 4)
    before = state_of(tmp_path)
    with pytest.raises(ValueError, match="option partitions is 2: t already has 4"):
        written(tmp_path, [values(b"new", partition=None)], partitions=2, **options)
    written_nothing = {name: data for name, data in state_of(tmp_path).items() if "_kafkalog_tmp" not in name}
    assert written_nothing == before
    written(tmp_path, [values(b"new")], overwrite=True, topic="t", partitions=2)
    assert values_in(tmp_path) == [b"new"]
    assert not (tmp_path / "t-2").exists()


def test_a_topic_that_is_enlarged_meanwhile_is_not_written_to_as_before(tmp_path: Path) -> None:
    topic_of(tmp_path, 2)
    job = started(tmp_path, topic="t", partitions=2)
    messages = [job.write([values(b"new", partition=None)])]
    written(tmp_path, [values(b"other")], topic="t", partitions=3)
    with pytest.raises(ValueError, match="option partitions is 2: t already has 3"):
        job.commit(messages)


def test_more_partitions_enlarge_a_topic_with_a_warning_about_its_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic_of(tmp_path, 2)
    written(tmp_path, [values(b"same", partition=None)], topic="t", partitions=2)
    assert caplog.messages == []
    written(tmp_path, [], topic="t", partitions=3)
    what = "keys go to other partitions than before"
    assert caplog.messages == [f"{tmp_path}: t had 2 partitions and has 3: {what}"]
    assert partitions_in(tmp_path) == ["t-0", "t-1", "t-2"]


def test_rows_that_name_a_partition_beyond_the_topics_enlarge_it_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What lies between is made by the next job; one with the option `partitions` refuses such rows."""
    topic_of(tmp_path, 3)
    beyond = rows(*({"value": b"new", "topic": "t", "partition": number} for number in (0, 5)))
    with pytest.raises(ValueError, match="a row's partition is 5: expected 0 to 2"):
        started(tmp_path, partitions=3).write([beyond])
    written(tmp_path, [beyond])
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "t had 3 partitions and has 6: keys go to other partitions than before"
    ]
    assert {"t-0", "t-1", "t-2", "t-5"} == set(partitions_in(tmp_path)) - {"_kafkalog_tmp"}
    written(tmp_path, [values(b"more")])
    assert len(caplog.messages) == 1
    assert set(partitions_in(tmp_path)) - {"_kafkalog_tmp"} == {f"t-{number}" for number in range(6)}


def test_a_topic_that_is_new_or_replaced_is_not_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topic_of(tmp_path, 2)
    written(tmp_path, [values(b"new")], overwrite=True, topic="t", partitions=5)
    assert caplog.messages == []
