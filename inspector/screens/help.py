"""All keys, out of the table of keys, as the config file has them."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from ..keys import help_lines

SYMBOLS = """Symbols beside rows and in the map
  t  transactional   c  control   a  aborted   !  damaged   ~  offsets missing before
  <  below the log start   >  cursor   *  marked
  in the map 1-9, + (more) and - (none): the batches that begin in a cell

Read-only: nothing here writes to, creates in, or locks what is looked at.
"""


class HelpScreen(ModalScreen[None]):
    """Escape, q or ? closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "Close", id="help_close"),
        Binding("j", "app.simulate_key('down')", show=False),
        Binding("k", "app.simulate_key('up')", show=False),
        # What is modal hides the keys of the application.
        Binding("ctrl+q", "app.quit", show=False, id="quit"),
    ]

    def __init__(self, keymap: dict[str, str], here: Collection[str]) -> None:
        super().__init__()
        self._keymap = keymap
        self._here = here

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static("kafkalog inspect: keys", classes="title")
            for title, keys, what in help_lines(self._keymap, self._here):
                if title:
                    yield Static(f"\n{title}", classes="title", markup=False)
                else:
                    yield Horizontal(Static(keys, classes="keys", markup=False), Static(what, markup=False))
            yield Static("\n" + SYMBOLS, markup=False)
