"""A line to type in, below everything: `:` asks where to go, `f` what to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static


class Prompt(Horizontal):
    """Calls `submitted` with what was typed, then goes; escape: with None. changed: after every key."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", key_display="esc")]

    def __init__(
        self,
        label: str,
        submitted: Callable[[str | None], None],
        *,
        changed: Callable[[str], None] | None = None,
        value: str = "",
    ) -> None:
        super().__init__()
        self._label = label
        self._submitted = submitted
        self._changed = changed
        self._value = value

    def compose(self) -> ComposeResult:
        label = Static(Text(self._label))
        label.styles.width = len(self._label)
        yield label
        # Without its own bindings of the keys that the keymap has, and the value is never markup.
        yield Input(self._value, compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._changed is not None:
            self._changed(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._end(event.value)

    def action_cancel(self) -> None:
        self._end(None)

    def _end(self, value: str | None) -> None:
        self.remove()
        self._submitted(value)
