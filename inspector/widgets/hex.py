"""The bytes of a file, sixteen a row (eight where it is narrow), with a cursor at one of them.

      position   00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  text
    > 00000040   02 00 00 00[01 0a>76 61  6c]75 65 00|00 00 00 00  .....value......

The row of the cursor has a >, and so has its byte, unless it is the first of its field, which [] enclose. A | is where
a batch begins; a row with damage has a !. So it can be read without any colour; colours tell kinds of batches.
Bytes are asked for in a worker's thread, a few kilobytes at a time and only where they are seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from ..desk import Desk
from ..keys import bindings
from ..tables import TONES
from ..text import ascii_text
from .paged import PagedView

CHUNK = 4096
WIDE, NARROW = 16, 8
# The cursor's mark, damage's, a blank behind the position.
GUTTER, GAP = 2, 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes [start, end) that belong together: a batch. tone: one of `TONES`; symbol: says the same without colour."""

    start: int
    end: int
    tone: str = "plain"
    symbol: str = " "


@dataclass(frozen=True, slots=True)
class Window:
    """Bytes of the file, and the stretches in them. is_known: no byte will belong to another stretch later."""

    data: bytes
    stretches: Sequence[Stretch] = ()
    is_known: bool = True


# Returns at most so many bytes from a byte on. Called in the thread of the desk.
ReadBytes: TypeAlias = Callable[[int, int], Window]


class HexLines(PagedView[Window]):
    """The bytes of a file.

    Attributes:
        cursor: The byte that the keys are at.
        field: The bytes that are enclosed: from, up to; None: none are.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "hex-lines--titles",
        "hex-lines--position",
        "hex-lines--field",
        "hex-lines--cursor",
        *(f"hex-lines--{tone}" for tone in TONES),
    }
    BINDINGS: ClassVar[list[BindingType]] = bindings("hex")

    @dataclass
    class StepWanted(Message):
        """Message: the user wants the next or the previous field or batch; `what` is "field" or "batch"."""

        what: str
        forwards: bool

    def __init__(self) -> None:
        super().__init__(CHUNK)
        self.per_row = WIDE
        self.field: tuple[int, int] | None = None

    # What is shown.

    def show(self, read: ReadBytes | None, count: int, desk: Desk, *, cursor: int = 0) -> None:
        """Show the bytes of another file, or of one that was cut."""
        self._show_pieces(read, desk)
        self.field = None
        self.count = count
        self._resized()
        self.go(cursor, tell=True)

    def resize_to(self, count: int) -> None:
        """Take in the new size of the file; what was there before is as it was, unless the file is shorter."""
        if count == self.count:
            return
        self._forget(self.count if count > self.count else 0)
        self.count = count
        self._resized()
        self._move(self.cursor)

    def reread_unknown(self, known_end: int) -> None:
        """Read the bytes again up to `known_end` of which it was not known where batches begin."""
        for number, window in list(self._pieces.items()):
            if not window.is_known and number * CHUNK < known_end:
                del self._pieces[number]
                self.refresh()

    def enclose(self, field: tuple[int, int] | None) -> None:
        """Enclose the bytes of another field: from, up to."""
        if field != self.field:
            self.field = field
            self.refresh()

    # Drawing.

    @property
    def _digits(self) -> int:
        return max(8, len(f"{self.count:x}"))

    def _width_of(self, per_row: int) -> int:
        """Return the width of gutter, position, bytes with a sign around each, the gap in the middle, and text."""
        return GUTTER + self._digits + GAP + 3 * per_row + per_row // WIDE + 1 + GAP + per_row

    def _resized(self) -> None:
        width = self.scrollable_content_region.width
        self.per_row = WIDE if width >= self._width_of(WIDE) else NARROW
        rows = -(-self.count // self.per_row)
        self.virtual_size = Size(self._width_of(self.per_row), rows + 1)
        self.refresh()

    def _titles(self) -> Strip:
        columns = "".join(f"{_gap(i)} {i:02x}" for i in range(self.per_row))
        title = f"{'':{GUTTER}}{'position':{self._digits}}{'':{GAP}}{columns} {'':{GAP}}text"
        return Strip([Segment(title, self.get_component_rich_style("hex-lines--titles"))])

    def _line(self, number: int) -> Strip:
        muted = self.get_component_rich_style("hex-lines--muted")
        start = number * self.per_row
        if start >= self.count:
            return Strip([Segment(f"  {self.when_empty}" if number == 0 else "", muted)])
        position = f"{start:0{self._digits}x}{'':{GAP}}"
        here = ">" if start <= self.cursor < start + self.per_row else " "
        window = self._piece_with(start)
        if window is None:
            return Strip([Segment(f"{here} {position} …", muted)])
        end = start + self.per_row
        inside = [each for each in window.stretches if each.start < end and each.end > start]
        symbol = "!" if any(each.symbol == "!" for each in inside) else " "
        data = window.data[start % CHUNK : start % CHUNK + self.per_row]
        gutter = Segment(f"{here}{symbol}{position}", self.get_component_rich_style("hex-lines--position"))
        # A terminal is told a style once for all that has it.
        return Strip([gutter, *self._bytes(start, data, inside)]).simplify()

    def _bytes(self, start: int, data: bytes, inside: Sequence[Stretch]) -> Iterator[Segment]:
        styles = [self._style(position, inside) for position in range(start, start + len(data))]
        begins = {each.start for each in inside}
        for i, byte in enumerate(data):
            yield Segment(self._before(start + i, i, begins), self._between(start + i, styles, i))
            yield Segment(f"{byte:02x}", styles[i])
        last = "]" if data and self.field is not None and start + len(data) == self.field[1] else " "
        blank = "".join(f"{_gap(i)}   " for i in range(len(data), self.per_row))
        yield Segment(f"{last}{blank}{'':{GAP}}", self.rich_style)
        yield from map(Segment, ascii_text(data), styles)

    def _before(self, position: int, column: int, begins: set[int]) -> str:
        """Return what stands before a byte: the end of the byte before has a cell of its own at the gap only."""
        start, end = self.field or (None, None)
        closing = "]" if column and position == end else ""
        opening = "[" if position == start else ">" if position == self.cursor else ""
        begin = "|" if position in begins else ""
        if _gap(column):
            return (closing or " ") + (opening or begin or " ")
        return opening or closing or begin or " "

    def _style(self, position: int, inside: Sequence[Stretch]) -> Style:
        tone = next((each.tone for each in inside if each.start <= position < each.end), "muted")
        style = self.get_component_rich_style(f"hex-lines--{tone}")
        if self._is_in_field(position):
            style = style + self.get_component_rich_style("hex-lines--field", partial=True)
        if position == self.cursor and self.has_focus:
            style = style + self.get_component_rich_style("hex-lines--cursor", partial=True)
        return style

    def _is_in_field(self, position: int) -> bool:
        return self.field is not None and self.field[0] <= position < self.field[1]

    def _between(self, position: int, styles: Sequence[Style], column: int) -> Style:
        """Return the style of what stands before a byte: inside a field that of the field, else none."""
        if column and self._is_in_field(position) and self._is_in_field(position - 1):
            return styles[column] if position - 1 == self.cursor else styles[column - 1]
        return self.rich_style

    # Moving.

    def _line_of(self, cursor: int) -> int:
        return cursor // self.per_row

    def _move(self, cursor: int, *, tell: bool = False, by_user: bool = False) -> None:
        super()._move(cursor, tell=tell, by_user=by_user)
        if self.field is not None and not self._is_in_field(self.cursor):
            self.field = None

    def action_move(self, count: int) -> None:
        self._by_key(self.cursor + count)

    def action_move_lines(self, lines: int) -> None:
        """Move by as many rows as there are; in the first and the last stay in the column."""
        last = max(0, self.count - 1) // self.per_row
        row = max(0, min(self.cursor // self.per_row + lines, last))
        self._by_key(row * self.per_row + self.cursor % self.per_row)

    def action_step(self, what: str, forwards: bool) -> None:
        self.post_message(self.StepWanted(what, forwards=forwards))

    def _at(self, x: int, y: int) -> int | None:
        """Return the position of the byte that is shown at a cell of the screen; None if none is."""
        start = (self.scroll_offset.y + y - 1) * self.per_row
        text = self._width_of(self.per_row) - self.per_row
        left = GUTTER + self._digits + GAP
        columns = [left + 3 * i + len(_gap(WIDE // 2)) * (i >= WIDE // 2) for i in range(self.per_row)]
        column = x - text if x >= text else max((i for i, each in enumerate(columns) if each <= x), default=-1)
        position = start + column
        return position if y > 0 and 0 <= column < self.per_row and position < self.count else None


def _gap(column: int) -> str:
    """Return the blank that separates the halves of a row."""
    return " " if column == WIDE // 2 else ""
