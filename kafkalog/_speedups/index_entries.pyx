"""The index entries that recovery writes for a segment, computed in one pass over the rows of its entries.

    position     0 ....... 4200 ....... 8500 ........ 12800         interval 4096
    timestamp    7    9      8     8      11     10      3
    entry                (4200: 9)    (8500: 11)    (12800: 11)     position: largest timestamp so far

An entry also has the offset of the first batch with that timestamp. The contract is in DESIGN.md.
"""

from libc.stdint cimport INT32_MAX, int64_t

from kafkalog._speedups.header_table cimport Rows, open_rows

import numpy as np


cdef Py_ssize_t max_entries(const Rows* rows, int64_t interval):
    """Return an upper limit of the number of index entries that are more than `interval` bytes apart."""
    cdef int64_t span
    cdef Py_ssize_t count = rows.count
    if count == 0 or rows.at[0].position < 0 or rows.at[count - 1].position < rows.at[0].position:
        return count
    span = (rows.at[count - 1].position - rows.at[0].position) // (interval + 1)
    return count if span >= count - 1 else <Py_ssize_t> span + 1


def index_entries(rows, int64_t first_offset, int64_t last_offset, int64_t interval, int64_t indexed,
                  int64_t timestamp, int64_t offset):
    """Return the index entries for consecutive batches of a segment.

    A batch gets an index entry if it begins more than `interval` bytes after the last batch that has one. The function
    stops before the first batch whose last offset is not in first_offset..last_offset. To continue a segment, pass the
    last three results to the next call.

    Args:
        rows: The rows of the batches, `HEADER_DTYPE`, shape (m,), in the order of their positions.
        first_offset: The smallest last offset allowed.
        last_offset: The largest last offset allowed.
        interval: The distance between index entries, bytes.
        indexed: The file position of the last batch that has an index entry.
        timestamp: The largest timestamp before the first row, ms.
        offset: The last offset of the first batch with that timestamp.

    Returns:
        (count, entries, indexed, timestamp, offset):

        - count: The number of rows before the one at which the function stopped.
        - entries: One column per index entry, int64, shape (3, n): the index of the row, the largest timestamp so far,
          and its offset.
        - indexed, timestamp, offset: The values after the last of these rows.

    Raises:
        ValueError: `interval` is negative.
    """
    cdef Rows table
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t capacity
    cdef int64_t[:, ::1] found
    rows = open_rows(rows, &table)
    if interval < 0:
        raise ValueError(f"entries {interval} bytes apart")
    capacity = max_entries(&table, min(interval, <int64_t> INT32_MAX))
    entries = np.empty((3, capacity), np.int64)
    found = entries
    while i < table.count and first_offset <= table.at[i].last_offset <= last_offset:
        if table.at[i].max_timestamp > timestamp:
            timestamp = table.at[i].max_timestamp
            offset = table.at[i].last_offset
        if n < capacity and table.at[i].position - indexed > interval:
            found[0, n] = i
            found[1, n] = timestamp
            found[2, n] = offset
            indexed = table.at[i].position
            n += 1
        i += 1
    return i, entries[:, :n], indexed, timestamp, offset
