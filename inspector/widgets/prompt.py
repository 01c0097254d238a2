"""A line to type in, below everything: `:` asks where to go, `f` what to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

MOST_REMEMBERED = 100


class Prompt(Horizontal):
    """Calls `submitted` with what was typed, then goes; escape: with None. changed: after every key.

    history: what was typed before, the last at the end; up and down bring it back. accepts: whether it may go.
    replaced: the first key takes the place of the value; one that moves keeps it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", key_display="esc"),
        Binding("up", "earlier", "Earlier", show=False),
        Binding("down", "later", "Later", show=False),
    ]

    def __init__(
        self,
        label: str,
        submitted: Callable[[str | None], None],
        *,
        changed: Callable[[str], None] | None = None,
        value: str = "",
        history: list[str] | None = None,
        accepts: Callable[[str], bool] | None = None,
        replaced: bool = False,
    ) -> None:
        super().__init__()
        self._replaced = replaced
        self._history = history
        self._accepts = accepts
        # Behind the last there is what was typed just now.
        self._at = len(history or ())
        self._typed = value
        self._label = label
        self._submitted = submitted
        self._changed = changed
        # Without its own bindings of the keys that the keymap has, and the value is never markup.
        self._line = Input(value, compact=True, select_on_focus=False)

    def compose(self) -> ComposeResult:
        label = Static(Text(self._label))
        label.styles.width = len(self._label)
        yield label
        yield self._line

    def on_mount(self) -> None:
        # At once: `focus()` would wait its turn, behind keys that are for this line.
        self.screen.set_focus(self._line)
        if self._replaced:
            self._line.select_all()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._changed is not None:
            self._changed(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self._accepts is not None and not self._accepts(event.value):
            return
        if self._history is not None and event.value:
            _remember(self._history, event.value)
        self._end(event.value)

    def action_earlier(self) -> None:
        self._recall(self._at - 1)

    def action_later(self) -> None:
        self._recall(self._at + 1)

    def _recall(self, place: int) -> None:
        history, line = self._history or [], self._line
        if not 0 <= place <= len(history):
            return
        if self._at == len(history):
            self._typed = line.value
        self._at = place
        line.value = history[place] if place < len(history) else self._typed
        line.cursor_position = len(line.value)

    def action_cancel(self) -> None:
        self._end(None)

    def _end(self, value: str | None) -> None:
        self.remove()
        self._submitted(value)


def _remember(history: list[str], typed: str) -> None:
    """Put the text at the end of the history, and nowhere else."""
    others = [each for each in history if each != typed]
    history[:] = [*others[1 - MOST_REMEMBERED :], typed]
