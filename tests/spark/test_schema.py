"""Columns by name, in any order, with Spark's types; what is not there is refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.schema import Column, arrow_schema, chosen_columns, column_names, columns_of, ddl

KAFKA = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def options(**given: object) -> ReadOptions:
    return ReadOptions.parse({"path": "/", **given})


def test_the_columns_are_those_of_sparks_kafka_source() -> None:
    assert ddl(options(includeHeaders=True)) == (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
        "headers array<struct<key:string,value:binary>>"
    )


def test_optional_columns_come_after_them() -> None:
    metadata = ["producerId", "producerEpoch", "sequence", "leaderEpoch", "isControl", "file", "position"]
    assert column_names(options()) == KAFKA
    assert column_names(options(includeMetadata=True)) == KAFKA + metadata
    assert column_names(options(onCorrupt="permissive")) == [*KAFKA, "_corrupt"]


def test_the_arrow_schema_is_what_spark_accepts() -> None:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    assert arrow_schema(columns_of(None, options(includeHeaders=True))) == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(pa.field("element", header))),
        ]
    )


def test_a_schema_of_the_user_may_choose_order_case_and_nullability() -> None:
    found = chosen_columns([("OFFSET", "bigint", False), ("value", "binary", True)])
    assert found == (Column("offset", "OFFSET", False), Column("value", "value", True))
    assert arrow_schema(found).field(0) == pa.field("OFFSET", pa.int64(), nullable=False)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (("offsets", "bigint", True), r"schema: there is no column 'offsets'; there are key, value"),
        (("value", "string", True), r"schema: column value is binary, not string"),
        (("headers", "map<string,binary>", True), r"schema: column headers is array<struct<.*>>, not map"),
    ],
)
def test_another_column_or_type_is_refused_by_name(field: tuple[str, str, bool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chosen_columns([field])


def test_a_schema_without_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="no columns"):
        chosen_columns([])


def test_columns_are_chosen_by_name_or_with_nullability() -> None:
    assert columns_of(["timestamptype", ("key", False)], options()) == (
        Column("timestampType", "timestamptype"),
        Column("key", "key", False),
    )
    with pytest.raises(ValueError, match="no column 'nothing'"):
        columns_of(["nothing"], options())


def test_a_column_that_is_chosen_twice_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="schema: column 'offset' occurs more than once"):
        chosen_columns([("offset", "bigint", True), ("topic", "string", True), ("offset", "bigint", True)])
    twice = chosen_columns([("offset", "bigint", True), ("OFFSET", "bigint", True)])
    assert [column.source for column in twice] == ["offset", "offset"]
