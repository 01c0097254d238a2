"""A line that says what is wrong, where something is; not there where nothing is.

! 00000000000000000000.log: position 4096: expected a checksum of 0x1234, found 0x4321
"""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from textual.widgets import Static

from ..text import printable


class ProblemLine(Static):
    """Shows `problem`; None takes the line away."""

    problem: reactive[str | None] = reactive(None)

    def watch_problem(self, problem: str | None) -> None:
        """Show a problem as it is, control characters escaped; no markup."""
        self.display = problem is not None
        self.update(Text(f"! {printable(problem)}" if problem else "", no_wrap=False))
