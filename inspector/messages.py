"""Messages from views to their screen. Views do not know each other: the screen does what a view asks for.

A view posts `Jump` to go to a place: from a finding of verify, from a match of a search, and from `:`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message
from textual.widget import Widget

from kafkalog.errors import KafkaLogError

from .model.types import Target


@dataclass
class OpenView(Message):
    """Asks for another view of the partition, by its name in `view_table.VIEWS`."""

    name: str


@dataclass
class SelectSegment(Message):
    """Asks for another segment.

    Attributes:
        base_offset: The base offset of the segment.
        view: The view to show then; None: the current one.
    """

    base_offset: int
    view: str | None = None


@dataclass
class Jump(Message):
    """Asks for an offset, a time or a byte in any segment.

    Attributes:
        target: The place to go to.
        view: The view to show then; None: the current one.
    """

    target: Target
    view: str | None = None


@dataclass
class FlowOn(Message):
    """Asks for the first record of the next segment, or for the last one of the segment before."""

    forwards: bool


@dataclass
class OpenPartition(Message):
    """Asks for the screen of a partition.

    Attributes:
        name: The name of its row.
        jump: The place to go to then; None: none.
    """

    name: str
    jump: Jump | None = None


class ClosePartition(Message):
    """Asks for the list of partitions."""


@dataclass
class Ask(Message):
    """Asks the user for a line.

    Attributes:
        prompt: Returns the widget to type in, which is given whom to call in the end.
        submitted: Called with the line; None: cancelled.
    """

    prompt: Callable[[Callable[[str | None], None]], Widget]
    submitted: Callable[[str | None], None]


@dataclass
class Told(Message):
    """Reports a problem for the line of problems; None clears the line."""

    problem: str | None

    @classmethod
    def of(cls, error: Exception) -> Told:
        """Report an error as one line."""
        is_expected = isinstance(error, (KafkaLogError, OSError))
        return cls(str(error) if is_expected else f"internal error: {type(error).__name__}: {error}")
