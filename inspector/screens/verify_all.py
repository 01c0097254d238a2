"""The check of all partitions of a data directory; Enter opens the partition of a finding, at the byte."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult

from .. import messages, text
from ..session import Session
from ..views.verify import VerifyPanel
from ..widgets.lines import TopLine
from .base import InspectorScreen


class VerifyScreen(InspectorScreen):
    """The check of a whole data directory."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._panel = VerifyPanel(session, session.model.path, wide=True)

    def compose_middle(self) -> ComposeResult:
        yield self._panel

    def on_mount(self) -> None:
        self._panel.appear()
        self.times_changed()

    def on_screen_resume(self) -> None:
        self._panel.table.focus()

    def times_changed(self) -> None:
        path = text.printable(str(self.session.model.path))
        self.query_one(TopLine).shown = path, "verify all partitions", self.session.zone_name

    def action_back(self) -> None:
        if not self._panel.back():
            self.post_message(messages.ClosePartition())

    def on_verify_panel_chosen(self, message: VerifyPanel.Chosen) -> None:
        place = Path(message.finding.path)
        path = self.session.model.path
        if path not in place.parents:
            self.notify("this is of no partition", timeout=2)
            return
        jump = None if message.target is None else messages.Jump(message.target, "hex")
        self.post_message(messages.OpenPartition(place.relative_to(path).parts[0], jump))
