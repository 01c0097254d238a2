"""Messages from views to their screen. Views do not know each other: the screen does what a view asks for.

A view posts `Jump` to go to a place: from a finding of verify, from a match of a search, and from `:`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from .model.types import Target


class OpenView(Message):
    """Asks for another view of the partition, by its name in `view_table.VIEWS`."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()


class SelectSegment(Message):
    """Asks for another segment.

    Attributes:
        base_offset: The base offset of the segment.
        view: The view to show then; None: the current one.
    """

    def __init__(self, base_offset: int, view: str | None = None) -> None:
        self.base_offset = base_offset
        self.view = view
        super().__init__()


class Jump(Message):
    """Asks for an offset, a time or a byte in any segment.

    Attributes:
        target: The place to go to.
        view: The view to show then; None: the current one.
    """

    def __init__(self, target: Target, view: str | None = None) -> None:
        self.target = target
        self.view = view
        super().__init__()


class FlowOn(Message):
    """Asks for the first record of the next segment, or for the last one of the segment before."""

    def __init__(self, forwards: bool) -> None:
        self.forwards = forwards
        super().__init__()


class OpenPartition(Message):
    """Asks for the screen of a partition.

    Attributes:
        name: The name of its row.
        jump: The place to go to then; None: none.
    """

    def __init__(self, name: str, jump: Jump | None = None) -> None:
        self.name = name
        self.jump = jump
        super().__init__()


class ClosePartition(Message):
    """Asks for the list of partitions."""


class VerifyAll(Message):
    """Asks for the check of all partitions."""


class Ask(Message):
    """Asks the user for a line.

    Attributes:
        label: What stands before it.
        submitted: Called with the line; None: cancelled.
        value: What is typed in it already.
        replaced: Whether the first key takes the place of the value.
    """

    def __init__(
        self, label: str, submitted: Callable[[str | None], None], value: str = "", *, replaced: bool = False
    ) -> None:
        self.label = label
        self.submitted = submitted
        self.value = value
        self.replaced = replaced
        super().__init__()


class Told(Message):
    """Reports a problem for the line of problems; None clears the line."""

    def __init__(self, problem: str | None) -> None:
        self.problem = problem
        super().__init__()
