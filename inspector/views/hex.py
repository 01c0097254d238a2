"""The bytes of the segment; below them (beside them, where there is room) the field that the cursor is in.

    crc = 0x1b5e3c2d
    CRC-32C of all from the attributes to the end of the batch
    batch 3: 4 bytes at 4,113..4,116; cursor at 4,114 (0x1012) of 12,345
    here as int8 94, int16 24124, int32 1580999680, int64 6790341920387735552, varint 47

Bytes need no headers: what has not been read through yet is seen at once, its fields once it has been.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.widgets import Static

from .. import messages, text
from ..browsing import Browsing
from ..columns import look
from ..model.avro import Input
from ..model.segment import SegmentReader
from ..model.types import BatchRow, Field, Place
from ..widgets.hex import HexLines, Stretch, Window
from .view import View, start

# Where fields stand beside the bytes instead of below them.
BESIDE_WIDTH = 120
MOST_COPIED_BYTES = 512 << 10
BATCHES_AT_ONCE = 32
LONGEST_NUMBER = 10
TOLD_SECONDS = 2.0


def bytes_in(segment: SegmentReader, start: int, length: int) -> Window:
    """Return bytes of the segment, and the batches in them."""
    data = segment.read_bytes(start, length)
    stretches = tuple(_stretches(segment, start, start + len(data)))
    end = stretches[-1].end if stretches else start
    return Window(data, stretches, is_known=end >= start + len(data))


def _stretches(segment: SegmentReader, start: int, end: int) -> Iterator[Stretch]:
    first = segment.batch_at(position=start)
    while first is not None:
        rows = segment.batch_rows(first, BATCHES_AT_ONCE)
        for row in rows:
            if row.position >= end:
                return
            yield Stretch(row.position, row.end, *look(row))
        first = first + len(rows) if rows else None


@dataclass(frozen=True, slots=True)
class Seen:
    """What is at a byte: its field, its batch, and the offset of the record it is of (None: of none)."""

    field: Field | None = None
    batch: BatchRow | None = None
    offset: int | None = None

    def holds(self, position: int) -> bool:
        """Return whether another byte is of the same field."""
        return self.field is not None and self.field.start <= position < self.field.end


def look_at(segment: SegmentReader, position: int) -> Seen:
    """Look up the batch and the field at a byte, in the partition's thread."""
    batch = segment.batch_over(position)
    field = None if batch is None else segment.field_at(position)
    return Seen(field, batch, None if batch is None or field is None else _record_offset(segment, batch, field))


def _record_offset(segment: SegmentReader, batch: BatchRow, field: Field) -> int | None:
    """Return the offset of the record that the field is of, if it is of one."""
    if batch.magic is not None and batch.magic < 2:
        return batch.base_offset if batch.codec == "none" else None
    number = next((int(part.removeprefix("record ")) for part in field.path if part.startswith("record ")), None)
    first = None if number is None else segment.first_record_of(batch.row)
    if number is None or first is None:
        return None
    found = segment.record_rows(first + number, 1)
    return found[0].offset if found and found[0].batch == batch.row else None


def position_of(segment: SegmentReader, place: Place) -> int:
    """Return the byte that a place is about: that of its record, if that lies in the file by itself."""
    number = None if place.offset is None else segment.record_at(place.offset)
    position = None if number is None else segment.position_of(number)
    return place.position if position is None else position


def step_from(segment: SegmentReader, position: int, what: str, forwards: bool) -> int | None:
    """Return where the next field or batch begins, or this one or the one before it; None: there is none."""
    here = span_at(segment, position, what)
    if here is None:
        return None
    start, end = here
    if forwards:
        return end if segment.batch_at(position=end) is not None else None
    if position > start or start == 0:
        return start if position > start else None
    before = span_at(segment, start - 1, what)
    return None if before is None else before[0]


def span_at(segment: SegmentReader, position: int, what: str) -> tuple[int, int] | None:
    """Return where the field or the batch that a byte is of begins and ends; None: none is known there."""
    if what == "field":
        field = segment.field_at(position)
        return None if field is None else (field.start, field.end)
    batch = segment.batch_over(position)
    return None if batch is None else (batch.position, batch.end)


class HexView(View):
    """The bytes of a segment; Enter opens the record, or the batch, that the byte is of."""

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self._lines = HexLines()
        self._version = -1
        self._base_offset: int | None = None
        self._seen = Seen()
        # The place that the cursor has gone to, or that it is at: another one is where somebody wants it.
        self._followed: Place | None = None
        # What was said last, and until when it is not said again.
        self._said = ("", 0.0)

    def compose(self) -> ComposeResult:
        yield self._lines
        yield Static(classes="field")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= BESIDE_WIDTH, "-beside")

    # What is shown.

    async def appear(self) -> None:
        browsing, lines, segment = self.browsing, self._lines, self.browsing.segment
        lines.following = browsing.following
        if segment is None:
            lines.when_empty = "no segment"
            lines.show(None, 0, browsing.desk)
        elif self._version != browsing.version:
            self._version = browsing.version
            self._seen = Seen()
            cursor = lines.cursor if browsing.base_offset == self._base_offset else 0
            self._base_offset = browsing.base_offset
            lines.when_empty = "no bytes"
            lines.show(partial(bytes_in, segment), self._total(segment), browsing.desk, cursor=cursor)
        await self._go_where_wanted()
        start(self, "field", self._look, lines.cursor)

    def _total(self, segment: SegmentReader) -> int:
        row = self.browsing.row
        return segment.size if row is None else row.bytes

    async def _go_where_wanted(self) -> None:
        browsing, lines, segment = self.browsing, self._lines, self.browsing.segment
        place = browsing.place_here
        if browsing.following:
            lines.go(lines.count - 1)
        elif segment is not None and place is not None and place is not self._followed:
            position = place.position
            if not browsing.is_waiting:
                position = await browsing.ask(position_of, segment, place)
                self._followed = place
            lines.go(position)

    async def refreshed(self) -> None:
        segment, lines = self.browsing.segment, self._lines
        if segment is None:
            return
        lines.following = self.browsing.following
        lines.resize_to(self._total(segment))
        if self.browsing.following:
            lines.go(lines.count - 1)

    async def indexed(self) -> None:
        await self.refreshed()
        progress = self.browsing.progress
        self._lines.reread_unknown(0 if progress is None else progress.done_bytes)
        if self._seen.field is None:
            start(self, "field", self._look, self._lines.cursor)

    # The field under the cursor.

    def on_paged_view_moved(self, message: HexLines.Moved) -> None:
        if message.by_user:
            self._followed = self.browsing.place
        start(self, "field", self._look, message.cursor)

    async def _look(self, position: int) -> None:
        browsing, segment = self.browsing, self.browsing.segment
        if segment is None:
            self._tell("no segment")
            return
        if not self._seen.holds(position):
            problem = None if self._seen.batch is None else self._seen.batch.problem
            self._seen = await browsing.ask(look_at, segment, position)
            self._tell_problem(segment, problem)
        field = self._seen.field
        self._lines.enclose(None if field is None else (field.start, field.end))
        data = await browsing.ask(segment.read_bytes, position, LONGEST_NUMBER)
        self._show(position, data)
        self._hand_back()

    def _tell_problem(self, segment: SegmentReader, before: str | None) -> None:
        """Report the problem of the batch, if there is one."""
        batch = self._seen.batch
        problem = segment.problem if batch is None else batch.problem
        if problem != before:
            self.post_message(messages.Told(problem))

    def _hand_back(self) -> None:
        """Tell the other views the batch and the record that the cursor is in."""
        browsing, batch = self.browsing, self._seen.batch
        wanted_elsewhere = browsing.place is not self._followed and browsing.place is not None
        if batch is None or browsing.base_offset is None or not self.display or browsing.is_waiting or wanted_elsewhere:
            return
        self._followed = browsing.place = Place(browsing.base_offset, batch.position, self._seen.offset)

    def _show(self, position: int, data: bytes) -> None:
        seen, total = self._seen, self._lines.count
        cursor = f"cursor at {position:,} ({position:#x}) of {total:,}"
        if not total:
            self._tell("no bytes")
        elif seen.field is None:
            self._tell("not read so far" if not self.browsing.is_indexed else "of no batch", cursor, _numbers(data))
        else:
            room = 2 * max(20, self.query_one(".field").content_size.width)
            self._tell(*_about(seen.field, room), f"{_where(seen)}; {cursor}", _numbers(data))

    def _tell(self, *lines: str) -> None:
        told = Text("\n".join(line for line in lines if line))
        told.stylize("bold", 0, len(lines[0]))
        self.query_one(".field", Static).update(told)

    # Going to fields and batches.

    async def on_hex_lines_step_wanted(self, message: HexLines.StepWanted) -> None:
        """Go one step; the next one waits, also where keys are faster than the disk."""
        lines, segment = self._lines, self.browsing.segment
        if segment is None:
            return
        what, forwards = message.what, message.forwards
        position = await self.browsing.ask(step_from, segment, lines.cursor, what, forwards)
        if position is None:
            self._say_none(f"no {what} {'after' if forwards else 'before'} this in the segment")
            return
        self._followed = self.browsing.place
        if not forwards:
            lines.pause()
        lines.go(position)

    def _say_none(self, what: str) -> None:
        """Report that there is none, once, however long the key is held."""
        now = time.monotonic()
        said, quiet_until = self._said
        if what != said or now > quiet_until:
            self._said = (what, now + TOLD_SECONDS)
            self.notify(what, timeout=TOLD_SECONDS)

    def on_paged_view_chosen(self) -> None:
        self.post_message(messages.OpenView("batches" if self._seen.offset is None else "record"))

    async def copied(self) -> str:
        """Return the bytes of the field, in figures."""
        field, segment = self._seen.field, self.browsing.segment
        if segment is None or not self._lines.count:
            return ""
        start_at, length = (self._lines.cursor, 1) if field is None else (field.start, field.length)
        data = await self.browsing.ask(segment.read_bytes, start_at, min(length, MOST_COPIED_BYTES))
        return data.hex(" ")


def _about(field: Field, room: int) -> tuple[str, str]:
    """Return name, value and meaning of a field, each cut to `room` characters."""
    value = text.printable(field.value)
    named = f"{field.name} = {value}" if value else field.name
    return text.printable(named, room), text.printable(field.explanation, room)


def _where(seen: Seen) -> str:
    assert seen.field is not None
    field = seen.field
    of = " > ".join(field.path)
    offset = "" if seen.offset is None else f" (offset {seen.offset:,})"
    if field.length == 1:
        return f"{of}{offset}: 1 byte at {field.start:,}"
    return f"{of}{offset}: {field.length:,} bytes at {field.start:,}..{field.end - 1:,}"


def _numbers(data: bytes) -> str:
    """Return what the bytes from the cursor on are as numbers, as the format writes them."""
    found = [
        f"int{8 * length} {int.from_bytes(data[:length], 'big', signed=True)}"
        for length in (1, 2, 4, 8)
        if len(data) >= length
    ]
    with suppress(ValueError):
        found.append(f"varint {Input(data).long()}")
    return "here as " + ", ".join(found) if found else ""
