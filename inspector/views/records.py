"""The records of a segment, with a preview of the one under the cursor; Enter opens it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult

from .. import columns, messages, text
from ..highlighting import marks
from ..model.decoders import Formats
from ..model.segment import SegmentReader
from ..model.types import Place, RecordRow
from ..tables import Mark, Shown
from ..widgets.facts import Pairs
from ..widgets.preview import Part, Preview
from .rows_view import RowsView

# The bytes of a value, and the headers, that a preview has room for.
PREVIEW_BYTES = 64 << 10
PREVIEW_HEADERS = 10
NARROW_HEADERS = 60
# The cells in which a match stands out.
MARKED = {"key": 2, "value": 3}


class RecordsView(RowsView[RecordRow]):
    """The records of a segment."""

    NOUN = "records"
    ONE = "record"

    def columns(self) -> list[Shown[RecordRow]]:
        return columns.records(self.session.times, self.browsing.formats)

    def read(self, first: int, count: int) -> Sequence[RecordRow]:
        segment = self.browsing.segment
        return [] if segment is None else segment.record_rows(first, count)

    def total(self) -> int:
        return self.browsing.records

    async def row_at_place(self) -> int | None:
        return await self.browsing.record_at_place()

    async def place_of(self, item: RecordRow) -> Place | None:
        segment, base_offset = self.browsing.segment, self.browsing.base_offset
        if segment is None or base_offset is None:
            return None
        batch = await self.browsing.ask(segment.batch, item.batch)
        return None if batch is None else Place(base_offset, batch.position, item.offset)

    def facts(self, item: RecordRow) -> Pairs:
        return [
            ("offset", f"{item.offset:,}"),
            ("time", self.session.times.full(item.timestamp)),
            ("age", self.session.times.age(item.timestamp)),
            ("batch", f"{item.batch:,}"),
            ("kind", (item.control or item.kind) + (", below the log start" if item.is_deleted else "")),
            ("match", self._match(item)),
            ("offsets missing before", f"{item.gap_before:,}" if item.gap_before else ""),
        ]

    def compose_more(self) -> ComposeResult:
        yield Preview()

    def _show_anew(self, cursor: int) -> None:
        super()._show_anew(cursor)
        self.query_one(Preview).parts = ()

    async def show_more(self, item: RecordRow) -> None:
        segment = self.browsing.segment
        if segment is not None:
            is_wide = self.screen.has_class("-wide")
            parts = await self.browsing.ask(_parts, segment, item.row, self.browsing.formats, is_wide)
            self.query_one(Preview).parts = parts

    def marks(self, item: RecordRow, cells: tuple[str, ...]) -> tuple[Mark, ...]:
        run = self.browsing.search
        pattern = None if run is None else run.marked_at(item.offset)
        if run is None or pattern is None:
            return ()
        return marks(pattern, cells, [at for name, at in MARKED.items() if name in run.job.wanted.fields])

    def _match(self, item: RecordRow) -> str:
        run = self.browsing.search
        match = None if run is None else run.match_at(item.offset)
        if match is None:
            return ""
        return f"{text.printable(match.field)} at {match.span[0]:,}: {''.join(columns.excerpt(match))}"

    def on_paged_view_chosen(self) -> None:
        self.post_message(messages.OpenView("record"))


def _parts(segment: SegmentReader, number: int, formats: Formats, indented: bool) -> list[Part]:
    """Return the parts of a record, in the partition's thread."""
    record = segment.record(number)
    if record is None or record.problem is not None:
        return []
    parts = [Part(f"key {_size(record.key)}".rstrip(), [columns.preview(record, formats, "key")])]
    if record.headers:
        headers = "  ".join(
            f"{text.printable(name)}: {text.printable(value, columns.PREVIEW) or text.EMPTY}"
            for name, value in record.headers[:PREVIEW_HEADERS]
        )
        # In a line of a narrow terminal, so that there is room for the value.
        line = text.printable(headers, columns.PREVIEW if indented else NARROW_HEADERS)
        parts.append(Part(f"headers {len(record.headers):,}", [line]))
    value = record.value
    is_whole = record.control is None and len(value or b"") <= PREVIEW_BYTES
    found = formats.decoded("value", record.key, value) if is_whole else None
    kind = formats.note(value) if found is None and is_whole else "" if found is None else found.kind
    value = found.json if found is not None else None if value is None else value[:PREVIEW_BYTES]
    is_json = text.resolved(value, "auto") == "json"
    lines = text.shown(value) if indented or not is_json else [text.printable(value)]
    return [*parts, Part(f"value {_size(record.value)} {kind}".rstrip(), lines, is_json)]


def _size(data: bytes | None) -> str:
    return "" if data is None else f"{len(data):,} B"
