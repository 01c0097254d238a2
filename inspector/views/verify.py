"""The check of a partition, or of a whole data directory, while the screen goes on; Enter goes to the byte.

3 errors, 1 warning, 0 good to know   50% of 1.0 GiB, 4 s  esc ends it
    SEVERITY  CODE          POSITION  TEXT                       OFFSET  FILE
  ! error     crc-mismatch    40,960  checksum does not match     1,042  00000000000000000000.log
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Static

from kafkalog.fsck import Finding, Severity
from kafkalog.storage.file_names import segment_base_offset

from .. import columns, messages, text
from ..browsing import Browsing
from ..jobs.jobs import VerifyJob
from ..jobs.runs import LISTED, VerifyRun
from ..keys import bindings
from ..model.types import Byte, Offset, Target
from ..session import Session
from ..widgets.item_table import ItemTable
from .run_view import ShowsRun
from .view import View


class VerifyPanel(ShowsRun[VerifyRun]):
    """A check and its findings. path: what is checked; wide: whether names of files include a directory."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("verify")

    @dataclass
    class Chosen(Message):
        """Enter, at a finding. target: its place; None: it has none."""

        finding: Finding
        target: Target | None

    def __init__(self, session: Session, path: Path, *, wide: bool = False) -> None:
        super().__init__()
        self.session = session
        self._path = path
        self._deep = False
        self.table: ItemTable[Finding] = ItemTable(columns.findings(path, wide=wide), columns.look_of_finding)

    def compose(self) -> ComposeResult:
        yield Static(classes="heading")
        yield self.table
        yield Static(classes="detail")

    def appear(self) -> None:
        """Show the check, perhaps again."""
        run = self.runs.of(VerifyRun, self._path)
        if run is not None and run is not self.run:
            self._deep = run.job.deep
        self.look_at(run)

    def show_run(self) -> None:
        run, table = self.run, self.table
        table.when_empty = self._when_empty()
        table.sortable = run is not None and not run.is_running
        table.show_items(() if run is None else run.findings)
        self._show_detail()

    def _when_empty(self) -> str:
        if self.run is None:
            return "not checked so far; r begins"
        words = {"running": "nothing found so far", "finished": "sound: nothing found"}
        return words.get(self.run.state, "nothing found before it ended")

    def headings(self) -> list[str]:
        deep = "[deep]" if self._deep else "[not deep]"
        if self.run is None:
            return [f"check {deep}"]
        counts = self.run.counts
        found = [(Severity.ERROR, "! errors"), (Severity.WARNING, "? warnings"), (Severity.INFO, "i infos")]
        listed = f"the first {LISTED:,} listed" if sum(counts.values()) > LISTED else ""
        again = "" if self.run.job.deep == self._deep else "(r: again)"
        return [deep + again, ", ".join(f"{word} {counts[severity]:,}" for severity, word in found), listed]

    def _show_detail(self) -> None:
        told, finding = "", self.table.current
        if finding is not None:
            # A long path would leave no room for what is wrong.
            told = text.printable(str(replace(finding, path=columns.relative(finding.path, self._path))))
        self.query_one(".detail", Static).update(Text(told))

    # Keys.

    def action_run(self) -> None:
        self.table.show_sorted(None)
        self.look_at(self.runs.start(VerifyRun(VerifyJob(self._path, self._deep))))

    def action_deep(self) -> None:
        self._deep = not self._deep
        self.show_heading()

    def on_paged_view_moved(self) -> None:
        self._show_detail()

    def on_paged_view_chosen(self) -> None:
        if (chosen := self.table.current) is not None:
            self.post_message(self.Chosen(chosen, target_of(chosen, self._path)))

    def copied(self) -> str:
        """Return the marked findings, or the one under the cursor, as `kafkalog verify` prints them."""
        return "\n".join(map(str, self.table.chosen_items()))


class VerifyView(View):
    """The check of a partition."""

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self._panel = VerifyPanel(self.session, browsing.reader.path)

    def compose(self) -> ComposeResult:
        yield self._panel

    async def appear(self) -> None:
        self._panel.appear()

    def back(self) -> bool:
        return self._panel.back()

    async def copied(self) -> str:
        return self._panel.copied()

    def on_verify_panel_chosen(self, message: VerifyPanel.Chosen) -> None:
        if message.target is None:
            self.notify("this is of no byte in particular", timeout=2)
        else:
            self.post_message(messages.Jump(message.target, "hex"))


def target_of(finding: Finding, checked: Path) -> Target | None:
    """Return the first byte of a finding in a segment, or else its first offset. checked: what was checked."""
    path = Path(finding.path)
    base_offset = segment_base_offset(path.name)
    # A file by itself may have any name.
    if finding.position is not None and (base_offset is not None or path == checked):
        return Byte(finding.position, base_offset)
    return None if finding.first_offset is None else Offset(finding.first_offset)
