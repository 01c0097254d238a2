"""The message from Spark's driver to a task: a split, which the task reads with the columns of the query.

driver    SplitPartition(split), pickled        executor    read_partition -> Arrow batches of the split
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.read.split import AnySplit
from kafkalog.spark.read.split_reader import read_split
from kafkalog.spark.schema import Column, chosen_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType


class SplitPartition(InputPartition):
    """A split, as `value`, for one task."""

    value: AnySplit

    def __init__(self, split: AnySplit) -> None:
        super().__init__(split)


def read_partition(
    partition: InputPartition | None, columns: tuple[Column, ...], options: ReadOptions
) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of one task."""
    return read_split(getattr(partition, "value", None), columns, options)


def columns_of_struct(schema: "StructType") -> tuple[Column, ...]:
    """Return the columns of Spark's schema.

    Raises:
        ValueError: A column does not exist or has another type.
    """
    return chosen_columns((field.name, _type_name(field.dataType), field.nullable) for field in schema.fields)


def _type_name(data_type: "DataType") -> str:
    """Return Spark's name of a type, with a note if elements or fields may not be null.

    `simpleString` does not say whether they may.
    """
    name = data_type.simpleString()
    strict = any(f'"{word}":false' in data_type.json() for word in ("containsNull", "nullable"))
    return f"{name} whose elements or fields may not be null" if strict else name
