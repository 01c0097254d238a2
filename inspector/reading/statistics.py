"""Statistics of a partition, a step at a time, so that a screen may show them while they grow."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from time import monotonic
from typing import TYPE_CHECKING

from inspector.reading.batches import STEP_SECONDS
from inspector.reading.record_scan import RecordScan, Unreadable
from kafkalog.scan.progress import Progress
from kafkalog.scan.statistics import RecordStatistics, Totals

if TYPE_CHECKING:
    from inspector.reading.partition import PartitionReader


@dataclass(frozen=True, slots=True)
class StatisticsState(Totals):
    """What is known so far.

    Attributes:
        unreadable: The number of batches and stretches of bytes that were stepped over.
        problem, first_unreadable: The first of them.
    """

    unreadable: int = 0
    problem: str | None = None
    first_unreadable: Unreadable | None = None
    progress: Progress = field(default_factory=lambda: Progress(0, 0))


class Statistics:
    """The statistics of a partition as it was when this was made. Call `step` until it `is_done`, from one thread."""

    def __init__(self, partition: PartitionReader) -> None:
        self._scan = RecordScan(partition.refresh_quietly(), control=True)
        self._parts = iter(self._scan)
        self._sums = RecordStatistics()

    def step(self, seconds: float = STEP_SECONDS) -> Progress:
        """Go on for about so long."""
        until = monotonic() + seconds
        for columns in self._parts:
            self._sums.add(columns)
            if monotonic() >= until:
                break
        return self.progress

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(self._scan.done_bytes, self._scan.total_bytes)

    def state(self, top: int = 50) -> StatisticsState:
        """What is known so far. top: how many keys."""
        totals = self._sums.totals(top)
        sums = {each.name: getattr(totals, each.name) for each in fields(Totals)}
        unread = self._scan.unread
        return StatisticsState(
            **sums, unreadable=unread.places, problem=unread.problem, first_unreadable=unread.first,
            progress=self.progress,
        )  # fmt: skip
