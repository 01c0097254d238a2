"""Checks of the offsets that a log is missing, between its segments and between their batches.

    00000000000000000000.log  offsets 0..99 | 00000000000000000150.log  offsets 150..         100..149 are missing

Compaction leaves gaps, too. Its checkpoint tells, the topic's `cleanup.policy`, or that there are many of them. Where
nothing tells, a record without a key does: compaction begins at the first segment, and drops all of them on its way.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, pairwise

from kafkalog.errors import KafkaLogError
from kafkalog.fsck.checkpoint_checks import Checkpoints
from kafkalog.fsck.findings import Finding
from kafkalog.fsck.log_history import LogHistory
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.segment.file_message_set import FileMessageSet

# The number of batches of a segment that are searched for a record without a key.
_SEARCHED = 100


def unexplained_gaps(
    history: LogHistory, checkpoints: Checkpoints, partition: TopicPartition | None, swaps: Collection[int] = ()
) -> Iterator[Finding]:
    """Yield the findings about missing offsets that compaction does not explain.

    Args:
        history: The segments.
        checkpoints: The data directory's: how far the partition is compacted.
        partition: The partition; None if the checkpoints are not about it.
        swaps: The base offsets of segments that a broker will put in place.
    """
    for finding in gap_findings(history, checkpoints.cleaned(partition), swaps):
        # Without a gap, nothing is read to know that.
        if checkpoints.know_compaction(partition):
            yield finding
        elif checkpoints.is_compacted(partition):
            # Its leader may have compacted what this replica fetched later.
            return
        elif _is_never_compacted(history, finding.first_offset or 0):
            yield replace(finding, message=f"{finding.message}; no compaction: a record before it has no key")


def gap_findings(history: LogHistory, cleaned: int | None, swaps: Collection[int] = ()) -> Iterator[Finding]:
    """Yield the findings about missing offsets, where it is known how far the partition is compacted.

    Args:
        history: The segments.
        cleaned: The offset up to which the partition is compacted; None if it is not.
        swaps: The base offsets of segments that a broker will put in place.
    """
    if history.looks_compacted:
        return
    for gap in history.gaps:
        if cleaned is None or cleaned <= gap.start:
            yield Finding("offset-gap", str(gap.path), "offsets are missing before the batch", gap.position, 0,
                          gap.start, gap.end - 1, gap.start, gap.end)  # fmt: skip
    for before, after in pairwise(history.extents):
        known = before.whole and not before.has_tail and not any(before.base <= base < after.base for base in swaps)
        if known and before.end < after.base and (cleaned is None or cleaned <= before.end):
            what = f"{before.path.name} is empty" if not before.size else f"{before.path.name} ends before it"
            message = f"offsets are missing before the segment: {what}"
            yield Finding("segment-gap", str(after.path), message, None, None, before.end, after.base - 1,
                          before.end, after.base)  # fmt: skip


def _is_never_compacted(history: LogHistory, offset: int) -> bool:
    """Return whether a record without a key is before an offset, so that compaction has not come as far as that.

    Only the first batches are read of the last segment that begins before the offset and has batches before it.
    """
    extent = next((each for each in reversed(history.extents) if each.base < offset and each.size), None)
    if extent is None:
        return False
    with suppress(KafkaLogError, OSError), FileMessageSet(extent.path, sealed=True) as log:
        for batch in islice(log.batches(), _SEARCHED):
            if batch.base_offset >= offset:
                break
            if not batch.is_control and any(record.key is None for record in batch if record.offset < offset):
                return True
    return False
