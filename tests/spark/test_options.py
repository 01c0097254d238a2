"""Options mean what they mean to Spark's own Kafka source; what cannot be is refused by name and value."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest

from kafkalog.spark.read.options import OnCorrupt, ReadOptions
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.read.list_offsets import EARLIEST, LATEST

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def parsed(streaming: Any = False, **options: Any) -> ReadOptions:
    return ReadOptions.parse({"path": "/logs", **options}, streaming=streaming)


def refusal(streaming: Any = False, **options: Any) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        parsed(streaming, **options)
    return str(caught.value)


def test_a_batch_reads_from_the_earliest_to_the_latest_offset() -> None:
    options = parsed()
    assert (options.starting.figure, options.ending.figure) == (EARLIEST, LATEST)
    assert (options.fail_on_data_loss, options.include_headers, options.committed) == (True, False, False)
    assert options.on_corrupt is OnCorrupt.FAIL


def test_a_stream_begins_at_the_latest_offset() -> None:
    assert parsed(streaming=True).starting.figure == LATEST


@pytest.mark.parametrize("name", ["startingoffsets", "STARTINGOFFSETS", "startingOffsets"])
@pytest.mark.parametrize("value", ["earliest", "EARLIEST", " earliest "])
def test_names_and_words_are_taken_in_any_case(name: str, value: str) -> None:
    assert parsed(**{name: value}).starting.figure == EARLIEST


def test_options_travel_to_the_workers() -> None:
    options = parsed(startingOffsets='{"orders": {"0": 5}}', subscribePattern="or.*", onCorrupt="skip")
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"path": "/a b"}, ("/a b",)),
        ({"paths": '["/a", "/b"]'}, ("/a", "/b")),
        ({"paths": ["/a"], "path": "/c"}, ("/a", "/c")),
    ],
)
def test_paths_come_as_spark_gives_them(given: dict[str, Any], paths: tuple[str, ...]) -> None:
    assert ReadOptions.parse(given).paths == paths


@pytest.mark.parametrize("given", [{}, {"path": ""}, {"paths": "[]"}])
def test_a_path_is_required(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="option path is required"):
        ReadOptions.parse(given)


def test_an_unknown_option_is_refused_by_name_with_the_nearest_one() -> None:
    assert refusal(startingOffset="1") == ("unknown option 'startingOffset' (value '1'); did you mean startingOffsets?")
    assert "no broker is used" in refusal(**{"kafka.bootstrap.servers": "localhost:9092"})


BAD = [
    ("startingOffsets", "first"),
    ("startingOffsets", '{"orders": {"0": "5"}}'),
    ("startingOffsets", '{"orders": {"zero": 5}}'),
    ("startingOffsets", '{"orders": {"0": -3}}'),
    ("startingOffsets", '{"orders": {"0": true}}'),
    ("startingOffsets", '{"orders": [5]}'),
    ("startingOffsets", "{"),
    ("startingOffsets", '{"orders": {"0": 5}, "orders": {"0": 7}}'),
    ("startingOffsets", '{"orders": {"0": 5, "0": 7}}'),
    ("startingOffsets", '{"orders": {"0": 5, "00": 7}}'),
    ("assign", '{"orders": [0], "orders": [1]}'),
    ("endingOffsets", "5"),
    ("startingTimestamp", "today"),
    ("startingTimestamp", "-1"),
    ("endingTimestamp", "1.5"),
    ("startingOffsetsByTimestamp", '{"orders": {"0": -2}}'),
    ("endingOffsetsByTimestamp", "[]"),
    ("startingOffsetsByTimestampStrategy", "newest"),
    ("minPartitions", "0"),
    ("minPartitions", "two"),
    ("maxRecordsPerPartition", "-5"),
    ("splitBytes", "0"),
    ("splitBytes", "12x"),
    ("failOnDataLoss", "yes"),
    ("includeHeaders", "1"),
    ("includeMetadata", "on"),
    ("kafka.isolation.level", "read_all"),
    ("onCorrupt", "ignore"),
    ("subscribe", " , "),
    ("subscribePattern", "(["),
    ("assign", '{"orders": [-1]}'),
    ("assign", '{"orders": 0}'),
    ("assign", "orders"),
    ("maxOffsetsPerTrigger", "many"),
    ("paths", '"/a"'),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_value_that_cannot_be_is_refused_with_the_options_name(name: str, value: str) -> None:
    message = refusal(**{name: value})
    assert message.startswith(f"option {name}: {value!r} is not ")


def test_a_partition_or_topic_given_twice_is_named() -> None:
    assert refusal(startingOffsets='{"orders": {"0": 5, "00": 7}}').endswith(": orders-0 occurs twice")
    assert refusal(startingOffsets='{"orders": {"0": 5}, "orders": {}}').endswith(": 'orders' occurs twice")


def test_json_that_is_too_deep_is_refused_by_name_and_not_shown_whole() -> None:
    message = refusal(startingOffsets="[" * 100_000)
    assert message.startswith("option startingOffsets: '[[[[")
    assert len(message) < 2000


def test_offsets_that_are_none_are_refused_with_the_figures_that_stand_for_words() -> None:
    for name, figure, word in (("startingOffsets", -2, "earliest"), ("endingOffsets", -1, "latest")):
        message = refusal(**{name: f'{{"orders": {{"0": "{word}"}}}}'})
        assert message.endswith(f'as {{"orders": {{"0": 23}}}} ({figure}: {word}), or the word {word}')
    both = refusal(streaming=True, startingOffsets='{"orders": {"0": "latest"}}')
    assert both.endswith("(-2: earliest) (-1: latest), or the word earliest or latest")


def test_a_time_as_text_is_refused_with_the_way_to_milliseconds() -> None:
    assert "datetime.fromisoformat(text).timestamp() * 1000" in refusal(startingTimestamp="2023-11-15T22:16:40")
    assert "fromisoformat" not in refusal(startingTimestamp="yesterday")


@pytest.mark.parametrize("name", ["owner", "provider", "OWNER"])
def test_properties_of_a_table_are_refused_with_the_way_that_works(name: str) -> None:
    assert "CREATE TEMPORARY VIEW" in refusal(**{name: "root"})
    with pytest.raises(ValueError, match=r"option path is required.*CREATE TEMPORARY VIEW"):
        ReadOptions.parse({})


def test_options_of_kafkas_clients_are_to_be_removed() -> None:
    assert refusal(**{"kafka.bootstrap.servers": "b:9092"}).endswith("; no broker is used: remove it")
    assert refusal(**{"kafka.isolationlevel": "x"}).endswith("did you mean kafka.isolation.level?")


@pytest.mark.parametrize(
    ("name", "word", "other", "figure"),
    [("startingOffsets", "latest", "earliest", -1), ("endingOffsets", "earliest", "latest", -2)],
)
def test_a_batch_neither_begins_at_the_end_nor_ends_at_the_beginning(
    name: str, word: str, other: str, figure: int
) -> None:
    assert re.match(rf"option {name}: '{word}' is not {other}, or offsets", refusal(**{name: word}))
    assert f"{figure} of orders-0 stands for {word}" in refusal(**{name: f'{{"orders": {{"0": {figure}}}}}'})


def test_a_stream_may_begin_at_the_end_of_a_partition() -> None:
    bound = parsed(streaming=True, startingOffsets='{"orders": {"0": -1, "1": -2}}').starting
    assert bound.figure == {ORDERS_0: LATEST, ORDERS_1: EARLIEST}


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    assert refusal(streaming=True, **{name: "7"}) == f"option {name}: '7' is for batch reads; a stream has no end"


def test_one_timestamp_comes_before_timestamps_and_these_before_offsets() -> None:
    offsets, times = '{"orders": {"0": 5}}', '{"orders": {"0": 1700}}'
    only = parsed(startingOffsets=offsets).starting
    both = parsed(startingOffsets=offsets, startingOffsetsByTimestamp=times).starting
    all_three = parsed(startingOffsets=offsets, startingOffsetsByTimestamp=times, startingTimestamp="9").starting
    assert (only.option, only.figure, only.is_time) == ("startingOffsets", {ORDERS_0: 5}, False)
    assert (both.option, both.figure, both.is_time) == ("startingOffsetsByTimestamp", {ORDERS_0: 1700}, True)
    assert (all_three.option, all_three.figure, all_three.is_time) == ("startingTimestamp", 9, True)


def test_only_one_option_says_which_topics() -> None:
    message = refusal(subscribe="orders", assign='{"orders": [0]}')
    assert message.startswith("only one of the options assign, subscribe, subscribePattern may be given: ")
    assert "subscribe='orders'" in message


@pytest.mark.parametrize(
    ("given", "wanted", "unwanted"),
    [
        ({"subscribe": "orders, payments"}, ORDERS_1, TopicPartition("order", 0)),
        ({"subscribePattern": "^ord.*"}, ORDERS_1, TopicPartition("reorders", 0)),
        ({"subscribePattern": "rder"}, ORDERS_1, TopicPartition("payments", 0)),
        ({"subscribePattern": ".*"}, ORDERS_1, TopicPartition("__transaction_state", 0)),
        ({"subscribe": "__transaction_state"}, TopicPartition("__transaction_state", 0), ORDERS_1),
        ({"assign": {"orders": [1]}}, ORDERS_1, ORDERS_0),
    ],
)
def test_topics_are_chosen_by_name_pattern_or_partition(
    given: dict[str, Any], wanted: TopicPartition, unwanted: TopicPartition
) -> None:
    topics = parsed(**given).topics
    assert topics.wanted(wanted)
    assert not topics.wanted(unwanted)


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64k", 64 << 10), ("128m", 128 << 20), ("1g", 1 << 30), ("2MiB", 2 << 20), (77, 77)]
)
def test_sizes_are_bytes_or_have_a_unit(text: Any, size: int) -> None:
    assert parsed(splitBytes=text).split_bytes == size


def test_pythons_own_values_are_taken_too() -> None:
    options = parsed(includeHeaders=True, minPartitions=3, startingOffsets={"orders": {"0": 4}}, failOnDataLoss=False)
    assert (options.include_headers, options.min_partitions, options.fail_on_data_loss) == (True, 3, False)
    assert options.starting.figure == {ORDERS_0: 4}


def test_an_option_of_streams_is_ignored_in_a_batch_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    parsed(maxOffsetsPerTrigger="5")
    assert "maxOffsetsPerTrigger is for streams" in caplog.text
    assert parsed(streaming=True, maxOffsetsPerTrigger="5").max_offsets_per_trigger == 5
