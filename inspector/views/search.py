"""The matches of a search as they are found; Enter goes to the record, n and N from match to match.

12 matches of 'order-17' in key value headers, reached offset 1,042 of 5,000   20% of 1.0 GiB, 4 s  esc ends it
          OFFSET  FIELD    AT  MATCH
  >         1040  value    17  {"order": "order-17", ...
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from kafkalog.scan.search import Match

from .. import columns, messages, text
from ..browsing import Browsing
from ..jobs.jobs import SearchJob
from ..jobs.runs import LISTED, SearchRun
from ..model.types import Offset
from ..tables import Mark
from ..widgets.item_table import ItemTable
from ..widgets.lazy_table import LazyTable
from ..widgets.search_prompt import STARTS_NAMED
from .run_view import ShowsRun
from .view import View

MATCH_COLUMN = 3
# An end that a log does not tell before it has been read through.
UNKNOWN_END = 2**63 - 1


class SearchView(ShowsRun[SearchRun], View):
    """The matches of a search."""

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self.table: ItemTable[Match] = ItemTable(columns.matches(), lambda _: ("plain", " "), _marks)
        self.table.sortable = False
        self._shown: SearchRun | None = None
        # The match that keys have gone to, where it has not come so far.
        self._wanted: int | None = None

    def compose(self) -> ComposeResult:
        yield Static(classes="heading")
        yield Static(classes="heading reached")
        yield self.table

    async def appear(self) -> None:
        self.look_at(self.browsing.search)
        if self.run is not None and self.run.current is not None:
            match = self.run.match_at(self.run.current)
            if match is not None:
                self.table.go(self.run.matches.index(match))

    def show_run(self) -> None:
        run, table = self.run, self.table
        table.when_empty = "no match" if run is not None and not run.is_running else "no match so far"
        if run is None:
            table.when_empty = "nothing has been searched for; / begins"
        if run is not self._shown:
            self._shown, self._wanted = run, None
            table.show_items(())
        table.show_items(() if run is None else run.matches)
        self._go_to_wanted()
        self.query_one(".reached", Static).update("" if run is None else reached(run))

    def headings(self) -> list[str]:
        return [] if self.run is None else [found(self.run)]

    def action_run(self) -> None:
        if self.run is not None:
            job = self.run.job
            self.browsing.search = self.runs.start(SearchRun(SearchJob(job.path, job.wanted, job.offset, LISTED)))
            self.look_at(self.browsing.search)

    def step(self, forwards: bool) -> None:
        """Go to the next match in the list, or the one before; one that may come is waited for."""
        here = self.table.cursor if self.table.count else -1
        here = here if self._wanted is None else self._wanted
        self._wanted = here + (1 if forwards else -1)
        self._go_to_wanted()

    def _go_to_wanted(self) -> None:
        if self._wanted is None:
            return
        wanted, count = self._wanted, self.table.count
        self.table.go(min(wanted, count - 1))
        if wanted < count or self.run is None or not self.run.is_running:
            self._wanted = None
            if wanted >= count:
                self.notify("no match after this", timeout=2)

    def on_paged_view_moved(self, message: LazyTable.Moved) -> None:
        if message.by_user:
            self._wanted = None

    def on_paged_view_chosen(self) -> None:
        if self.run is not None and (chosen := self.table.current) is not None:
            self.run.current = chosen.offset
            self.post_message(messages.Jump(Offset(self.run.current), "record"))

    async def copied(self) -> str:
        return "\n".join("\t".join(self.table.source.row(item).cells) for item in self.table.chosen_items())


def found(run: SearchRun) -> str:
    """Return what was found: 12 matches of 'order-17' in key."""
    wanted = run.job.wanted
    kind = "/" if wanted.regex else "'"
    count = len(run.offsets)
    what = f"{kind}{text.printable(wanted.text, 40)}{kind}{'' if wanted.case else ' in any case'}"
    listed = f", the first {LISTED:,} listed" if count > len(run.matches) else ""
    return f"{count:,} {'match' if count == 1 else 'matches'} of {what} in {wanted.fields_named}{listed}"


def reached(run: SearchRun) -> str:
    """Return how far the search has come, and what it has left out."""
    progress = run.reached
    if progress is None:
        return "reached nothing so far"
    end = "the end" if progress.end_offset == UNKNOWN_END else text.number(progress.end_offset)
    at = "the end" if progress.reached_offset == UNKNOWN_END else f"offset {text.number(progress.reached_offset)}"
    line = f"{STARTS_NAMED[run.job.wanted.start]}: reached {at} of {end}"
    if progress.unreadable:
        return f"! {line}, incomplete: {progress.unreadable:,} unreadable left out"
    return f"{line}, complete" if progress.complete and run.state == "finished" else f"{line}, incomplete"


def _marks(match: Match, _: tuple[str, ...]) -> tuple[Mark, ...]:
    before, middle, _rest = columns.excerpt(match)
    return (Mark(MATCH_COLUMN, len(before), len(before) + len(middle)),)
