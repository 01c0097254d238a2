"""The records of a segment as numbered rows: which batch each is in, and only that batch decoded.

    windows     0 ........ | 1 ........ | ...        each says how many records come before it
    batches     b b b b b b b ...                    their headers say how many each has
    record 700  in batch 12, its 5th

A batch that cannot be decoded stands for as many rows as its header claims, if that can be, each of which says so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafkalog import RecordColumns
from kafkalog.errors import KafkaLogError
from kafkalog.record.control import control_name

from .batches import row_of
from .headers import batch_of, time_of
from .types import ROW_BYTES, BatchRow, RecordDetail, RecordRow, Span

if TYPE_CHECKING:
    from .batches import Held
    from .segment import SegmentReader
    from .segment_file import SegmentFile
    from .window import Window

# Of decompressed bytes and arrays that are kept for the next question.
HELD_BYTES = 32 << 20
_BYTES_A_ROW = 68


class Content(NamedTuple):
    """What a batch decodes to. problem: why not, or not all of it."""

    columns: RecordColumns
    problem: str | None = None

    @property
    def weight(self) -> int:
        """Bytes that it takes, about."""
        return self.columns.buffer.nbytes + _BYTES_A_ROW * len(self.columns)


class Decoded:
    """Batches decoded a moment ago, by position and checksum."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[int, int | None], Content] = OrderedDict()
        self._weight = 0

    def of(self, reader: SegmentReader, held: Held, i: int) -> Content:
        """Return what row i of a window decodes to."""
        assert held.rows is not None
        row = held.rows[i]
        key = int(row["position"]), int(row["checksum"])
        found = self._held.get(key)
        if found is None:
            found = self._held[key] = decoded(reader.raw.file, row)
            self._weight += found.weight
            while self._weight > HELD_BYTES and len(self._held) > 1:
                self._weight -= self._held.popitem(last=False)[1].weight
        else:
            self._held.move_to_end(key)
        return found

    def clear(self) -> None:
        """Forget all."""
        self._held.clear()
        self._weight = 0


def decoded(file: SegmentFile, row: np.void) -> Content:
    """Decode a batch as far as possible; its checksum is not checked."""
    try:
        batch = batch_of(file, row)
        if batch is None:
            return Content(RecordColumns.empty(), "the batch is not there any more")
        return Content(batch.columns(check_crcs=False))
    except (OSError, KafkaLogError, ValueError) as error:
        return Content(RecordColumns.empty(), str(error))


def rows(reader: SegmentReader, first: int, count: int) -> Iterator[RecordRow]:
    """Yield records as rows: `SegmentReader.record_rows`."""
    if not 0 <= first < reader.records or count <= 0:
        return
    before = (reader.base_offset or 0) - 1 if not first else None
    # The one before tells whether offsets are missing between them.
    for row in islice(_from(reader, max(0, first - 1)), count + (first > 0)):
        if row.row >= first:
            gap = 0 if before is None else max(0, row.offset - before - 1)
            yield replace(row, gap_before=gap) if gap else row
        before = row.offset


def _from(reader: SegmentReader, first: int) -> Iterator[RecordRow]:
    """Yield the records from number `first` on."""
    for place in _places(reader, first):
        if place.held.rows is None:
            yield from _lost(reader, place.window, place.held, first)
        else:
            yield from _of_batch(reader, place, first)


def _lost(reader: SegmentReader, window: Window, held: Held, first: int) -> Iterator[RecordRow]:
    batch = row_of(reader, window, held, 0)
    for number in range(max(first, window.first_record), window.first_record + window.records):
        yield RecordRow(number, _first_after(reader, window), batch.row, "corrupt", problem=batch.problem)


def _first_after(reader: SegmentReader, window: Window) -> int:
    """Return the least offset that what lies in a window can have."""
    return max(reader.base_offset or 0, window.previous + 1)


def _of_batch(reader: SegmentReader, place: _Located, first: int) -> Iterator[RecordRow]:
    """Yield the rows of a batch from record `first` on."""
    batch = row_of(reader, place.window, place.held, place.i)
    content = reader.decoded.of(reader, place.held, place.i)
    for number in range(max(place.begin, first), place.begin + int(place.held.counts[place.i])):
        row = _row(number, number - place.begin, batch, content, reader.path.name)
        yield replace(row, is_deleted=True) if row.offset < reader.log_start else row


def _row(number: int, j: int, batch: BatchRow, content: Content, name: str) -> RecordRow:
    """Return record j of a batch as a row; name: of the file."""
    columns = content.columns
    if j >= len(columns):
        where = f"{name}: position {batch.position}"
        problem = content.problem or batch.problem or f"{where}: the header promises more records than there are"
        return RecordRow(number, (batch.base_offset or 0) + j, batch.row, "corrupt", problem=problem)
    key_size, value_size = int(columns.key_length[j]), int(columns.value_length[j])
    headers_size = int(columns.headers_length[j])
    key = _preview(columns, columns.key_start[j], key_size)
    return RecordRow(
        number,
        int(columns.offset[j]),
        batch.row,
        batch.kind,
        time_of(int(columns.timestamp[j])),
        key,
        _preview(columns, columns.value_start[j], value_size),
        len(columns.headers(j)) if headers_size else 0,
        max(0, key_size) + max(0, value_size) + headers_size,
        _control(batch, key),
        0,
        batch.problem,
    )


def _preview(columns: RecordColumns, start: int, size: int) -> bytes | None:
    return None if size < 0 else bytes(columns.buffer[int(start) : int(start) + min(size, ROW_BYTES)])


def _control(batch: BatchRow, key: bytes | None) -> str | None:
    return None if batch.control is None and batch.kind != "control" else control_name(key)


class _Located(NamedTuple):
    """A batch, or bytes among which there is none; begin: the number of its first record."""

    window: Window
    held: Held
    i: int
    begin: int


def _places(reader: SegmentReader, first: int) -> Iterator[_Located]:
    """Yield the batches from the one with record `first` on."""
    raw = reader.raw
    for window in raw.from_number(raw.number_at(lambda each: each.first_record, first)):
        held = reader.held(window)
        if held.rows is None:
            yield _Located(window, held, 0, window.first_record)
            continue
        ends = np.cumsum(held.counts)
        start = int(np.searchsorted(ends, first - window.first_record, "right"))
        for i in range(start, window.rows):
            yield _Located(window, held, i, window.first_record + (int(ends[i - 1]) if i else 0))


def detail(reader: SegmentReader, number: int) -> RecordDetail | None:
    """Return a record whole: `SegmentReader.record`."""
    found = next(_places(reader, number), None) if 0 <= number < reader.records else None
    if found is None:
        return None
    batch = row_of(reader, found.window, found.held, found.i)
    if found.held.rows is None:
        return RecordDetail(number, _first_after(reader, found.window), batch, problem=batch.problem)
    content, j = reader.decoded.of(reader, found.held, found.i), number - found.begin
    if j >= len(content.columns):
        row = _row(number, j, batch, content, reader.path.name)
        return RecordDetail(number, row.offset, batch, problem=row.problem)
    return _whole(number, j, batch, content.columns)


def _whole(number: int, j: int, batch: BatchRow, columns: RecordColumns) -> RecordDetail:
    record = columns.record(j)
    return RecordDetail(
        number,
        record.offset,
        batch,
        time_of(record.timestamp),
        record.timestamp_type.label,
        record.sequence if record.sequence >= 0 else None,
        record.key,
        record.value,
        record.headers,
        _spans(columns, j, batch),
        _control(batch, record.key),
        batch.problem,
    )


def _spans(columns: RecordColumns, j: int, batch: BatchRow) -> dict[str, Span]:
    compressed = batch.codec != "none"
    shift = 0 if compressed else batch.position
    parts = {
        "key": (int(columns.key_start[j]), int(columns.key_length[j])),
        "value": (int(columns.value_start[j]), int(columns.value_length[j])),
        "headers": (int(columns.headers_start[j]), int(columns.headers_length[j]) or -1),
    }
    return {name: Span(start + shift, size, compressed) for name, (start, size) in parts.items() if size >= 0}
