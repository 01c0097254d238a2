"""Offsets between two segments that neither of them holds, by the rule of `verify`."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.fsck.gap_checks import gap_findings
from kafkalog.fsck.log_history import Extent, LogHistory

from .types import Gap, SegmentRow


def gaps_between(rows: Sequence[SegmentRow], log_start: int, cleaned: int | None) -> tuple[Gap, ...]:
    """Return the gaps from the log start offset on that compaction does not explain, as far as the ends are known."""
    history = LogHistory()
    for row in rows:
        end = row.end_offset if row.bytes else row.base_offset
        is_whole = end is not None and row.problem is None
        history.extents.append(Extent(row.path, row.base_offset, end or row.base_offset, row.bytes, is_whole))
        if row.summary is not None and end is not None:
            known = row.summary.records_min + row.summary.deleted_records + row.summary.control_records
            history.has_fewer_records |= known < end - row.base_offset
    found = [(each.first_offset or 0, each.last_offset or 0) for each in gap_findings(history, cleaned)]
    return tuple(Gap(max(first, log_start), last) for first, last in found if last >= log_start)
