"""Columns of many consecutive batches, gathered from the runs of a walk: `Gathering` passes them on as `Batches`.

A run of large batches has only some hundred rows, and on so few the calls of numpy take longer than their work.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from kafkalog.fsck.header_checks import Longs, Rows
from kafkalog.fsck.walk import Item, Run, Source

_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Batches:
    """Consecutive sound batches of a segment, as columns.

    Attributes:
        before: The last offset before them; None if it is not known, because of damage.
        end: The position after the last of them.
        position: Where each begins.
        first: The first offset of each; of a wrapper, whose header does not tell, the least that it can be.
        last: The last offset of each.
        timestamp: The largest timestamp of each.
        epoch: The leader epoch of each; -1: none.
        magic: The largest format among them.
        rising: Whether each begins after the one before it.
        has_fewer_records: Whether any has fewer records than offsets.
    """

    before: int | None
    end: int
    position: Longs
    first: Longs
    last: Longs
    timestamp: Longs
    epoch: Longs
    magic: int
    rising: bool
    has_fewer_records: bool

    @classmethod
    def of(cls, runs: list[Rows], before: int | None) -> "Batches":
        """Return the batches of consecutive runs."""

        def column(name: str) -> Longs:
            return np.concatenate([rows[name] for rows in runs]).astype(np.int64, copy=False)

        position, first, last, magic = map(column, ("position", "base_offset", "last_offset", "magic"))
        epoch, counts = column("partition_leader_epoch"), column("records_count")
        # An empty batch without a timestamp stands for what a repair has dropped: Kafka's cleaner keeps the timestamp.
        timestamp = column("max_timestamp")
        fewer = (counts <= last - first) & ((counts > 0) | (timestamp >= 0))
        if magic.min() < 2:
            modern = magic >= 2
            known = modern | (column("compression_type") == 0)
            least = first[0] if before is None else before + 1
            first = np.where(known, first, np.concatenate([[least], last[:-1] + 1]))
            epoch, fewer = np.where(modern, epoch, -1), fewer & modern
        end = int(position[-1]) + int(runs[-1]["size_in_bytes"][-1])
        rising = (before is None or first[0] > before) and bool((first[1:] > last[:-1]).all() and (last >= first).all())
        return cls(before, end, position, first, last, timestamp, epoch, int(magic.max()), rising,
                   bool(fewer.any()))  # fmt: skip


class BatchWatcher(Protocol):
    """A check that sees the batches of a segment."""

    def see(self, batches: Batches) -> None:
        """Take note of the next batches."""

    def lose(self, item: Item) -> None:
        """Take note of damage, or of a tail."""


class Gathering:
    """A watcher of the walk over a segment, which gathers the batches and passes them on."""

    def __init__(self, base: int, *watchers: BatchWatcher) -> None:
        self._watchers = watchers
        self._before: int | None = base - 1
        self._runs: list[Rows] = []
        self._count = 0

    def see(self, item: Item, file: Source) -> None:
        """Gather the next batches."""
        del file
        for part in _parts(item):
            if isinstance(part, Run) and part.valid[0]:
                self._runs.append(part.rows)
                self._count += len(part.rows)
                if self._count >= _ROWS:
                    self.flush()
                continue
            self.flush()
            for watcher in self._watchers:
                watcher.lose(part)
            self._before = None

    def flush(self) -> None:
        """Pass on what is gathered."""
        if self._count:
            batches = Batches.of(self._runs, self._before)
            for watcher in self._watchers:
                watcher.see(batches)
            self._before = int(batches.last[-1])
        self._runs, self._count = [], 0


def _parts(item: Item) -> Iterator[Item]:
    """Yield a batch range in parts, of which each is valid or damaged as a whole."""
    if not isinstance(item, Run):
        yield item
        return
    edges = [0, *(np.flatnonzero(np.diff(item.valid)) + 1).tolist(), len(item.valid)]
    for start, stop in pairwise(edges):
        yield item._replace(rows=item.rows[start:stop], valid=item.valid[start:stop])
