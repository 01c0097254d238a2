"""What recovery makes of the headers of many entries, in one walk over their rows.

    position     0 ....... 4200 ....... 8500 ........ 12800         interval 4096
    timestamp    7    9      8     8      11     10      3
    entry                (4200: 9)    (8500: 11)    (12800: 11)     the largest so far, and who had it first

The contract stands in DESIGN.md.
"""

from libc.stdint cimport INT32_MAX, int64_t

from kafkalog._speedups.header_table cimport Rows, open_rows

import numpy as np


cdef Py_ssize_t most_entries(const Rows* rows, int64_t interval):
    """No more entries than this are so far apart, in rows whose positions rise."""
    cdef int64_t span
    cdef Py_ssize_t count = rows.count
    if count == 0 or rows.at[0].position < 0 or rows.at[count - 1].position < rows.at[0].position:
        return count
    span = (rows.at[count - 1].position - rows.at[0].position) // (interval + 1)
    return count if span >= count - 1 else <Py_ssize_t> span + 1


def index_entries(rows, int64_t first_offset, int64_t last_offset, int64_t interval, int64_t indexed,
                  int64_t timestamp, int64_t offset):
    """Which of `rows` (HEADER_DTYPE) get an entry in a segment's indexes, and the largest timestamp up to each.

    One that begins more than `interval` bytes behind the one before that did, at first behind position `indexed`. Ends
    before the first whose last offset is not in first_offset..last_offset. timestamp, offset: the largest before the
    first row, and the last offset of the first batch that has it.

    Returns (count, entries, indexed, timestamp, offset): the rows before the end; int64 of shape (3, n), of each entry
    the row, the largest timestamp and its offset; the last three as they are then. ValueError: interval < 0.
    """
    cdef Rows table
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t room
    cdef int64_t[:, ::1] found
    rows = open_rows(rows, &table)
    if interval < 0:
        raise ValueError(f"entries {interval} bytes apart")
    room = most_entries(&table, min(interval, <int64_t> INT32_MAX))
    entries = np.empty((3, room), np.int64)
    found = entries
    while i < table.count and first_offset <= table.at[i].last_offset <= last_offset:
        if table.at[i].max_timestamp > timestamp:
            timestamp = table.at[i].max_timestamp
            offset = table.at[i].last_offset
        if n < room and table.at[i].position - indexed > interval:
            found[0, n] = i
            found[1, n] = timestamp
            found[2, n] = offset
            indexed = table.at[i].position
            n += 1
        i += 1
    return i, entries[:, :n], indexed, timestamp, offset
