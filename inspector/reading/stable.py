"""The last stable offset of a log that grows: worked out once from snapshot and log, then followed batch by batch.

    offset     10   11   12   13   14   15              producers A and B, x: A's marker
    batch      A    A    B    A    x    B
    open       A 10      B 12      A ends               last stable offset: 10 before the marker, then 12

A transaction that has ended counts as open until the high watermark has passed its marker.
"""

from __future__ import annotations

import numpy as np

from inspector.reading.headers import Rows
from kafkalog import Log
from kafkalog.attributes import CONTROL_BIT, TRANSACTIONAL_BIT


class LastStable:
    """What is undecided in a log, up to `end`."""

    def __init__(self, log: Log) -> None:
        """It reads the log behind the newest snapshot. OSError, KafkaLogError: it cannot be read."""
        state = log.producer_state
        self.end = state.map_end_offset
        self._open = {
            entry.producer_id: entry.current_txn_first_offset
            for entry in state.active_producers.values()
            if entry.current_txn_first_offset is not None
        }
        # First offset and marker of transactions that have ended.
        self._ended: list[tuple[int, int]] = []

    def follow(self, log: Log, end: int) -> bool:
        """Read on to `end`. False: the log was cut, all is to be worked out again."""
        if end <= self.end:
            return end == self.end
        segments = log.segments
        bases: list[int | None] = [segment.base_offset for segment in segments]
        for segment, following in zip(segments, [*bases[1:], None], strict=False):
            if following is None or following > self.end:
                for rows in segment.entries_from(self.end).header_runs():
                    self._take(rows)
        self.end = end
        return True

    def _take(self, rows: Rows) -> None:
        own = np.flatnonzero(
            (rows["magic"] >= 2) & (rows["attributes"] & TRANSACTIONAL_BIT != 0) & (rows["last_offset"] >= self.end)
        )
        columns = (rows[name][own].tolist() for name in ("producer_id", "base_offset", "attributes"))
        for producer, offset, attributes in zip(*columns, strict=True):
            if attributes & CONTROL_BIT:
                first = self._open.pop(producer, None)
                if first is not None:
                    self._ended.append((first, offset))
            else:
                self._open.setdefault(producer, offset)

    def offset(self, high_watermark: int) -> int:
        """The offset up to which all is decided, at most the high watermark."""
        self._ended = [each for each in self._ended if each[1] >= high_watermark]
        return min(high_watermark, *self._open.values(), *(first for first, _ in self._ended), high_watermark)
