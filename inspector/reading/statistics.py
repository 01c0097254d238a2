"""Statistics of a partition, a step at a time, so that a screen may show them while they grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from time import monotonic
from typing import TYPE_CHECKING

from inspector.reading.batches import STEP_SECONDS
from inspector.reading.through import Step, Unread, Unreadable, places_of, steps
from kafkalog.scan.progress import Progress
from kafkalog.scan.statistics import RecordStatistics, Totals

if TYPE_CHECKING:
    from inspector.reading.partition import PartitionReader


@dataclass(frozen=True, slots=True)
class StatisticsState(Totals):
    """What is known so far.

    unreadable: batches stepped over; first_unreadable: the first of them, which `problem` tells of.
    """

    unreadable: int = 0
    problem: str | None = None
    first_unreadable: Unreadable | None = None
    progress: Progress = field(default_factory=lambda: Progress(0, 0))


class Statistics:
    """The statistics of a partition as it was when this was made. Call `step` until it `is_done`, from one thread."""

    def __init__(self, partition: PartitionReader) -> None:
        self._unread = Unread()
        self._places = places_of(partition.refresh_quietly(), self._unread)
        self._total = sum(place.bytes for place in self._places)
        self._steps = self._all_steps()
        self._done = 0
        self._sums = RecordStatistics()

    def _all_steps(self) -> Iterator[Step]:
        before = 0
        for place in self._places:
            for step in steps(place, self._unread):
                yield step._replace(done_bytes=before + min(step.done_bytes, place.bytes))
            before += place.bytes

    def step(self, seconds: float = STEP_SECONDS) -> Progress:
        """Go on for about so long."""
        until = monotonic() + seconds
        while monotonic() < until:
            step = next(self._steps, None)
            if step is None:
                self._done = self._total
                break
            self._done = step.done_bytes
            for part in step.parts:
                self._sums.add(part.columns, part.codec, part.stored, part.batches)
        return self.progress

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(self._done, self._total)

    def state(self, top: int = 50) -> StatisticsState:
        """What is known so far. top: how many keys."""
        totals = self._sums.totals(top)
        sums = {each.name: getattr(totals, each.name) for each in fields(Totals)}
        unread = self._unread
        return StatisticsState(
            **sums, unreadable=unread.batches, problem=unread.problem, first_unreadable=unread.first,
            progress=self.progress,
        )  # fmt: skip
