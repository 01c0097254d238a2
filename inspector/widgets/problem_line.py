"""A line that says what is wrong, where something is; not there where nothing is.

! 00000000000000000000.log: position 4096: expected a checksum of 0x1234, found 0x4321
"""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from ..text import printable


class ProblemLine(Static):
    """`tell(problem)`; None takes it away."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: str | None = None
        self.display = False

    def tell(self, problem: str | None) -> None:
        """Show a problem as it is, control characters escaped; no markup."""
        if problem == self.problem:
            return
        self.problem = problem
        self.display = problem is not None
        self.update(Text(f"! {printable(problem)}" if problem else "", no_wrap=False))
