"""Statistics of the segment that is looked at, or of the partition: over time, sizes, codecs, keys; as they are known.

They begin by themselves for a segment; `w` changes to the whole partition, `r` counts again.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from .. import text
from ..browsing import Browsing
from ..charts import has_blocks, report
from ..jobs.jobs import StatisticsJob
from ..jobs.runs import StatisticsRun
from ..keys import bindings
from ..tables import Column, Row, in_memory
from ..widgets.lazy_table import LazyTable
from .run_view import ShowsRun
from .view import View

NARROWEST = 20


class StatisticsView(ShowsRun[StatisticsRun], View):
    """The statistics of a segment or a partition."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("statistics")

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self._whole = False
        self._lines: list[str] = []
        self._blocks = has_blocks()
        self.table = LazyTable([Column("", NARROWEST, share=1)], titles=False)

    def compose(self) -> ComposeResult:
        yield Static(classes="heading")
        yield self.table

    @property
    def _path(self) -> Path:
        """Of what they are."""
        row = self.browsing.row
        return self.browsing.reader.path if self._whole or row is None else row.path

    async def appear(self) -> None:
        self.look_at_last(StatisticsRun, self._path)

    def show_run(self) -> None:
        run = self.run
        known = None if run is None else run.statistics
        room = self.table.size.width - 5
        self._lines = [] if known is None else report(known, self.session.times, room, blocks=self._blocks)
        self.table.when_empty = "counting …" if run is not None and run.is_running else "nothing counted"
        # The lines stay where they are while their numbers grow.
        cursor = self.table.cursor
        self.table.show(in_memory(Row((line,)) for line in self._lines), len(self._lines), cursor=cursor)

    def headings(self) -> list[str]:
        run = self.run
        whole = run is not None and run.job.path == self.browsing.reader.path
        parts = ["the whole partition" if whole else f"segment {self.browsing.base_offset}"]
        if run is None or run.statistics is None:
            return parts
        known = run.statistics
        parts.append(f"{text.number(known.records)} records in {text.number(known.batches)} batches")
        if known.unreadable:
            parts.append(f"! {known.unreadable:,} unreadable left out")
        return parts

    def on_resize(self) -> None:
        if self.run is not None:
            self.show_run()

    # Keys.

    def action_run(self) -> None:
        self.look_at(self.runs.start(StatisticsRun(StatisticsJob(self._path))))

    async def action_whole(self) -> None:
        self._whole = not self._whole
        await self.appear()

    async def copied(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines)
