"""Checks of the headers of sound batches: the fields of each, and their order.

    base 0 last 9 | base 10 last 14 | base 20 last 22 | ...     offsets rise; compaction and transactions leave gaps

The checksum of format 2 covers neither base offset nor leader epoch, and that of formats 0 and 1 does not cover the
offset. Only the order of the batches shows that such a field is damaged.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog._speedups.framing import HEADER_DTYPE
from kafkalog.attributes import CONTROL_BIT, TRANSACTIONAL_BIT, CompressionType
from kafkalog.fsck.findings import Finding
from kafkalog.record.framing import chosen

Rows = NDArray[np.void]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

# An index holds offsets as int32, relative to the segment's base.
MOST_OFFSETS = 2**31 - 1
_LEAST = -(2**63)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets that a segment may hold.

    Attributes:
        base: The base offset of the segment; None if unknown.
        following: The base offset of its successor; None if there is none, or unknown.
    """

    base: int | None = None
    following: int | None = None

    def last(self) -> int | None:
        """Return the last offset that an index can refer to; None if unknown."""
        return None if self.base is None else self.base + MOST_OFFSETS

    @property
    def span(self) -> tuple[int, int]:
        """The smallest and the largest offset that the segment may hold."""
        indexed = INT64_MAX if self.base is None else min(self.base + MOST_OFFSETS, INT64_MAX)
        return self.base or 0, indexed if self.following is None else min(indexed, self.following - 1)

    def inside(self, rows: Rows) -> Flags:
        """Return which of `rows` have only offsets that the segment may hold, judged by their headers."""
        least, largest = self.span
        first = first_offsets(rows)
        # The last offset of a batch that begins near 2**63 is negative.
        flags: Flags = (first >= least) & (first <= largest) & (rows["last_offset"] <= largest)
        return flags


def about(row: np.void, path: str, code: str, message: str, **what: Any) -> Finding:
    """Return a finding about the whole entry of a row; `what` sets or replaces fields of the finding."""
    first, last = int(row["base_offset"]), int(row["last_offset"])
    place: dict[str, Any] = {
        "position": int(row["position"]),
        "length": int(row["size_in_bytes"]),
        "first_offset": first if first >= 0 else None,
        "last_offset": last if last >= 0 else None,
    }
    return Finding(code, path, message, **{**place, **what})


def field_findings(rows: Rows, path: str) -> Iterator[Finding]:
    """Yield the findings about the fields of each row, regardless of the other rows."""
    yield from _codecs(rows, path)
    batches = chosen(rows, rows["magic"] >= 2)
    if len(batches):
        yield from _counts(batches, path)
        yield from _producers(batches, path)


def _codecs(rows: Rows, path: str) -> Iterator[Finding]:
    for row in rows[unknown_codecs(rows)]:
        most = int(_last_codec(row["magic"]))
        yield about(
            row, path, "unknown-codec", f"format {int(row['magic'])} has no such codec",
            expected=f"0..{most}", found=int(row["compression_type"]),
        )  # fmt: skip


def unknown_codecs(rows: Rows) -> Flags:
    """Return which of `rows` have a codec that their format does not have."""
    flags: Flags = rows["compression_type"] > _last_codec(rows["magic"])
    return flags


def _last_codec(magic: Any) -> Any:
    return np.where(magic >= 2, CompressionType.ZSTD, CompressionType.LZ4)


def _counts(batches: Rows, path: str) -> Iterator[Finding]:
    delta = batches["last_offset"] - batches["base_offset"]
    for i in np.flatnonzero(delta < 0).tolist():
        yield about(
            batches[i], path, "last-offset-delta", "the last offset is less than the base offset",
            expected="at least 0", found=int(delta[i]),
        )  # fmt: skip
    count = batches["records_count"]
    for i in np.flatnonzero((count < 0) | ((count > delta + 1) & (delta >= 0))).tolist():
        yield about(
            batches[i], path, "records-count", "invalid number of records",
            expected=f"0..{int(delta[i]) + 1}", found=int(count[i]),
        )  # fmt: skip


def _producers(batches: Rows, path: str) -> Iterator[Finding]:
    producer, epoch, sequence = (batches[name] for name in ("producer_id", "producer_epoch", "base_sequence"))
    transactional, control = batches["attributes"] & TRANSACTIONAL_BIT != 0, batches["attributes"] & CONTROL_BIT != 0
    # A group coordinator commits offsets within a transaction with the producer's id but without a sequence.
    unnumbered = (producer >= 0) & (sequence < 0) & ~control & ~transactional
    for flags, message in (
        ((producer < -1) | (epoch < -1) | (sequence < -1), "a field of the producer is less than -1"),
        # A sequence without an id is normal: group coordinators of some versions write it.
        ((producer == -1) & (epoch >= 0), "an epoch without a producer id"),
        ((producer == -1) & transactional, "a transactional batch without a producer id"),
        ((producer >= 0) & (epoch == -1), "a producer id without an epoch"),
        (unnumbered, "a producer id without a sequence"),
        (control & (sequence >= 0), "a control batch with a sequence"),
    ):
        for row in batches[flags]:
            found = f"id {row['producer_id']}, epoch {row['producer_epoch']}, sequence {row['base_sequence']}"
            yield about(row, path, "producer-fields", message, found=found)


class OrderCheck:
    """The check of the order of offsets and leader epochs in a segment, given its sound batches range by range.

    Two batches that are out of order are judged by the one before them and the one after them. So the last batch of a
    range is judged with the next range, and the very last one at the end.
    """

    def __init__(self, path: str, bounds: Bounds) -> None:
        self._path = path
        self._bounds = bounds
        self._recent: Rows = np.empty(0, HEADER_DTYPE)
        self._recent_epochs: Rows = self._recent
        self._reaches_over = False

    @property
    def last_offset(self) -> int | None:
        """The last offset of the last batch inside the segment's offsets; None before the first one."""
        return int(self._recent["last_offset"][-1]) if len(self._recent) else None

    def findings(self, rows: Rows) -> Iterator[Finding]:
        """Yield the findings about the order of the sound batches of the next batch range, and update the state."""
        inside = chosen(rows, (yield from self._outside(rows)))
        # The sum of base offset and delta has wrapped around.
        first, last = inside["base_offset"], inside["last_offset"]
        for row in inside[(last < first) & (last - first >= 0)]:
            yield about(row, self._path, "largest-offset", "the last offset is beyond the largest that there is",
                        last_offset=INT64_MAX, expected=f"at most {INT64_MAX}",
                        found=int(row["last_offset"]) + 2**64)  # fmt: skip
        yield from self._offsets(self._recent, inside)
        self._recent = _last_three(self._recent, inside)
        for row in rows[rows["partition_leader_epoch"] < -1]:
            yield about(row, self._path, "leader-epoch", "the leader epoch is less than -1",
                        expected="at least -1", found=int(row["partition_leader_epoch"]))  # fmt: skip
        numbered = chosen(rows, (rows["magic"] >= 2) & (rows["partition_leader_epoch"] >= 0))
        yield from self._epochs(self._recent_epochs, numbered)
        self._recent_epochs = _last_three(self._recent_epochs, numbered)

    def end(self) -> Iterator[Finding]:
        """Yield the findings about the last batch."""
        yield from self._offsets(self._recent, self._recent[:0], ended=True)
        yield from self._epochs(self._recent_epochs, self._recent_epochs[:0], ended=True)

    def before(self, rows: Rows) -> Longs:
        """Return for each of `rows` the last offset before it, or -2**63 if unknown. Call it before `findings`."""
        start = self.last_offset
        return np.concatenate([[_LEAST if start is None else start], rows["last_offset"][:-1]]).astype(np.int64)

    def _outside(self, rows: Rows) -> Generator[Finding, None, Flags]:
        """Yield the findings about rows outside the segment's offsets; return which rows are inside."""
        inside = self._bounds.inside(rows)
        if inside.all():
            return inside
        first = first_offsets(rows)
        last = np.maximum(first, rows["last_offset"])
        base, most, following = self._bounds.base or 0, self._bounds.last(), self._bounds.following
        below, beyond = first < base, np.zeros_like(inside)
        if most is not None:
            beyond = (last > most) & ~below
        for i in np.flatnonzero(below).tolist():
            message = "the offset is below the segment's base"
            yield self._offset_finding(rows[i], "offset-below-segment", message, base, first[i])
        for i in np.flatnonzero(beyond).tolist():
            message = "the offset is more than 2**31 - 1 above the segment's base"
            yield self._offset_finding(rows[i], "offset-beyond-segment", message, most, last[i])
        over = ~(inside | below | beyond)
        if following is not None and over.any() and not self._reaches_over:
            self._reaches_over = True
            i = int(over.argmax())
            message = "the offsets overlap those of the next segment; later batches may overlap too"
            yield self._offset_finding(rows[i], "segment-overlap", message, following - 1, last[i])
        return inside

    def _offset_finding(self, row: np.void, code: str, message: str, bound: int | None, found: Any) -> Finding:
        expected = f"at least {bound}" if code == "offset-below-segment" else f"at most {bound}"
        return about(row, self._path, code, message, expected=expected, found=int(found))

    def _offsets(self, before: Rows, rows: Rows, *, ended: bool = False) -> Iterator[Finding]:
        first, last = (np.concatenate([column(before), column(rows)]) for column in (first_offsets, _last_offsets))
        for place, at in _order_breaks(first, last, len(before), ended=ended):
            if place < at:
                message, expected = "the batch after it begins with a lower offset", f"less than {int(first[at])}"
                yield about(_row(before, rows, place), self._path, "offset-order", message,
                            expected=expected, found=int(last[place]))  # fmt: skip
                continue
            overlaps = first[at] > first[at - 1]
            message = "the batch begins within the one before it" if overlaps else "the offset does not rise"
            code = "offset-overlap" if overlaps else "offset-order"
            yield about(_row(before, rows, at), self._path, code, message,
                        expected=f"at least {int(last[at - 1]) + 1}", found=int(first[at]))  # fmt: skip

    def _epochs(self, before: Rows, rows: Rows, *, ended: bool = False) -> Iterator[Finding]:
        epochs = np.concatenate([_epochs_of(before), _epochs_of(rows)])
        for place, at in _order_breaks(epochs, epochs - 1, len(before), ended=ended):
            most = place < at
            message = "the leader epoch is higher than that of the next batch" if most else "the leader epoch decreases"
            bound = f"at most {int(epochs[at])}" if most else f"at least {int(epochs[at - 1])}"
            yield about(_row(before, rows, place), self._path, "leader-epoch", message,
                        expected=bound, found=int(epochs[place]))  # fmt: skip


def _row(before: Rows, rows: Rows, i: int) -> np.void:
    """Return row i of two header tables, one after the other; to concatenate them takes longer than to check them."""
    row: np.void = (before if i < len(before) else rows)[i - len(before)]
    return row


def _last_three(before: Rows, rows: Rows) -> Rows:
    """Return the last three rows of two header tables, one after the other."""
    return rows[-3:].copy() if len(rows) >= 3 else np.concatenate([before, rows])[-3:]


def _last_offsets(rows: Rows) -> Longs:
    return rows["last_offset"]


def _epochs_of(rows: Rows) -> Longs:
    return rows["partition_leader_epoch"].astype(np.int64)


def first_offsets(rows: Rows) -> Longs:
    """Return the first offset of each row, or the last one of a wrapper, whose header has no other."""
    firsts: Longs = np.where(is_wrapper(rows), rows["last_offset"], rows["base_offset"])
    return firsts


def is_wrapper(rows: Rows | np.void) -> Flags:
    """Return which of `rows` are wrappers: compressed batches of formats 0 and 1."""
    flags: Flags = (rows["magic"] < 2) & (rows["compression_type"] != 0)
    return flags


def _order_breaks(first: Longs, last: Longs, known: int, *, ended: bool) -> Iterator[tuple[int, int]]:
    """Yield the rows that break the rising order, with the row to blame.

    The row before the break is to blame if its field is too high: without it the order holds, and the row after the
    break does not follow it either. Otherwise the row at the break is to blame.

    Args:
        first: The first value of each row.
        last: The last value of each row.
        known: The number of leading rows given before: all but the last of them have been judged.
        ended: Whether no row follows the last one; else that is not judged yet.

    Yields:
        The index of the row to blame, and the index of the break: the row whose first value is not above the last
        value of the row before it.
    """
    start, stop = max(known - 1, 1), len(first) if ended else len(first) - 1
    for at in (np.flatnonzero(first[start:stop] <= last[start - 1 : stop - 1]) + start).tolist():
        before = int(last[at - 2]) if at >= 2 else _LEAST
        after = first[at + 1 : at + 2]
        too_high = first[at] > before and len(after) and after[0] <= last[at - 1]
        yield (at - 1 if too_high else at), at
