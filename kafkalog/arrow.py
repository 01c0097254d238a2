"""`RecordColumns` to Arrow: the pieces of keys and values gathered into Arrow's buffers, everything else lent as it is.

offset          int64
timestamp       timestamp[ms, UTC]; null = none
timestamp_type  int8; -1 none, 0 CreateTime, 1 LogAppendTime
key, value      binary
headers         list<struct<key: string, value: binary>>
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.columns import gather

if TYPE_CHECKING:
    from kafkalog.record.columns import RecordColumns

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("Arrow output needs pyarrow: pip install 'kafkalog[arrow]'") from error

HEADER_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER_TYPE), nullable=False),
    ]
)


def to_arrow(columns: "RecordColumns") -> pa.RecordBatch:
    """A `pyarrow.RecordBatch` of `SCHEMA`, a row a record. It shares no memory with the columns' buffer.

    OverflowError: keys or values of more than 2**31 - 1 bytes together; slice the columns first.
    """
    arrays = [
        pa.array(columns.offset),
        pa.array(columns.timestamp, mask=columns.timestamp == -1).cast(pa.timestamp("ms", tz="UTC")),
        pa.array(columns.timestamp_type),
        binary_array(columns.buffer, columns.key_start, columns.key_length),
        binary_array(columns.buffer, columns.value_start, columns.value_length),
        _headers(columns),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def binary_array(buffer: memoryview, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> pa.Array:
    """A `binary` array of the pieces buffer[starts[i]:starts[i] + lengths[i]]; length -1 = null.

    OverflowError: more than 2**31 - 1 bytes together.
    """
    starts, lengths = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
    ends, data = gather(buffer, starts, lengths)
    null = lengths < 0
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(
        pa.binary(), len(lengths), [valid, pa.py_buffer(ends), pa.py_buffer(data)], null_count=int(null.sum())
    )


def _headers(columns: "RecordColumns") -> pa.Array:
    """Only the records that have headers are looked into."""
    counts = np.zeros(len(columns) + 1, np.int32)
    keys: list[str] = []
    values: list[bytes | None] = []
    for i in np.flatnonzero(columns.headers_length > 0).tolist():
        headers = columns.headers(i)
        counts[i + 1] = len(headers)
        keys.extend(key for key, _ in headers)
        values.extend(value for _, value in headers)
    pairs = pa.StructArray.from_arrays(
        [pa.array(keys, pa.string()), pa.array(values, pa.binary())], fields=list(HEADER_TYPE)
    )
    return pa.ListArray.from_arrays(pa.array(np.cumsum(counts, dtype=np.int32)), pairs)
