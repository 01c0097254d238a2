"""Rows of a DataFrame to records, sorted by the partitions they go to.

    key       value      topic   partition          (orders, 0)  records, in the order of the rows
    --------------------------------------    ->    (orders, 2)  records, ...
    binary    binary     string  int or null        (users, 0)   ...

Keys and values are taken where they lie in Arrow's buffers; headers, which few rows have, one by one. A row's own
partition comes before the partitioner's. A timestamp that is null becomes the time of now; -1 ms is none, and stays so.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

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

# So many rows are looked at together: what is copied of them stays small.
ROWS_AT_ONCE = 8192
# Bytes of a record besides its key and value, roughly.
_RECORD_OVERHEAD = 8
_NS_IN_MS = 1_000_000
_NS = {"s": 1_000_000_000, "ms": _NS_IN_MS, "us": 1000, "ns": 1}


class Portion(NamedTuple):
    """Records of one partition, in order."""

    partition: TopicPartition
    records: list[Record]


class _Chosen(NamedTuple):
    """Where each row goes: the topics, and for each row which of them, and which partition of it."""

    topics: list[str]
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]


class RowSorter:
    """Makes records of a task's rows. task: its number; counts: how many partitions topics have that are there."""

    def __init__(self, options: WriteOptions, counts: Mapping[str, int], task: int = 0) -> None:
        self._options = options
        self._counts = counts
        self._partitioner = Partitioner(options.batch_bytes, first=task)

    def portions(self, batch: "pa.RecordBatch") -> Iterator[Portion]:
        """The records of the rows, by partition.

        ValueError: a row without a topic, or that no partition or record can be; it says which; a column twice.
        TypeError: a column of another type.
        """
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield from self._portions(batch.slice(start, ROWS_AT_ONCE))

    def _portions(self, batch: "pa.RecordBatch") -> Iterator[Portion]:
        columns = {name: batch.column(place) for name, place in sink_columns(batch.schema.names).items()}
        count = batch.num_rows
        key, value = (_binary(columns.get(name), name, count) for name in ("key", "value"))
        chosen = self._choose(columns, key, value)
        order = np.lexsort((chosen.partition, chosen.topic))
        records = _records(key, value, _timestamps(columns.get("timestamp"), count), order)
        _put_headers(records, columns.get("headers"), order)
        topics, partitions = chosen.topic[order], chosen.partition[order]
        borders = np.flatnonzero((np.diff(topics) != 0) | (np.diff(partitions) != 0)) + 1
        bounds = [0, *borders.tolist(), count]
        for first, end in pairwise(bounds):
            partition = TopicPartition(chosen.topics[int(topics[first])], int(partitions[first]))
            yield Portion(partition, records[first:end])

    def _choose(self, columns: dict[str, "pa.Array"], key: BinaryColumn, value: BinaryColumn) -> _Chosen:
        topics, topic = self._topics(columns.get("topic"), len(key.lengths))
        counts = np.array([self._count_of(each) for each in topics], np.int32)
        sizes = np.maximum(key.lengths, 0) + np.maximum(value.lengths, 0) + _RECORD_OVERHEAD
        partition = self._given(columns.get("partition"), len(key.lengths))
        left = partition < 0
        if left.any():
            partition[left] = self._partitioner.assign(key.where(left), sizes[left], counts[topic[left]])
        return _Chosen(topics, topic, partition)

    def _count_of(self, topic: str) -> int:
        return self._options.partitions or self._counts.get(topic, 1)

    def _topics(self, column: "pa.Array | None", count: int) -> tuple[list[str], NDArray[np.int64]]:
        if self._options.topic is not None:
            return [self._options.topic], np.zeros(count, np.int64)
        if column is None:
            raise ValueError("neither option topic nor a column topic says where the rows go")
        if column.null_count:
            raise ValueError(f"{column.null_count} rows have no topic, and there is no option topic")
        coded = column.dictionary_encode()
        topics = [check_topic(each) for each in coded.dictionary.to_pylist()]
        return topics, coded.indices.to_numpy().astype(np.int64)

    def _given(self, column: "pa.Array | None", count: int) -> NDArray[np.int64]:
        """The partitions that the rows name; -1: none."""
        if column is None:
            return np.full(count, -1, np.int64)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        given: NDArray[np.int64] = column.fill_null(-1).to_numpy().astype(np.int64)
        most = (self._options.partitions or MOST_PARTITIONS) - 1
        wrong = given[valid & ((given < 0) | (given > most))]
        if len(wrong):
            raise ValueError(f"a row's partition is {wrong[0]}: 0 to {most} can be")
        return given


def _binary(column: "pa.Array | None", name: str, count: int) -> BinaryColumn:
    import pyarrow as pa

    if column is None:
        return BinaryColumn.of_nulls(count)
    kind, wide = column.type, pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    if not wide and not pa.types.is_string(kind) and not pa.types.is_binary(kind):
        raise TypeError(f"column {name} is of type {kind}: binary or string is wanted")
    return BinaryColumn.of(column.cast(pa.large_binary() if wide else pa.binary()))


def _records(
    key: BinaryColumn, value: BinaryColumn, times: NDArray[np.int64], order: NDArray[np.int64]
) -> list[Record]:
    """Records of all rows, in that order; without headers."""
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
    """Milliseconds; where there is none, the time of now. ValueError: before 1970."""
    import pyarrow as pa

    now = time.time_ns() // _NS_IN_MS
    if column is None:
        return np.full(count, now, np.int64)
    if not pa.types.is_timestamp(column.type):
        raise TypeError(f"column timestamp is of type {column.type}: a timestamp is wanted")
    unit = _NS[column.type.unit]
    numbers = column.cast(pa.int64())
    given = numbers.fill_null(0).to_numpy()
    times: NDArray[np.int64] = given * (unit // _NS_IN_MS) if unit > _NS_IN_MS else given // (_NS_IN_MS // unit)
    if (times < -1).any():
        raise ValueError(f"a row's timestamp is {times.min()} ms: Kafka knows none before 1970, but -1 for none at all")
    if column.null_count:
        times = np.where(column.is_null().to_numpy(zero_copy_only=False), now, times)
    return times


def _put_headers(records: list[Record], column: "pa.Array | None", order: NDArray[np.int64]) -> None:
    """Records that have headers are made anew, with them."""
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
