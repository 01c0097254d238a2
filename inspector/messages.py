"""What views tell the screen around them. They know nothing of each other: what one wants, the screen does.

A view that is on its way to a place posts `Jump`; findings of verify, matches of a search and `:` all end there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from inspector.reading.answers import Target


class OpenView(Message):
    """Another view of the partition, by its name in `screens.VIEWS`."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()


class SelectSegment(Message):
    """Another segment, by its base offset; view: then shown (None: the one that is)."""

    def __init__(self, base_offset: int, view: str | None = None) -> None:
        self.base_offset = base_offset
        self.view = view
        super().__init__()


class Jump(Message):
    """To an offset, a time or a byte, in whatever segment it is; view: then shown (None: the one that is)."""

    def __init__(self, target: Target, view: str | None = None) -> None:
        self.target = target
        self.view = view
        super().__init__()


class Told(Message):
    """Something is wrong, to be said in the line for it; None: no longer."""

    def __init__(self, problem: str | None) -> None:
        self.problem = problem
        super().__init__()
