"""The history of the walk over the segments of a partition, for checks across segments and of other files."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkalog.fsck.gathering import Batches
from kafkalog.fsck.walk import Item, Tail

# More gaps than one in so many batches are those of compaction, of which no more than the first are kept.
_BATCHES_A_GAP = 10
_MOST_GAPS = 1000


class Extent(NamedTuple):
    """A segment that was walked.

    Attributes:
        path: Its file.
        base: Its base offset.
        end: The offset after its last batch; the base offset if it has none.
        size: The number of bytes walked.
        whole: Whether its end is known, because no damage follows its last batch.
        has_tail: Whether a torn or zeroed tail follows its end.
    """

    path: Path
    base: int
    end: int
    size: int = 0
    whole: bool = True
    has_tail: bool = False


class Gap(NamedTuple):
    """Offsets start <= offset < end that are missing before the batch at a position."""

    path: Path
    position: int
    start: int
    end: int


class EpochRange(NamedTuple):
    """Consecutive batches of one leader epoch: the offsets of their first and last record, and where the first is."""

    epoch: int
    first: int
    last: int
    path: Path
    position: int


class LogHistory:
    """The results of the walk over the segments so far, which visits them in order.

    Attributes:
        first_base: The base offset of the first segment, which may not be walked.
        extents: The segments so far.
        epochs: The leader epochs of the batches.
        gaps: Where offsets are missing between batches of one segment; the first ones.
        has_fewer_records: Whether a batch has fewer records than offsets.
    """

    def __init__(self) -> None:
        self.first_base = 0
        self.extents: list[Extent] = []
        self.epochs: list[EpochRange] = []
        self.gaps: list[Gap] = []
        self._gap_count = 0
        self._batches = 0
        self.has_fewer_records = False

    def begin(self, path: Path, base: int) -> None:
        """Begin with the next segment."""
        self.extents.append(Extent(path, base, base))

    def lose(self, item: Item | None = None) -> None:
        """Note a tail, or that the segment cannot be read to its end."""
        extent = self.extents[-1]
        if item is not None:
            extent = extent._replace(size=item.end)
        is_tail = isinstance(item, Tail)
        self.extents[-1] = extent._replace(has_tail=True) if is_tail else extent._replace(whole=False)

    def see(self, batches: Batches) -> None:
        """Take note of the next batches."""
        extent = self.extents[-1]
        self._see_epochs(batches, extent.path)
        self._see_gaps(batches, extent)
        end = max(extent.end, int(batches.last[-1]) + 1)
        self.extents[-1] = extent._replace(size=batches.end, end=end, whole=True)

    def _see_gaps(self, batches: Batches, extent: Extent) -> None:
        self._batches += len(batches.last)
        self.has_fewer_records |= batches.has_fewer_records
        before = int(batches.first[0]) - 1 if batches.before is None else batches.before
        ends = np.concatenate([[before], batches.last[:-1]])
        found = np.flatnonzero(batches.first > ends + 1)
        self._gap_count += len(found)
        for i in found[: _MOST_GAPS - len(self.gaps)].tolist():
            self.gaps.append(Gap(extent.path, int(batches.position[i]), int(ends[i]) + 1, int(batches.first[i])))

    def _see_epochs(self, batches: Batches, path: Path) -> None:
        epochs = batches.epoch
        latest = self.epochs[-1].epoch if self.epochs else -1
        if epochs.min() < 0:
            known = np.flatnonzero(epochs >= 0)
        elif epochs.min() == epochs.max() == latest:
            known = np.array([len(epochs) - 1])
        else:
            known = np.arange(len(epochs))
        if not len(known):
            return
        for place in np.flatnonzero(np.diff(epochs[known], prepend=latest)).tolist():
            if place:
                self._reach(int(batches.last[known[place - 1]]))
            i = known[place]
            first, last = int(batches.first[i]), int(batches.last[i])
            self.epochs.append(EpochRange(int(epochs[i]), first, last, path, int(batches.position[i])))
        self._reach(int(batches.last[known[-1]]))

    def _reach(self, last: int) -> None:
        self.epochs[-1] = self.epochs[-1]._replace(last=last)

    @property
    def looks_compacted(self) -> bool:
        """Whether compaction explains missing offsets: it leaves many gaps, and batches with fewer records."""
        return self.has_fewer_records or self._gap_count * _BATCHES_A_GAP > self._batches

    @property
    def log_end(self) -> int | None:
        """The offset after the last batch; None if it is not known, because there is no segment or its end is lost."""
        return self.extents[-1].end if self.extents and self.extents[-1].whole else None
