"""What to search for: a line to type in, and above it how it is taken; each of these has a key.

^r text  ^t case matters  ^o in key value headers  ^g from the start
search: order-17
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Static

from ..jobs.jobs import FIELDS, STARTS, Wanted
from ..keys import bindings
from .prompt import Prompt

CHOICES: dict[str, tuple[Any, ...]] = {
    "regex": (False, True), "case": (True, False), "fields": FIELDS, "start": STARTS,
}  # fmt: skip
STARTS_NAMED = {"start": "from the start", "here": "from here on", "back": "from here back"}


class SearchPrompt(Vertical):
    """Calls `submitted` with what is wanted, then goes; escape: with None."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("search_prompt")

    def __init__(self, wanted: Wanted, history: list[str], submitted: Callable[[Wanted | None], None]) -> None:
        super().__init__()
        self._wanted = wanted
        self._history = history
        self._submitted = submitted

    def compose(self) -> ComposeResult:
        yield Static()
        yield Prompt(
            "search: ",
            self._ended,
            value=self._wanted.text,
            history=self._history,
            accepts=self._accepts,
            replaced=True,
        )

    def on_mount(self) -> None:
        self._show()

    def _show(self, mistake: str | None = None) -> None:
        wanted = self._wanted
        keys = [active.binding for active in self.screen.active_bindings.values()]
        key = {binding.id: self.app.get_key_display(binding) for binding in keys}
        parts = [
            f"{key.get('search_regex', '')} {'regex' if wanted.regex else 'text'}",
            f"{key.get('search_case', '')} {'case matters' if wanted.case else 'any case'}",
            f"{key.get('search_fields', '')} in {wanted.fields_named}",
            f"{key.get('search_start', '')} {STARTS_NAMED[wanted.start]}",
        ]
        line = "  ".join(parts) if mistake is None else f"! {mistake}"
        self.query_one(Static).update(Text(line, no_wrap=True, overflow="ellipsis"))

    def _accepts(self, typed: str) -> bool:
        """Return whether the text may go; report what is no regular expression."""
        try:
            replace(self._wanted, text=typed).pattern()
        except ValueError as error:
            self._show(str(error))
            return False
        return True

    def _ended(self, typed: str | None) -> None:
        self.remove()
        if typed == "":
            self.app.notify("nothing has been searched for", timeout=2)
        self._submitted(replace(self._wanted, text=typed) if typed else None)

    def action_change(self, name: str) -> None:
        """Take the next choice of one of the fields of what is wanted."""
        choices = CHOICES[name]
        following: Any = choices[(choices.index(getattr(self._wanted, name)) + 1) % len(choices)]
        self._wanted = replace(self._wanted, **{name: following})
        self._show()
