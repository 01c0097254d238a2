"""Rows of a DataFrame to records, sorted by partition.

    key       value      topic   partition          (orders, 0)  records, in the order of the rows
    --------------------------------------    ->    (orders, 2)  records, ...
    binary    binary     string  int or null        (users, 0)   ...

Keys and values are read from Arrow's buffers; headers, which are rare, one by one. A partition given in a row overrides
the partitioner's. A null timestamp becomes the current time; -1 ms means no timestamp and is kept.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.framing import HEADER_DTYPE
from kafkalog._speedups.record import Record, build_records
from kafkalog.attributes import TimestampType
from kafkalog.spark.write.options import MOST_PARTITIONS, WriteOptions, check_topic, sink_columns
from kafkalog.spark.write.partitioner import BinaryColumn, Partitioner
from kafkalog.storage.file_names import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

# The number of rows processed together, which limits the memory for copies.
ROWS_AT_ONCE = 8192
# The approximate bytes of a record besides key and value.
_RECORD_OVERHEAD = 8
_NS_IN_MS = 1_000_000
_NS = {"s": 1_000_000_000, "ms": _NS_IN_MS, "us": 1000, "ns": 1}


class RowSorter:
    """Converts the rows of a task to records.

    Args:
        options: The options.
        counts: The number of partitions of the existing topics.
        task: The number of the task.
    """

    def __init__(self, options: WriteOptions, counts: Mapping[str, int], task: int = 0) -> None:
        self._options = options
        self._counts = counts
        self._partitioner = Partitioner(options.batch_bytes, first=task)

    def portions(self, batch: "pa.RecordBatch") -> Iterator[tuple[TopicPartition, list[Record]]]:
        """Yield the records of the rows by partition.

        Raises:
            ValueError: A row has no topic, or its partition, timestamp or headers are invalid, or a column occurs
                twice.
            TypeError: A column has the wrong type.
        """
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield from self._portions(batch.slice(start, ROWS_AT_ONCE))

    def _portions(self, batch: "pa.RecordBatch") -> Iterator[tuple[TopicPartition, list[Record]]]:
        columns = {name: batch.column(place) for name, place in sink_columns(batch.schema.names).items()}
        count = batch.num_rows
        key, value = (_binary(columns.get(name), name, count) for name in ("key", "value"))
        names, topics, partitions = self._choose(columns, key, value)
        order = np.lexsort((partitions, topics))
        records = _records(key, value, _timestamps(columns.get("timestamp"), count), order)
        _put_headers(records, columns.get("headers"), order)
        topics, partitions = topics[order], partitions[order]
        borders = np.flatnonzero((np.diff(topics) != 0) | (np.diff(partitions) != 0)) + 1
        bounds = [0, *borders.tolist(), count]
        for first, end in pairwise(bounds):
            partition = TopicPartition(names[int(topics[first])], int(partitions[first]))
            yield partition, records[first:end]

    def _choose(
        self, columns: dict[str, "pa.Array"], key: BinaryColumn, value: BinaryColumn
    ) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """Return the topics, and for each row the index of its topic and its partition."""
        topics, topic = self._topics(columns.get("topic"), len(key.lengths))
        counts = np.array([self._options.count_of(each, self._counts) for each in topics], np.int32)
        sizes = np.maximum(key.lengths, 0) + np.maximum(value.lengths, 0) + _RECORD_OVERHEAD
        partition = self._given(columns.get("partition"), len(key.lengths))
        left = partition < 0
        if left.any():
            partition[left] = self._partitioner.assign(key.where(left), sizes[left], counts[topic[left]])
        return topics, topic, partition

    def _topics(self, column: "pa.Array | None", count: int) -> tuple[list[str], NDArray[np.int64]]:
        """Return the topics, and for each row the index of its topic.

        Raises:
            ValueError: A row has no topic or an invalid one.
        """
        if self._options.topic is not None:
            return [self._options.topic], np.zeros(count, np.int64)
        if column is None:
            raise ValueError("no topic: neither option topic nor a column topic is given")
        if column.null_count:
            raise ValueError(f"{column.null_count} rows have no topic, and option topic is not given")
        coded = column.dictionary_encode()
        topics = [check_topic(each) for each in coded.dictionary.to_pylist()]
        return topics, coded.indices.to_numpy().astype(np.int64)

    def _given(self, column: "pa.Array | None", count: int) -> NDArray[np.int64]:
        """Return the partitions in the rows; -1: not given."""
        if column is None:
            return np.full(count, -1, np.int64)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        given: NDArray[np.int64] = column.fill_null(-1).to_numpy().astype(np.int64)
        most = (self._options.partitions or MOST_PARTITIONS) - 1
        wrong = given[valid & ((given < 0) | (given > most))]
        if len(wrong):
            raise ValueError(f"a row's partition is {wrong[0]}: expected 0 to {most}")
        return given


def _binary(column: "pa.Array | None", name: str, count: int) -> BinaryColumn:
    """Return a column of keys or values; nulls if the column is missing.

    Raises:
        TypeError: The column is neither binary nor string.
    """
    import pyarrow as pa

    if column is None:
        return BinaryColumn.of_nulls(count)
    kind, wide = column.type, pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    if not wide and not pa.types.is_string(kind) and not pa.types.is_binary(kind):
        raise TypeError(f"column {name} is of type {kind}: expected binary or string")
    return BinaryColumn.of(column.cast(pa.large_binary() if wide else pa.binary()))


def _records(
    key: BinaryColumn, value: BinaryColumn, times: NDArray[np.int64], order: NDArray[np.int64]
) -> list[Record]:
    """Return records of all rows in the given order, without headers."""
    block = np.zeros((8, len(order)), np.int64)
    block[1] = times[order]
    block[2], block[3] = key.starts[order], key.lengths[order]
    block[4], block[5] = value.starts[order] + len(key.data), value.lengths[order]
    rows = np.zeros(1, HEADER_DTYPE)
    rows["base_sequence"] = -1
    rows["timestamp_type"] = TimestampType.CREATE_TIME
    data = np.concatenate([key.data, value.data]).data
    return build_records(data, block, np.zeros(len(order), np.int32), rows)


def _timestamps(column: "pa.Array | None", count: int) -> NDArray[np.int64]:
    """Return the timestamps in ms, with the current time for nulls.

    Raises:
        ValueError: A timestamp is before 1970.
        TypeError: The column is no timestamp.
    """
    import pyarrow as pa

    now = time.time_ns() // _NS_IN_MS
    if column is None:
        return np.full(count, now, np.int64)
    if not pa.types.is_timestamp(column.type):
        raise TypeError(f"column timestamp is of type {column.type}: expected a timestamp")
    unit = _NS[column.type.unit]
    numbers = column.cast(pa.int64())
    given = numbers.fill_null(0).to_numpy()
    times: NDArray[np.int64] = given * (unit // _NS_IN_MS) if unit > _NS_IN_MS else given // (_NS_IN_MS // unit)
    if (times < -1).any():
        raise ValueError(f"a row's timestamp is {times.min()} ms: expected 0 or more, or -1 for no timestamp")
    if column.null_count:
        times = np.where(column.is_null().to_numpy(zero_copy_only=False), now, times)
    return times


def _put_headers(records: list[Record], column: "pa.Array | None", order: NDArray[np.int64]) -> None:
    """Replace the records that have headers by new ones with headers."""
    if column is None or column.null_count == len(column):
        return
    counts = column.value_lengths().fill_null(0).to_numpy()
    ends = np.cumsum(counts)
    pairs = column.flatten()
    keys, values = (pairs.field(pairs.type.get_field_index(name)).to_pylist() for name in ("key", "value"))
    if None in keys:
        raise ValueError("a header's key is null")
    for i in np.flatnonzero(counts[order]).tolist():
        end = int(ends[order[i]])
        span = slice(end - int(counts[order[i]]), end)
        bare = records[i]
        headers = tuple(zip(keys[span], values[span], strict=True))
        records[i] = Record(bare.value, bare.key, headers, bare.timestamp)
