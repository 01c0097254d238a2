"""Names and values: one after another where it is narrow, a line each where there is room.

batch 0  position 0  size 5,175 B  offsets 384..433         batch     0
records 50  format v2                                       position  0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rich.cells import cell_len
from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

Pairs: TypeAlias = Sequence[tuple[str, str]]


class Facts(Widget):
    """Names and values, which are safe to show."""

    # What is shown, and whether each has a line.
    _shown: reactive[tuple[Pairs, bool]] = reactive(((), False), layout=True)

    def show(self, pairs: Pairs, *, listed: bool = False) -> None:
        """Show other facts; those without a value are left out."""
        self._shown = [pair for pair in pairs if pair[1]], listed

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return the number of lines that the facts take."""
        return max(1, len(self._lines(width)))

    def _lines(self, width: int) -> list[list[tuple[str, str]]]:
        """Return the pairs line by line; a pair is not torn apart, unless it is too long for any line."""
        lines: list[list[tuple[str, str]]] = []
        pairs, listed = self._shown
        used = width
        for name, value in pairs:
            length = cell_len(name) + 1 + cell_len(value)
            if listed or used + 2 + length > width or not lines:
                lines.append([])
                used = -2
            lines[-1].append((name, value))
            used += 2 + length
        return lines

    def render(self) -> Text:
        """Return the lines."""
        pairs, listed = self._shown
        indent = max((cell_len(name) for name, _ in pairs), default=0) if listed else 0
        text = Text(no_wrap=True, overflow="ellipsis")
        for i, line in enumerate(self._lines(self.size.width)):
            text.append("\n" if i else "")
            for j, (name, value) in enumerate(line):
                text.append("  " if j else "")
                text.append(name.ljust(indent) + " ", "dim")
                text.append(value, "bold")
        return text
