"""The transactions of a partition: hanging and open ones, then those that have ended, the newest first.

! hanging 1  open 0  aborted 18  committed 33  stable 1,411  done in 0.3 s
    STATE      PRODUCER  EPOCH         FIRST  DURATION  RECORDS  BYTES
  ! hanging        1000      0         1,411   3 d       40  5.2 KiB
hanging: silent since 2023-11-16 00:44:01, for longer than any transaction may take; nobody else will end it. c copies:
kafka-transactions.sh --bootstrap-server HOST:9092 abort --topic orders --partition 0 --start-offset 1411

They are read anew, some time later, where the log has grown; escape ends that, and `r` begins again.
"""

from __future__ import annotations

import time

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from kafkalog.scan.transactions import TransactionRow, TransactionsState

from .. import columns, messages, text
from ..browsing import Browsing
from ..jobs.jobs import TransactionsJob
from ..jobs.runs import TransactionsRun
from ..model.types import Offset
from ..widgets.item_table import ItemTable
from .run_view import ShowsRun
from .view import View

# The log has grown: not read again before so many seconds, and ten times as long as it took.
PAUSE_SECONDS = 5.0
LOOKS_AGAIN_SECONDS = 0.5


class TransactionsView(ShowsRun[TransactionsRun], View):
    """Enter goes to the first record of one."""

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        shown = columns.transactions(self.session.times)
        self.table: ItemTable[TransactionRow] = ItemTable(shown, columns.look_of_transaction, columns.good, _name)
        self._state: TransactionsState | None = None
        self._read_end: int | None = None
        self._rest_until = 0.0

    def compose(self) -> ComposeResult:
        yield Static(classes="heading")
        yield self.table
        yield Static(classes="command")

    async def appear(self) -> None:
        self.look_at_last(TransactionsRun, self.browsing.reader.path)

    def on_mount(self) -> None:
        self.set_interval(LOOKS_AGAIN_SECONDS, self._read_anew)

    def _read_anew(self) -> None:
        """Read again if what was read is of the log as it was."""
        run, is_seen = self.run, self.display and self.screen.is_current
        is_old = run is not None and run.state == "finished" and self.browsing.state.log_end != self._read_end
        if is_seen and is_old and time.monotonic() >= self._rest_until:
            self.action_run()

    def action_run(self) -> None:
        self._read_end = self.browsing.state.log_end
        self.look_at(self.runs.start(TransactionsRun(TransactionsJob(self.browsing.reader.path))))

    # What is shown.

    def show_run(self) -> None:
        run, table = self.run, self.table
        if run is None:
            return
        if not run.is_running:
            self._rest_until = time.monotonic() + max(PAUSE_SECONDS, 10 * run.seconds)
        # Read again: what was known stays until all is known anew.
        is_whole = self._state is None or not self._state.progress.is_done or not run.is_running
        if run.transactions is not None and is_whole:
            self._state = run.transactions
        table.when_empty = "reading …" if run.is_running else "no transactions"
        table.show_items(() if self._state is None else self._state.rows)
        self._show_command()

    def headings(self) -> list[str]:
        state = self._state
        if state is None:
            return []
        hanging = f"! hanging {state.hanging:,}" if state.hanging else "hanging 0"
        counts = f"{hanging}  open {state.open - state.hanging:,}  aborted {state.aborted:,}"
        ended = state.aborted + state.committed
        listed = sum(row.last_offset is not None for row in state.rows)
        stable = "" if state.last_stable_offset is None else f"stable {state.last_stable_offset:,}"
        newest = f"of ended ones the newest {listed:,}" if listed < ended else ""
        return [f"{counts}  committed {state.committed:,}", stable, newest]

    def _show_command(self) -> None:
        row = self.table.current
        about = "" if row is None else about_transaction(row, self.session.times)
        self.query_one(".command", Static).update(Text(about))

    # Keys.

    def step(self, forwards: bool) -> None:
        """Go to the next transaction in the list, or the one before."""
        self.table.go(self.table.cursor + (1 if forwards else -1))

    def on_paged_view_moved(self) -> None:
        self._show_command()

    def on_paged_view_chosen(self) -> None:
        row = self.table.current
        if row is not None:
            self.post_message(messages.Jump(Offset(row.first_offset), "records"))

    async def copied(self) -> str:
        """Return the commands that abort the marked transactions; of those that have ended, the rows."""
        return "\n".join(
            row.abort_command or "\t".join(self.table.source.row(row).cells) for row in self.table.chosen_items()
        )


def _name(row: TransactionRow) -> tuple[int, int]:
    """Return what tells transactions apart, also when one has ended in between."""
    return row.producer_id, row.first_offset


def about_transaction(row: TransactionRow, times: columns.Times) -> str:
    """Return what the state of a transaction means, and the whole command."""
    since = times.short(row.last_timestamp) or "long ago"
    if row.abort_command is not None:
        what = (
            f"hanging: its producer last wrote {since}, longer ago than any transaction may take; nobody will end it."
            if row.state == "hanging"
            else f"open: its producer last wrote {since}; its coordinator will end it."
        )
        return f"{what} c copies:\n{text.printable(row.abort_command)}"
    where = f"{row.first_offset:,}..{text.number(row.last_offset)}"
    if row.state == "undecided":
        return f"undecided: no marker in this file ends it; it begins at offset {row.first_offset:,}"
    if not row.batches:
        return f"{row.state}: offsets {where}; no batches of it are here, only its marker"
    return f"{row.state}: offsets {where}, in {row.batches:,} batches; the marker is the last"
