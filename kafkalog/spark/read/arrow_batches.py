"""Columns to Arrow batches for Spark: values are copied into Arrow's buffers, constant columns are created once.

A batch has at most 8,192 rows and about 4 MiB. With fewer than some hundred rows, the cost of a batch dominates; with
more than some MiB, the cost of memory.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.arrow import binary_array, headers_array
from kafkalog.attributes import CONTROL_BIT
from kafkalog.errors import InvalidRecordError
from kafkalog.record.record_columns import RecordColumns
from kafkalog.spark.schema import CORRUPT, HEADERS, Column, arrow_schema

if TYPE_CHECKING:
    from kafkalog.scan.records import Damage
    from kafkalog.spark.read.split import Split

MOST_ROWS = 8192
MOST_BYTES = 4 << 20
# The approximate bytes of a row besides key, value and headers.
_ROW_BYTES = 64
_MICROSECONDS = 1000
_LARGEST_MS = (2**63 - 1) // _MICROSECONDS
# What varies in size from row to row; headers are about twice as large in Arrow.
_LENGTHS: dict[str, Callable[[RecordColumns], NDArray[np.integer]]] = {
    "key": attrgetter("key_length"),
    "value": attrgetter("value_length"),
    HEADERS: lambda columns: 2 * columns.headers_length,
}
_HEADER_FIELDS = [pa.field("key", pa.string()), pa.field("value", pa.binary())]


class BatchMaker:
    """Creates the Arrow batches of one split with the requested columns."""

    def __init__(self, columns: Sequence[Column], split: "Split") -> None:
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._split = split
        self._constants: dict[str, pa.Array] = {}
        self._lengths = [_LENGTHS[each.source] for each in columns if each.source in _LENGTHS]

    def batches(self, columns: RecordColumns) -> Iterator[pa.RecordBatch]:
        """Yield the records in batches of limited size.

        Raises:
            ValueError: A column that is not nullable has a null.
            InvalidRecordError: A timestamp does not fit into microseconds.
        """
        for start, end in self._cuts(columns):
            yield self._batch(columns if end - start == len(columns) else columns[start:end])

    def _cuts(self, columns: RecordColumns) -> Iterator[tuple[int, int]]:
        """Yield the first row, and the row after the last, of each batch."""
        lengths = [length(columns) for length in self._lengths]
        total = len(columns) * _ROW_BYTES + sum(int(each.sum()) for each in lengths)
        if 0 < len(columns) <= MOST_ROWS and total <= MOST_BYTES:  # the usual case: no row has to be weighed
            yield 0, len(columns)
            return
        weights = np.full(len(columns), _ROW_BYTES, np.int64)
        for each in lengths:
            weights += each
        ends = weights.cumsum()
        start = 0
        # Batches of equal size: a last batch of a few rows would cost as much as thousands.
        most = -(-len(columns) // max(1, -(-len(columns) // MOST_ROWS)))
        while start < len(columns):
            room = MOST_BYTES + (int(ends[start - 1]) if start else 0)
            end = min(start + most, max(start + 1, int(np.searchsorted(ends, room, "right"))))
            yield start, end
            start = end

    def _batch(self, columns: RecordColumns) -> pa.RecordBatch:
        """Return one Arrow batch. Raise errors as `batches`."""
        try:
            arrays = [self._array(each.source, columns) for each in self._columns]
        except InvalidRecordError as error:
            raise error.at(self._split.path) from None
        for column, array in zip(self._columns, arrays, strict=True):
            if array.null_count and not column.nullable:
                first = int(columns.offset[array.is_null().index(pa.scalar(value=True)).as_py()])
                raise ValueError(
                    f"schema: column {column.name} is not nullable, and the record at offset {first} of "
                    f"{self._split.topic}-{self._split.partition} has null there"
                )
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, source: str, columns: RecordColumns) -> pa.Array:
        make = _MAKERS.get(source)
        return self._constant(source, len(columns)) if make is None else make(columns)

    def _constant(self, source: str, count: int) -> pa.Array:
        """Return a slice of a column whose value is the same in all rows."""
        if source not in self._constants:
            if source == CORRUPT:
                self._constants[source] = pa.nulls(MOST_ROWS, pa.string())
            elif source == "partition":
                self._constants[source] = pa.array(np.full(MOST_ROWS, self._split.partition, np.int32))
            else:
                text = self._split.topic if source == "topic" else self._split.path
                self._constants[source] = pa.repeat(pa.scalar(text, pa.string()), MOST_ROWS)
        return self._constants[source].slice(0, count)

    def damaged(self, damage: "Damage") -> Iterator[pa.RecordBatch]:
        """Yield one row that describes damage; unknown values are null.

        Raises:
            ValueError: A column that is not nullable would have a null.
        """
        known = {
            "topic": self._split.topic,
            "partition": self._split.partition,
            "offset": damage.offset,
            "file": damage.path,
            "position": damage.position,
            CORRUPT: damage.message,
        }
        for column in self._columns:
            if not column.nullable and known.get(column.source) is None:
                raise ValueError(f"schema: column {column.name} is not nullable, and a damaged batch has null there")
        arrays = [
            pa.array([known.get(column.source)], field.type)
            for column, field in zip(self._columns, self._schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _timestamp(columns: RecordColumns) -> pa.Array:
    """Return the timestamps in microseconds.

    Raises:
        InvalidRecordError: A timestamp does not fit into an int64 of microseconds.
    """
    ms = columns.timestamp
    if int(ms.max()) > _LARGEST_MS or int(ms.min()) < -_LARGEST_MS:
        wrong = int((np.abs(ms) > _LARGEST_MS).argmax())
        raise InvalidRecordError(
            f"the timestamp of the record at offset {int(columns.offset[wrong])} does not fit into microseconds",
            None,
            int(columns.batches["position"][columns.batch[wrong]]),
            f"at most {_LARGEST_MS} ms",
            int(ms[wrong]),
        )
    return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), len(ms), [None, pa.py_buffer(ms * _MICROSECONDS)])


def _of_batch(field: str, dtype: type[np.generic]) -> Callable[[RecordColumns], pa.Array]:
    """Return a function that makes a column from a field of the batch header."""

    def make(columns: RecordColumns) -> pa.Array:
        values = columns.batches[field].astype(dtype)
        is_one = len(columns) and (values == values[0]).all()  # the usual case
        return pa.array(np.full(len(columns), values[0]) if is_one else values[columns.batch])

    return make


def _is_control(columns: RecordColumns) -> pa.Array:
    control = (columns.batches["attributes"] & CONTROL_BIT != 0) & (columns.batches["magic"] >= 2)
    return pa.array(control[columns.batch])


_MAKERS: dict[str, Callable[[RecordColumns], pa.Array]] = {
    "key": lambda columns: binary_array(columns.buffer, columns.key_start, columns.key_length),
    "value": lambda columns: binary_array(columns.buffer, columns.value_start, columns.value_length),
    "offset": lambda columns: pa.array(columns.offset),
    "timestamp": _timestamp,
    "timestampType": _of_batch("timestamp_type", np.int32),
    # Null if a record has none, as in Spark's source.
    HEADERS: lambda columns: headers_array(columns, _HEADER_FIELDS, none_is_null=True),
    "producerId": _of_batch("producer_id", np.int64),
    "producerEpoch": _of_batch("producer_epoch", np.int32),
    "sequence": lambda columns: pa.array(columns.sequence.astype(np.int32)),
    "leaderEpoch": _of_batch("partition_leader_epoch", np.int32),
    "isControl": _is_control,
    "position": _of_batch("position", np.int64),
}
