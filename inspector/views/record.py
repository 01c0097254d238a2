"""One record: value, key and headers, each seen as text, JSON, hex or base64; its batch and its place in the file.

offset 1,042  time 2026-01-31 10:00:00.000  batch 17 at 40,960  value at 41,022..41,033
[value 12 B]  key 5 B  headers 2                                         JSON, pretty; raw: v
"""

from __future__ import annotations

import re
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from .. import messages, text
from ..browsing import Browsing
from ..columns import known
from ..exporting import write_new
from ..highlighting import Lines
from ..keys import bindings
from ..model.decoders import Decoded, Formats
from ..model.types import Place, RecordDetail
from ..tables import Column
from ..widgets.facts import Facts, Pairs
from ..widgets.lazy_table import GUTTER, NARROWEST, LazyTable
from ..widgets.prompt import Prompt
from .view import View, start

PARTS = ("value", "key", "headers")
MOST_COPIED = 1 << 20


class RecordView(View):
    """One record."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("record")

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self._record: RecordDetail | None = None
        # Where keys have gone, which may not have been read so far.
        self._number: int | None = None
        self._part = "value"
        self._seen_as: text.View = "auto"
        self._source = Lines([], None, 1)
        self._laid_out_width = 0
        self._note = ""
        self._table = LazyTable([Column("", NARROWEST, share=1)], titles=False)

    def compose(self) -> ComposeResult:
        yield Facts()
        yield Static(classes="heading")
        yield self._table

    async def appear(self) -> None:
        self._number = await self.browsing.record_at_place()
        await self._read_record()
        await self._show()

    async def indexed(self) -> None:
        if self._record is None:
            await self.appear()

    async def _read_record(self) -> None:
        """Read the record, and choose the part in which a search has found something."""
        segment, number, run = self.browsing.segment, self._number, self.browsing.search
        record = None
        if segment is not None and number is not None:
            record = await self.browsing.ask(segment.record, number)
        self._record = record
        match = None if run is None or record is None else run.match_at(record.offset)
        if match is not None:
            self._part = match.field if match.field in PARTS else "headers"

    async def _show(self) -> None:
        """Show the chosen part in the chosen view."""
        record = self._record
        if record is None:
            self.query_one(Facts).show([("no record", "here")])
        else:
            self.query_one(Facts).show(self._facts(record))
            self.post_message(messages.Told(record.problem))
        await self._lay_out(record)
        self._show_heading()

    async def _lay_out(self, record: RecordDetail | None) -> None:
        """Break the chosen part into lines that are as wide as the table."""
        self._note, self._source = "", Lines([], None, 1)
        self._laid_out_width = self._table.size.width
        if record is not None:
            width = max(NARROWEST, self._laid_out_width - GUTTER - self._table.styles.scrollbar_size_vertical)
            # What takes as long as the value is long is done where no key waits for it.
            what = record, self.browsing.formats, self._part, self._seen_as
            laid_out = partial(_laid_out, *what, self._marked(), width)
            self._note, self._source = await self.browsing.ask(laid_out)
        self._table.show(self._source.rows, len(self._source))
        if self._source.first is not None:
            self._table.go(self._source.first)

    def on_resize(self) -> None:
        if self._record is not None and self._table.size.width != self._laid_out_width:
            start(self, "show", self._lay_out, self._record)

    def _marked(self) -> re.Pattern[bytes] | None:
        """Return what stands out in the part that is shown."""
        run, record = self.browsing.search, self._record
        if run is None or record is None or self._part not in run.job.wanted.fields:
            return None
        return run.marked_at(record.offset)

    def _facts(self, record: RecordDetail) -> Pairs:
        batch = record.batch
        found = [
            ("offset", f"{record.offset:,}"),
            ("time", self.session.times.full(record.timestamp)),
            ("type", record.timestamp_type or ""),
            ("batch", f"{batch.row:,} at {batch.position:,}"),
            ("kind", record.control or batch.kind),
            ("codec", batch.codec or ""),
            ("producer", known(batch.producer_id)),
            ("sequence", known(record.sequence)),
        ]
        for name, span in record.spans.items():
            where = " of the decompressed batch" if span.compressed else ""
            found.append((f"{name} at", f"{span.start:,}+{span.length:,}{where}"))
        return found

    def _show_heading(self) -> None:
        record = self._record
        line = Text(no_wrap=True, overflow="ellipsis")
        sizes = {} if record is None else {part: _part_size(record, part) for part in PARTS}
        for part, size in sizes.items():
            line.append(f"[{part} {size}]" if part == self._part else f" {part} {size} ")
            line.append(" ")
        if self._note:
            line.append(f"  {self._seen_as}: {self._note}" if self._note != self._seen_as else f"  {self._note}")
        self.query_one(".heading", Static).update(line)

    # Keys.

    def action_next_view(self) -> None:
        views = text.VIEWS
        self._seen_as = views[(views.index(self._seen_as) + 1) % len(views)]
        start(self, "show", self._catch_up)

    def action_turn(self, step: int) -> None:
        self._part = PARTS[(PARTS.index(self._part) + step) % len(PARTS)]
        start(self, "show", self._catch_up)

    def action_step(self, step: int) -> None:
        if self._number is None or not 0 <= self._number + step < self.browsing.records:
            self.post_message(messages.FlowOn(step > 0))
            return
        self._number += step
        start(self, "show", self._catch_up)

    async def _catch_up(self) -> None:
        """Show the record that keys have gone to, and its part that they have chosen."""
        if self._record is None or self._record.row != self._number:
            await self._read_record()
            record, base_offset = self._record, self.browsing.base_offset
            if record is not None and base_offset is not None:
                self.browsing.place = Place(base_offset, record.batch.position, record.offset)
        await self._show()

    async def copied(self) -> str:
        marked = sorted({self._source.line_of(row) for row in self._table.marked})
        lines = [self._source.lines[line] for line in marked] if marked else self._source.lines
        return "\n".join(lines)[:MOST_COPIED]

    def action_export(self) -> None:
        record = self._record
        if record is None:
            return
        name = f"{self.browsing.state.name}-{record.offset}.{self._part}"
        self.post_message(messages.Ask(partial(Prompt, "write to the file: ", value=name), self._export))

    def _export(self, typed: str | None) -> None:
        if typed and self._record is not None:
            start(self, "export", self._write, typed, self._record)

    async def _write(self, typed: str, record: RecordDetail) -> None:
        data = await self.browsing.ask(_exported, record, self.browsing.formats, self._part, typed)
        path = await self.browsing.ask(write_new, typed, data, self.session.model.path)
        self.notify(f"{len(data):,} bytes written to {path}", markup=False)


def _laid_out(  # noqa: PLR0917 - all that the lines depend on
    record: RecordDetail, formats: Formats, part: str, seen_as: text.View, marked: re.Pattern[bytes] | None, width: int
) -> tuple[str, Lines]:
    """Return what is to be said of a part, and its lines; in the partition's thread."""
    lines, note = _lines_of(record, formats, part, seen_as)
    return note, Lines(lines, marked, width, is_json=note.startswith("JSON"))


def _lines_of(record: RecordDetail, formats: Formats, part: str, seen_as: text.View) -> tuple[list[str], str]:
    """Return the lines of a part in a view, and what is to be said of them."""
    if part == "headers":
        return _header_lines(record, seen_as), seen_as
    found = _decoded(record, formats, part) if seen_as == "auto" else None
    if found is not None:
        return text.shown(found.json), f"JSON, {found.kind}; raw: v"
    data = record.value if part == "value" else record.key
    notes = text.label(data, seen_as), formats.note(data) if seen_as == "auto" else ""
    return text.shown(data, seen_as), ", ".join(filter(None, notes))


def _exported(record: RecordDetail, formats: Formats, part: str, name: str) -> bytes:
    """Return what is written to a file: the bytes, or if its name says so and the format is known, their JSON."""
    found = _decoded(record, formats, part) if name.endswith(".json") else None
    return _bytes_of(record, part) if found is None else found.json


def _decoded(record: RecordDetail, formats: Formats, part: str) -> Decoded | None:
    if record.control is not None or part == "headers":
        return None
    return formats.decoded("value" if part == "value" else "key", record.key, record.value)


def _bytes_of(record: RecordDetail, part: str) -> bytes:
    if part == "headers":
        return "\n".join(_header_lines(record, "auto")).encode("utf-8", "backslashreplace")
    return (record.value if part == "value" else record.key) or b""


def _header_lines(record: RecordDetail, seen_as: text.View) -> list[str]:
    lines = []
    for name, value in record.headers:
        shown = text.shown(value, seen_as)
        lines.append(f"{text.printable(name)}: {shown[0] if shown else ''}")
        lines += [f"    {line}" for line in shown[1:]]
    return lines


def _part_size(record: RecordDetail, part: str) -> str:
    if part == "headers":
        return str(len(record.headers))
    data = record.value if part == "value" else record.key
    return text.NULL if data is None else text.size(len(data))
