"""The bytes of a file, sixteen a row (eight where it is narrow), with a cursor at one of them.

      position   00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  text
    > 00000040   02 00 00 00[01 0a>76 61  6c]75 65 00|00 00 00 00  .....value......

The row of the cursor has a >, and so has its byte, unless it is the first of its field, which [] enclose. A | is where
a batch begins; a row with damage has a !. So it can be read without any colour; colours tell kinds of batches.
A source is asked for bytes in a worker's thread, a few kilobytes at a time and only where they are seen.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.desk import Desk
from inspector.keys import bindings
from inspector.rows import TONES
from inspector.text import ascii_text
from inspector.widgets.lazy_table import LazyTable

CHUNK = 4096
CHUNKS_KEPT = 16
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


class ByteSource(Protocol):
    """Where bytes come from."""

    def window(self, start: int, length: int) -> Window:
        """At most `length` bytes from `start` on. Called in the thread of the desk."""
        ...


class HexLines(ScrollView, can_focus=True):
    """See above. `show` gives it what to show; `cursor` is the byte that the keys are at; `field` what is enclosed."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "hex-lines--titles",
        "hex-lines--position",
        "hex-lines--field",
        "hex-lines--cursor",
        *(f"hex-lines--{tone}" for tone in TONES),
    }
    BINDINGS: ClassVar[list[BindingType]] = bindings("hex")

    class Moved(Message):
        """The cursor is at another byte. by_key: as the user wished."""

        def __init__(self, position: int, *, by_key: bool) -> None:
            self.position = position
            self.by_key = by_key
            super().__init__()

    class Chosen(Message):
        """Enter, or a double click."""

    class StepWanted(Message):
        """To the next or previous field or batch; what: "field" or "batch"."""

        def __init__(self, what: str, *, forwards: bool) -> None:
            self.what = what
            self.forwards = forwards
            super().__init__()

    def __init__(self) -> None:
        super().__init__()
        self.cursor = 0
        self.total = 0
        self.per_row = WIDE
        self.field: tuple[int, int] | None = None
        self.following = False
        self.when_empty = ""
        self._source: ByteSource | None = None
        self._desk: Desk | None = None
        self._chunks: OrderedDict[int, Window] = OrderedDict()
        self._wanted: list[int] = []
        self._loading = False
        # Bytes that are on their way when this rises are of something that is shown no more.
        self._generation = 0

    # What is shown.

    def show(self, source: ByteSource | None, total: int, desk: Desk, *, cursor: int = 0) -> None:
        """Bytes of another file, or of one that was cut."""
        self._source, self._desk = source, desk
        self.field = None
        self.reread()
        self.total = total
        self._resized()
        self.go(cursor, tell=True)

    def resize_to(self, total: int) -> None:
        """The file is so long now; what was there before is as it was, unless it is shorter."""
        if total < self.total:
            self.reread()
        elif total > self.total:
            self._chunks.pop(self.total // CHUNK, None)
            self._generation += 1
        if total != self.total:
            self.total = total
            self._resized()
            self._move(self.cursor)

    def reread(self) -> None:
        """The same file, of which other bytes may be there."""
        self._generation += 1
        self._chunks.clear()
        self._wanted.clear()
        self.refresh()

    def reread_unknown(self, known_end: int) -> None:
        """Of whose bytes it was not known where batches begin, and is now, up to `known_end`."""
        for number, window in list(self._chunks.items()):
            if not window.is_known and number * CHUNK < known_end:
                del self._chunks[number]
                self.refresh()

    def enclose(self, field: tuple[int, int] | None) -> None:
        """Other bytes are the field of the cursor: from, up to."""
        if field != self.field:
            self.field = field
            self.refresh()

    # Reading.

    def _chunk(self, number: int) -> Window | None:
        window = self._chunks.get(number)
        if window is not None:
            self._chunks.move_to_end(number)
            return window
        if number not in self._wanted:
            self._wanted.append(number)
        if not self._loading and self.is_attached:
            self._loading = True
            self.run_worker(self._load(), group="bytes", exit_on_error=False)
        return None

    async def _load(self) -> None:
        """What was asked for last comes first: it is what is seen."""
        try:
            while self._wanted and self._source is not None and self._desk is not None:
                generation, number = self._generation, self._wanted.pop()
                window = await self._desk(self._source.window, number * CHUNK, CHUNK)
                if generation != self._generation:
                    continue
                self._chunks[number] = window
                while len(self._chunks) > CHUNKS_KEPT:
                    self._chunks.popitem(last=False)
                del self._wanted[:-4]
                self.refresh()
        except asyncio.CancelledError:
            self._wanted.clear()
            raise
        except Exception as error:  # noqa: BLE001 - told in its place; the program goes on
            self._wanted.clear()
            self.post_message(LazyTable.Failed(error))
        finally:
            self._loading = False

    # Drawing.

    @property
    def _digits(self) -> int:
        return max(8, len(f"{self.total:x}"))

    def _width_of(self, per_row: int) -> int:
        """Gutter, position, bytes with a sign before each and one behind the last, a gap in the middle, the text."""
        return GUTTER + self._digits + GAP + 3 * per_row + per_row // WIDE + 1 + GAP + per_row

    def _resized(self) -> None:
        width = self.scrollable_content_region.width
        self.per_row = WIDE if width >= self._width_of(WIDE) else NARROW
        rows = -(-self.total // self.per_row)
        self.virtual_size = Size(self._width_of(self.per_row), rows + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        x, top = self.scroll_offset
        strip = self._titles() if y == 0 else self._row(top + y - 1)
        return strip.crop_extend(x, x + self.size.width, self.rich_style).apply_offsets(x, y)

    def _titles(self) -> Strip:
        columns = "".join(f"{_gap(i)} {i:02x}" for i in range(self.per_row))
        title = f"{'':{GUTTER}}{'position':{self._digits}}{'':{GAP}}{columns} {'':{GAP}}text"
        return Strip([Segment(title, self.get_component_rich_style("hex-lines--titles"))])

    def _row(self, row: int) -> Strip:
        muted = self.get_component_rich_style("hex-lines--muted")
        start = row * self.per_row
        if start >= self.total:
            return Strip([Segment(f"  {self.when_empty}" if row == 0 else "", muted)])
        position = f"{start:0{self._digits}x}{'':{GAP}}"
        here = ">" if start <= self.cursor < start + self.per_row else " "
        window = self._chunk(start // CHUNK)
        if window is None:
            return Strip([Segment(f"{here} {position} …", muted)])
        end = start + self.per_row
        inside = [each for each in window.stretches if each.start < end and each.end > start]
        symbol = "!" if any(each.symbol == "!" for each in inside) else " "
        data = window.data[start % CHUNK : start % CHUNK + self.per_row]
        gutter = Segment(f"{here}{symbol}{position}", self.get_component_rich_style("hex-lines--position"))
        return Strip([gutter, *self._bytes(start, data, inside)])

    def _bytes(self, start: int, data: bytes, inside: Sequence[Stretch]) -> list[Segment]:
        styles = [self._style(position, inside) for position in range(start, start + len(data))]
        begins = {each.start for each in inside}
        pairs: list[tuple[str, Style]] = []
        for i, byte in enumerate(data):
            pairs.append((self._before(start + i, i, begins), self._between(start + i, styles, i)))
            pairs.append((f"{byte:02x}", styles[i]))
        last = self._behind(start + len(data), len(data) > 0)
        blank = "".join(f"{_gap(i)}   " for i in range(len(data), self.per_row))
        pairs.append((f"{last}{blank}{'':{GAP}}", self.rich_style))
        pairs += zip(ascii_text(data), styles, strict=True)
        return _merged(pairs)

    def _before(self, position: int, column: int, begins: set[int]) -> str:
        """What stands before a byte."""
        closing = self._behind(position, column > 0)
        opening = " "
        if self.field is not None and position == self.field[0]:
            opening = "["
        elif position == self.cursor:
            opening = ">"
        elif position in begins:
            opening = "|"
        if _gap(column):
            return closing + opening
        return opening if opening in "[>" else closing if closing == "]" else opening

    def _behind(self, position: int, has_before: bool) -> str:
        """What stands behind the byte before."""
        return "]" if has_before and self.field is not None and position == self.field[1] else " "

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
        """Of what stands before a byte: inside a field as the field, else as nothing."""
        if column and self._is_in_field(position) and self._is_in_field(position - 1):
            return styles[column] if position - 1 == self.cursor else styles[column - 1]
        return self.rich_style

    # Moving.

    def go(self, position: int, *, tell: bool = False) -> None:
        """The cursor to a byte, which is brought to the middle if it was not seen; tell: also where it was there."""
        row, height = position // self.per_row, self._rows_seen()
        if not self.scroll_offset.y <= row < self.scroll_offset.y + height:
            self.scroll_to(y=max(0, row - height // 2), animate=False, immediate=True, force=True)
        self._move(position, tell=tell)

    def _move(self, position: int, *, tell: bool = False, by_key: bool = False) -> None:
        before, self.cursor = self.cursor, max(0, min(position, self.total - 1))
        self._scroll_to_cursor()
        if self.field is not None and not self._is_in_field(self.cursor):
            self.field = None
        self.refresh()
        if tell or before != self.cursor:
            self.post_message(self.Moved(self.cursor, by_key=by_key))

    def _rows_seen(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    def _scroll_to_cursor(self) -> None:
        row, top, height = self.cursor // self.per_row, self.scroll_offset.y, self._rows_seen()
        if row < top:
            self.scroll_to(y=row, animate=False, immediate=True, force=True)
        elif row >= top + height:
            self.scroll_to(y=row - height + 1, animate=False, immediate=True, force=True)

    def _by_key(self, position: int) -> None:
        if position < self.cursor:
            self.pause()
        self._move(position, by_key=True)

    def pause(self) -> None:
        """The end is followed no more."""
        if self.following:
            self.following = False
            self.post_message(LazyTable.Paused())

    def _by_rows(self, rows: int) -> None:
        """As many rows as there are; in the first and the last it stays in its column."""
        last = max(0, self.total - 1) // self.per_row
        row = max(0, min(self.cursor // self.per_row + rows, last))
        self._by_key(row * self.per_row + self.cursor % self.per_row)

    def action_hex_left(self) -> None:
        self._by_key(self.cursor - 1)

    def action_hex_right(self) -> None:
        self._by_key(self.cursor + 1)

    def action_hex_up(self) -> None:
        self._by_rows(-1)

    def action_hex_down(self) -> None:
        self._by_rows(1)

    def action_hex_page_up(self) -> None:
        self._by_rows(-self._rows_seen())

    def action_hex_page_down(self) -> None:
        self._by_rows(self._rows_seen())

    def action_hex_half_page_up(self) -> None:
        self._by_rows(-max(1, self._rows_seen() // 2))

    def action_hex_half_page_down(self) -> None:
        self._by_rows(max(1, self._rows_seen() // 2))

    def action_hex_start(self) -> None:
        self._by_key(0)

    def action_hex_end(self) -> None:
        self._move(self.total - 1, by_key=True)
        self.post_message(LazyTable.Resumed())

    def action_next_field(self) -> None:
        self.post_message(self.StepWanted("field", forwards=True))

    def action_previous_field(self) -> None:
        self.post_message(self.StepWanted("field", forwards=False))

    def action_next_batch(self) -> None:
        self.post_message(self.StepWanted("batch", forwards=True))

    def action_previous_batch(self) -> None:
        self.post_message(self.StepWanted("batch", forwards=False))

    def action_hex_open(self) -> None:
        if self.total:
            self.post_message(self.Chosen())

    # The mouse.

    def on_click(self, event: events.Click) -> None:
        position = self._position_at(self.scroll_offset.x + int(event.x), int(event.y))
        if position is None:
            return
        if position == self.cursor and event.chain == 2:
            self.action_hex_open()
        else:
            self._by_key(position)

    def _position_at(self, x: int, y: int) -> int | None:
        """The byte that is shown there, in figures or as text."""
        start = (self.scroll_offset.y + y - 1) * self.per_row
        text = self._width_of(self.per_row) - self.per_row
        left = GUTTER + self._digits + GAP
        columns = [left + 3 * i + len(_gap(WIDE // 2)) * (i >= WIDE // 2) for i in range(self.per_row)]
        column = x - text if x >= text else max((i for i, each in enumerate(columns) if each <= x), default=-1)
        position = start + column
        return position if y > 0 and 0 <= column < self.per_row and position < self.total else None

    def on_mouse_scroll_up(self) -> None:
        self.pause()

    def on_resize(self) -> None:
        self._resized()
        self._scroll_to_cursor()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()


def _gap(column: int) -> str:
    """What sets the halves of a row apart."""
    return " " if column == WIDE // 2 else ""


def _merged(pairs: Sequence[tuple[str, Style]]) -> list[Segment]:
    """Fewer segments: a terminal is told a style once for all that has it."""
    found: list[tuple[list[str], Style]] = []
    for text, style in pairs:
        if found and found[-1][1] == style:
            found[-1][0].append(text)
        else:
            found.append(([text], style))
    return [Segment("".join(texts), style) for texts, style in found]
