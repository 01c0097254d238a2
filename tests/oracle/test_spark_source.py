"""`format("kafkalog")` beside Spark's own `format("kafka")`: the same options, on one broker's topics and directory.

One broker, one session of Spark with its Kafka source; all questions are asked at once (`spark_answers.py`).
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'kafkalog[arrow]'")
pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'", exc_type=ImportError)

from tests.oracle import java, spark_environment, spark_topics
from tests.oracle.broker import Broker
from tests.oracle.spark_answers import Answer
from tests.oracle.spark_topics import BEGIN, DELETED_BEFORE

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ANSWERS = Path(__file__).with_name("spark_answers.py")
SECONDS = 900

NOTHING = "nothing is chosen"
ALL = "orders,paid,rolled,stamped"


def each(topic: str, *figures: int) -> str:
    """A figure for each partition of a topic."""
    return json.dumps({topic: {str(number): figure for number, figure in enumerate(figures)}})


ORDERS = {"subscribe": "orders"}
PAID = {"subscribe": "paid", "includeHeaders": "true"}
ROLLED = {"subscribe": "rolled"}
COMMITTED = {"kafka.isolation.level": "read_committed"}
UNCOMMITTED = {"kafka.isolation.level": "read_uncommitted"}
LATEST = {"startingOffsetsByTimestampStrategy": "latest"}
MIDDLE = str(BEGIN + 1000)

SAME: dict[str, dict[str, str]] = {
    "every topic": {"subscribe": ALL},
    "every topic, with headers": {"subscribe": ALL, "includeHeaders": "true"},
    "names with blanks": {"subscribe": " orders , stamped"},
    "a pattern": {"subscribePattern": "(orders|st.*)"},
    "a pattern that would match internal topics": {"subscribePattern": ".*"},
    "a pattern that matches nothing": {"subscribePattern": "nothing.*"},
    "a pattern that is found in the middle of names": {"subscribePattern": "[dm]"},
    "a pattern that must match whole names": {"subscribePattern": "^order$"},
    "some partitions": {"assign": '{"orders":[1,2],"paid":[0]}'},
    "a topic that is empty but for its other partitions": {"assign": '{"orders":[2]}'},
    "words in capitals": {**ORDERS, "startingOffsets": "EARLIEST", "endingOffsets": "Latest"},
    "names of options in lower case": {"SUBSCRIBE": "orders", "includeheaders": "TRUE"},
    "offsets": {**ORDERS, "startingOffsets": each("orders", 13, 5, 0), "endingOffsets": each("orders", 201, 30, 0)},
    "offsets within a compressed batch": {
        **ORDERS,
        "startingOffsets": each("orders", 90, 7, 0),
        "endingOffsets": each("orders", 91, 8, 0),
    },
    "earliest and latest by number": {
        **ORDERS,
        "startingOffsets": each("orders", -2, 5, -2),
        "endingOffsets": each("orders", 17, -1, -1),
    },
    "nothing between": {**ORDERS, "startingOffsets": each("orders", 9, 9, 0), "endingOffsets": each("orders", 9, 9, 0)},
    "a start at the log's end": {**ROLLED, "startingOffsets": each("rolled", 360)},
    "a time for all": {**ORDERS, **LATEST, "startingTimestamp": MIDDLE},
    "a time that ends": {**ORDERS, "endingTimestamp": MIDDLE},
    "between two times": {"subscribe": "rolled", "startingTimestamp": MIDDLE, "endingTimestamp": str(BEGIN + 2965)},
    "a time before all": {"subscribe": "orders,rolled", **LATEST, "startingTimestamp": "0"},
    "a time of 1": {"subscribe": "rolled", "startingTimestamp": "1"},
    "a time after all, latest": {"subscribe": "paid", **LATEST, "startingTimestamp": str(BEGIN * 2)},
    "an end after all": {"subscribe": "orders", "endingTimestamp": str(BEGIN * 2)},
    "an end before all": {"subscribe": "orders", "endingTimestamp": str(1)},
    "a time of the broker's": {"subscribe": "stamped", "startingTimestamp": str(BEGIN)},
    "a time for each partition": {
        **ORDERS,
        **LATEST,
        "startingOffsetsByTimestamp": each("orders", BEGIN + 700, BEGIN + 5200, BEGIN),
        "endingOffsetsByTimestamp": each("orders", BEGIN + 900, BEGIN + 5300, BEGIN),
    },
    "times before offsets": {
        **ORDERS,
        **LATEST,
        "startingTimestamp": MIDDLE,
        "startingOffsetsByTimestamp": each("orders", 0, 0, 0),
        "startingOffsets": "earliest",
        "endingOffsetsByTimestamp": each("orders", BEGIN + 2000, BEGIN + 5300, BEGIN),
        "endingOffsets": each("orders", 1, 1, 0),
    },
    "a time in a log whose beginning was deleted": {**ROLLED, "startingTimestamp": str(BEGIN + 10)},
    "the deleted beginning": {**ROLLED, "startingOffsets": "earliest"},
    "offsets that were deleted, and it may be": {
        **ROLLED,
        "startingOffsets": each("rolled", 3),
        "failOnDataLoss": "false",
    },
    "only offsets that were deleted, and it may be": {
        **ROLLED,
        "startingOffsets": each("rolled", 3),
        "endingOffsets": each("rolled", 9),
        "failOnDataLoss": "false",
    },
    "offsets across the deletion, and it may be": {
        **ROLLED,
        "startingOffsets": each("rolled", 3),
        "endingOffsets": each("rolled", DELETED_BEFORE + 4),
        "failOnDataLoss": "false",
    },
    "many tasks": {"subscribe": "orders,rolled", "minPartitions": "6"},
    "tasks of few records": {"subscribe": "orders,rolled", "maxRecordsPerPartition": "60"},
    "both": {"subscribe": "orders,rolled", "minPartitions": "5", "maxRecordsPerPartition": "70"},
    "committed": {**PAID, **COMMITTED},
    "uncommitted": {**PAID, **UNCOMMITTED},
    "committed, between offsets": {
        **PAID,
        **COMMITTED,
        "startingOffsets": each("paid", 8, 12),
        "endingOffsets": each("paid", 60, 55),
    },
    "committed, from within an aborted transaction": {**PAID, **COMMITTED, "startingOffsets": each("paid", 14, 14)},
    "committed, in many tasks": {**PAID, **COMMITTED, "minPartitions": "4"},
    "uncommitted, in many tasks": {**PAID, **UNCOMMITTED, "minPartitions": "4"},
    "committed, from a time": {**PAID, **COMMITTED, **LATEST, "startingTimestamp": str(BEGIN + 900)},
    "committed, until a time": {**PAID, **COMMITTED, "endingTimestamp": str(BEGIN + 900)},
    "committed, until a time in an open transaction": {**PAID, **COMMITTED, "endingTimestamp": str(BEGIN + 3110)},
    "committed, an end by time after all": {**PAID, **COMMITTED, "endingTimestamp": str(BEGIN * 2)},
    "committed, tasks of few records": {**PAID, **COMMITTED, "maxRecordsPerPartition": "30"},
    "an option of streams in a batch": {**ORDERS, "maxOffsetsPerTrigger": "5"},
    "the strategy in capitals": {**ORDERS, "startingOffsetsByTimestampStrategy": "LATEST", "startingTimestamp": MIDDLE},
}

STREAMS: dict[str, dict[str, str]] = {
    "a stream": {"subscribe": ALL, "startingOffsets": "earliest", "includeHeaders": "true"},
    "a stream in micro-batches": {"subscribe": ALL, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"},
    "a stream of the committed": {**PAID, **COMMITTED, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"},
    "a stream from offsets": {**ORDERS, "startingOffsets": each("orders", 100, -1, -2)},
    "a stream from latest": ORDERS,
    "a stream from a time": {**ORDERS, **LATEST, "startingTimestamp": MIDDLE},
    "a stream from times": {
        **ORDERS,
        **LATEST,
        "startingOffsetsByTimestamp": each("orders", BEGIN + 700, BEGIN, BEGIN),
    },
    "a stream of a pattern": {"subscribePattern": "[op].*", "startingOffsets": "earliest", "minPartitions": "7"},
    "a stream of partitions": {"assign": '{"orders":[0],"paid":[1]}', "startingOffsets": "earliest"},
    "a stream over a deletion": {
        **ROLLED,
        "startingOffsets": each("rolled", 3),
        "failOnDataLoss": "false",
    },
}

# What both refuse, and the word that kafkalog's error has for it.
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "two ways to choose": ({**ORDERS, "assign": '{"orders":[0]}'}, "assign"),
    "a pattern and names": ({**ORDERS, "subscribePattern": "o.*"}, "subscribePattern"),
    "no names": ({"subscribe": ""}, "subscribe"),
    "names of nothing": ({"subscribe": ","}, "subscribe"),
    "an empty pattern": ({"subscribePattern": ""}, "subscribePattern"),
    "a pattern that is none": ({"subscribePattern": "(orders"}, "subscribePattern"),
    "an assignment that is no JSON": ({"assign": "orders"}, "assign"),
    "an assignment of words": ({"assign": '{"orders":["x"]}'}, "assign"),
    "latest to begin with": ({**ORDERS, "startingOffsets": "latest"}, "startingOffsets"),
    "earliest to end with": ({**ORDERS, "endingOffsets": "earliest"}, "endingOffsets"),
    "latest of one to begin with": ({**ORDERS, "startingOffsets": each("orders", 0, -1, 0)}, "startingOffsets"),
    "earliest of one to end with": ({**ORDERS, "endingOffsets": each("orders", -2, 1, 0)}, "endingOffsets"),
    "a partition less": ({**ORDERS, "startingOffsets": each("orders", 0, 0)}, "startingOffsets"),
    "a partition more": ({**ORDERS, "startingOffsets": each("orders", 0, 0, 0, 0)}, "startingOffsets"),
    "an end of a partition less": ({**ORDERS, "endingOffsets": each("orders", 1, 1)}, "endingOffsets"),
    "times of a partition less": ({**ORDERS, "startingOffsetsByTimestamp": each("orders", 1)}, "startingOffsetsBy"),
    "ends by time of a partition less": ({**ORDERS, "endingOffsetsByTimestamp": each("orders", 1)}, "endingOffsetsBy"),
    "offsets that are no JSON": ({**ORDERS, "startingOffsets": "first"}, "startingOffsets"),
    "offsets as text": ({**ORDERS, "startingOffsets": '{"orders":{"0":"x","1":0,"2":0}}'}, "startingOffsets"),
    "offsets of another shape": ({**ORDERS, "startingOffsets": '{"orders":[0]}'}, "startingOffsets"),
    "times that are no JSON": ({**ORDERS, "startingOffsetsByTimestamp": "now"}, "startingOffsetsByTimestamp"),
    "a time that is no number": ({**ORDERS, "startingTimestamp": "yesterday"}, "startingTimestamp"),
    "a time before 1970": ({**ORDERS, "startingTimestamp": "-5"}, "startingTimestamp"),
    "a time after all": ({**ROLLED, "startingTimestamp": str(BEGIN * 2)}, "startingTimestamp"),
    "a time of an empty partition": ({**ORDERS, "startingTimestamp": MIDDLE}, "startingTimestamp"),
    "a strategy that is none": (
        {**ORDERS, "startingOffsetsByTimestampStrategy": "guess", "startingTimestamp": MIDDLE},
        "startingOffsetsByTimestampStrategy",
    ),
    "no tasks": ({**ORDERS, "minPartitions": "0"}, "minPartitions"),
    "fewer tasks than none": ({**ORDERS, "minPartitions": "-3"}, "minPartitions"),
    "a number of tasks that is none": ({**ORDERS, "minPartitions": "many"}, "minPartitions"),
    "tasks of no records": ({**ORDERS, "maxRecordsPerPartition": "0"}, "maxRecordsPerPartition"),
    "headers perhaps": ({**ORDERS, "includeHeaders": "perhaps"}, "includeHeaders"),
    "loss perhaps": ({**ORDERS, "failOnDataLoss": "perhaps"}, "failOnDataLoss"),
    "an isolation that is none": ({**ORDERS, "kafka.isolation.level": "read_all"}, "kafka.isolation.level"),
    "a topic that is not there": ({"subscribe": "nothing"}, "subscribe"),
    "offsets that were deleted": ({**ROLLED, "startingOffsets": each("rolled", 3)}, "rolled-0"),
    "offsets that are not there yet": ({**ROLLED, "endingOffsets": each("rolled", 100_000)}, "rolled-0"),
    "an end before the start": (
        {**ROLLED, "startingOffsets": each("rolled", 200), "endingOffsets": each("rolled", 180)},
        "startingOffsets",
    ),
    "a start beyond the log's end": ({**ROLLED, "startingOffsets": each("rolled", 100_000)}, "startingOffsets"),
    "a start beyond the log's end, and it may be": (
        {**ROLLED, "startingOffsets": each("rolled", 100_000), "failOnDataLoss": "false"},
        "startingOffsets",
    ),
    "times the wrong way": (
        {**ROLLED, "startingTimestamp": str(BEGIN + 2500), "endingTimestamp": MIDDLE},
        "startingTimestamp",
    ),
    "a start behind what is committed": (
        {**PAID, **COMMITTED, "startingOffsets": each("paid", 105, 0)},
        "startingOffsets",
    ),
    "an offset before the first": ({**ROLLED, "startingOffsets": each("rolled", -3)}, "startingOffsets"),
}
REFUSED_STREAMS: dict[str, tuple[dict[str, str], str]] = {
    "a stream from beyond the log's end": ({**ROLLED, "startingOffsets": each("rolled", 100_000)}, "rolled-0"),
    "a stream with an end": ({**ORDERS, "endingOffsets": "latest"}, "endingOffsets"),
    "a stream over a deletion that may not be": ({**ROLLED, "startingOffsets": each("rolled", 3)}, "rolled-0"),
}

# What Spark's source takes without a word and kafkalog does not: docs/spark.md says so.
STRICTER: dict[str, tuple[str, dict[str, str], str]] = {
    "an end before 1970": ("batch", {**ORDERS, "endingTimestamp": "-1"}, "endingTimestamp"),
    "a partition that is not there": ("batch", {"assign": '{"orders":[7]}'}, "assign"),
    "an option that does not exist": ("batch", {**ORDERS, "startingOffset": "earliest"}, "startingOffset"),
    "an option of Kafka's clients": ("batch", {**ORDERS, "kafka.max.poll.records": "10"}, "kafka.max.poll.records"),
    "a stream with an end by time": ("stream", {**ORDERS, "endingTimestamp": MIDDLE}, "endingTimestamp"),
    "a stream of no offsets": ("stream", {**ORDERS, "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
}


def questions() -> list[tuple[str, str, Mapping[str, str]]]:
    found: list[tuple[str, str, Mapping[str, str]]] = [(name, "batch", SAME[name]) for name in SAME]
    found += [(name, "batch", options) for name, (options, _) in REFUSED.items()]
    found += [(name, "stream", STREAMS[name]) for name in STREAMS]
    found += [(name, "stream", options) for name, (options, _) in REFUSED_STREAMS.items()]
    found += [(name, kind, options) for name, (kind, options, _) in STRICTER.items()]
    # With nothing chosen, kafkalog reads what is there.
    return [*found, (NOTHING, "batch", {})]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Answer]:
    try:
        return _asked(tmp_path_factory.mktemp("spark-source"), spark_environment.source_jars())
    except java.JavaUnavailable as error:
        pytest.skip(f"Spark's own source cannot be asked: {error}")


def _asked(scratch: Path, jars: str) -> dict[tuple[str, str], Answer]:
    with Broker(scratch) as broker:
        run = broker.start()
        spark_topics.write(broker.client, broker.data)
        asked: dict[str, Any] = {
            "broker": broker.address,
            "directory": str(broker.data),
            "scratch": str(scratch),
            "jars": jars,
            "questions": questions(),
        }
        files = scratch / "questions", scratch / "answers"
        files[0].write_bytes(pickle.dumps(asked))
        # -P: the program's directory is none of modules.
        command = [sys.executable, "-P", str(ANSWERS), *map(str, files)]
        log = scratch / "answers.log"
        with log.open("wb") as said:
            done = subprocess.run(
                command,
                env=spark_environment.variables(),
                cwd=scratch,
                stdout=said,
                stderr=said,
                check=False,
                timeout=SECONDS,
            )
        run.stop()
    assert done.returncode == 0, log.read_text("utf-8", "replace")[-4000:]
    return {key: Answer(*found) for key, found in pickle.loads(files[1].read_bytes()).items()}


def both(answers: dict[tuple[str, str], Answer], name: str) -> tuple[Answer, Answer]:
    return answers[name, "kafkalog"], answers[name, "kafka"]


@pytest.mark.parametrize("name", [*SAME, *STREAMS])
def test_both_sources_give_the_same_rows_of_the_same_schema(answers: dict[tuple[str, str], Answer], name: str) -> None:
    ours, theirs = both(answers, name)
    assert (ours.error, theirs.error) == ("", ""), ours.text + theirs.text
    assert json.loads(ours.schema) == json.loads(theirs.schema)
    assert ours.rows == theirs.rows


@pytest.mark.parametrize("name", [*REFUSED, *REFUSED_STREAMS])
def test_both_sources_refuse_the_same_options_and_kafkalog_names_them(
    answers: dict[tuple[str, str], Answer], name: str
) -> None:
    ours, theirs = both(answers, name)
    assert theirs.error
    assert ours.error
    assert (REFUSED | REFUSED_STREAMS)[name][1] in ours.text


@pytest.mark.parametrize("name", STRICTER)
def test_kafkalog_refuses_and_names_some_options_that_spark_passes_over(
    answers: dict[tuple[str, str], Answer], name: str
) -> None:
    ours, theirs = both(answers, name)
    assert not theirs.error
    assert STRICTER[name][2] in ours.text


def test_without_a_choice_of_topics_spark_refuses_and_kafkalog_reads_all(
    answers: dict[tuple[str, str], Answer],
) -> None:
    ours, theirs = both(answers, NOTHING)
    assert theirs.error
    assert {row[2] for row in ours.rows or []} > set(spark_topics.PARTITIONS)


def test_the_topics_hold_what_they_are_to_show(answers: dict[tuple[str, str], Answer]) -> None:
    rows = {name: answers[name, "kafka"].rows or [] for name in SAME}
    everything = rows["every topic, with headers"]
    assert {row[2] for row in everything} == set(spark_topics.PARTITIONS)
    assert {row[6] for row in everything} == {0, 1}
    assert {None, b""} < {row[0] for row in everything}
    assert min(row[4] for row in everything if row[2] == "rolled") == DELETED_BEFORE
    assert 0 < len(rows["committed"]) < len(rows["uncommitted"]) - 10
