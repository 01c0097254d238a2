"""Offsets between two segments that neither of them holds.

    segment 0     offsets 0-39 (40 records)
    segment 80    begins at 80: no segment holds 40-79

A broker begins a segment at the end of the one before. Compaction takes records away at a segment's end too, and leaves
such a gap: where it has taken some inside the segment as well, or all, the gap after it tells nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from inspector.reading.answers import Gap, SegmentRow


def gaps_between(rows: Sequence[SegmentRow], log_start: int) -> Iterator[Gap]:
    """From the log's start on, in order."""
    for before, after in pairwise(rows):
        end = before.end_offset
        if end is None or before.problem is not None or _is_compacted(before, end):
            continue
        first = max(end, log_start)
        if first < after.base_offset:
            yield Gap(first, after.base_offset - 1)


def _is_compacted(row: SegmentRow, end: int) -> bool:
    """Whether it has lost records for certain, as far as it has been read."""
    if not row.bytes or row.summary is None:
        return not row.bytes
    return row.summary.records_min + row.summary.control_records < end - row.base_offset
