"""The reason for an empty dump: the log is empty, or its records are outside the range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.cli.positions import Range, time_text
from kafkalog.record.layout import NO_TIMESTAMP
from kafkalog.storage.remote_path import to_path

if TYPE_CHECKING:
    from kafkalog.cli.log_source import Source


def reason_for_nothing(source: Source, wanted: Range, what: str, *, control: bool) -> str:
    """Return the reason as one line.

    Args:
        source: The log.
        wanted: The range.
        what: "record" or "batch".
        control: Whether control records would have been shown.
    """
    start, end = source.start_offset, source.end_offset
    if start >= end:
        return f"{source.name}: empty; the next offset is {end}"
    if wanted.first is not None and wanted.stop is not None and wanted.first > wanted.stop:
        return f"{source.name}: --from (offset {wanted.first}) comes after --to (offset {wanted.stop})"
    there = [f"its offsets go from {start} to {end - 1}"] if wanted.has_offsets or not wanted.is_timed else []
    if wanted.is_timed:
        there.append(_times(source))
    hidden = what == "record" and not control and any(each.batch.is_control for each in source.batches(wanted))
    more = "; there are control records (--control shows them)" if hidden else ""
    place = f" {wanted}" if wanted.is_timed or wanted.has_offsets else ""
    return f"{source.name}: no {what}{place}: {', '.join(there)}{more}"


def _times(source: Source) -> str:
    """Return the range of timestamps in words."""
    from kafkalog.scan.summary import SegmentSummary, summarise

    total = SegmentSummary()
    for file in source.files:
        total.add(summarise(to_path(file.path), sealed=file.sealed))
    if total.last_timestamp == NO_TIMESTAMP:
        return "it has no timestamps"
    return f"its times go from {time_text(total.first_timestamp)} to {time_text(total.last_timestamp)}"
