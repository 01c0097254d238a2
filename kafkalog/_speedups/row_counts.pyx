"""Sums over the headers of many entries, in one pass over their rows. The contract is in DESIGN.md."""

from libc.stdint cimport INT64_MIN, int64_t, uint64_t

from kafkalog._speedups.header_table cimport Rows, open_rows
from kafkalog._speedups.layout cimport CODEC_MASK, CONTROL_BIT, DELETE_HORIZON_BIT, Header


def count_rows(rows, const int64_t[::1] counts=None, int64_t before=INT64_MIN):
    """Sum up the headers of consecutive entries.

    Args:
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        counts: The number of records of each entry, int64, shape (n,); None: use the counts in the headers, and 1 for
            a message or wrapper.
        before: The last offset of the entry before the first row; -2**63: unknown.

    Returns:
        (control_batches, control_records, records, more, first, last, codecs, magics):

        - control_batches: The number of control batches.
        - control_records: The number of records in control batches.
        - records: The number of other records.
        - more: The most records that all wrappers can have in addition to one each, according to the offsets since the
          entry before; -1: unknown.
        - first, last: The smallest and the largest timestamp of the records, ms; -1: none.
        - codecs: The number of entries of each codec from 0 to 7, a list.
        - magics: The magics of the entries, a set.

    Raises:
        ValueError: The length of `counts` is not that of `rows`.
    """
    cdef Rows table
    cdef const Header* row
    cdef Py_ssize_t i
    cdef bint known = counts is not None
    cdef int64_t control_batches = 0, control_records = 0, records = 0, more = 0, first = -1, last = -1
    cdef int64_t present, span, begins
    cdef Py_ssize_t[8] codecs
    rows = open_rows(rows, &table)
    if known and counts.shape[0] != table.count:
        raise ValueError(f"{counts.shape[0]} counts of {table.count} rows")
    magics = set()
    for i in range(8):
        codecs[i] = 0
    for i in range(table.count):
        row = &table.at[i]
        codecs[row.compression_type & CODEC_MASK] += 1
        if i == 0 or row.magic != table.at[i - 1].magic:
            magics.add(row.magic)
        present = counts[i] if known else 1 if row.magic < 2 else max(row.records_count, 0)
        if row.magic >= 2 and row.attributes & CONTROL_BIT:
            control_batches += 1
            control_records += present
        else:
            records += present
        if row.magic < 2 and row.compression_type > 0 and more >= 0:
            before = table.at[i - 1].last_offset if i else before
            # Unsigned, because the offsets of damaged headers may be anything.
            span = <int64_t> (<uint64_t> row.last_offset - <uint64_t> before)
            if before == INT64_MIN:
                more = -1
            elif span > 1:
                more = <int64_t> (<uint64_t> more + <uint64_t> (span - 1))
        begins = row.max_timestamp
        if row.magic >= 2 and not row.attributes & DELETE_HORIZON_BIT and row.timestamp_type == 0:
            begins = row.base_timestamp
        if begins >= 0 and row.max_timestamp >= 0 and not 0 <= first <= begins:
            first = begins
        last = max(last, row.max_timestamp)
    more = max(more, -1)
    return control_batches, control_records, records, more, first, last, [codecs[i] for i in range(8)], magics
