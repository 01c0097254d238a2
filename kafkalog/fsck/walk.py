"""The scan of the batches of one file that may be damaged. All code that reads on past damage uses it.

    batch | batch | wrong checksum | batch | lost bytes ...... | batch | torn or zeroed tail
    ^ Run(rows, valid)                     ^ Lost(start, end)  ^ Run   ^ Tail(kind)

A batch with a wrong checksum is skipped by its size field if the bytes after it show that the field is right: a sound
batch follows soon, or the data ends. If sound batches fill its end, the size field is too large and includes them, so
it is not trusted. In all other cases the framing is lost at that batch, and the scan goes on at the next batch with a
valid checksum.

A batch range is read once, then scanned and checked in memory. A scan may begin at any position where a batch begins,
and end anywhere: it returns the batches that begin in [start, end). Bytes after `end` are read only to judge damage.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from kafkalog._speedups import framing
from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX
from kafkalog._speedups.checksum import first_invalid
from kafkalog._speedups.framing import scan_headers
from kafkalog._speedups.header_table import first_unreadable
from kafkalog.fsck.batch_search import SoundEntries, Viewed, crc_field
from kafkalog.fsck.header_checks import Bounds, Flags, Rows
from kafkalog.record import layout
from kafkalog.record.decoding import Entries
from kafkalog.record.framing import TOO_SHORT, WRONG_CHECKSUM, EndKind, Stop

RUN_ROWS = 8192
RUN_BYTES = 4 << 20
# After lost framing, batch ranges are short at first, because bytes after the next damage are read again.
_CAREFUL_BYTES = 16 * 1024
# A size field is right if so many well-formed batches follow each other from it on.
_LINKS = 16
# How many bytes to read for one header.
_PEEK_BYTES = 64
_ZEROS_BYTES = 1 << 20
_HEAD_BYTES = 23
# The size in bytes of an empty entry of each format.
SHORTEST = (26, 34, layout.RECORD_BATCH_OVERHEAD)


class Source(Viewed, Protocol):
    """A file to scan."""

    @property
    def size(self) -> int:
        """The present size in bytes."""


class Run(NamedTuple):
    """A range of batches, each beginning where the one before it ends.

    Attributes:
        rows: Their rows of the header table.
        valid: Whether each is of a known format and has a valid checksum, shape (n,).
        computed: By index, the computed checksums of those whose stored checksum is wrong.
        view: Their bytes, the first at `position`; of a single batch that is longer than one read, only the beginning.
        position: The position in the file of `view[0]`.
    """

    rows: Rows
    valid: Flags
    computed: dict[int, int]
    view: memoryview
    position: int

    @property
    def end(self) -> int:
        """The position after the last batch."""
        return int(self.rows["position"][-1]) + int(self.rows["size_in_bytes"][-1])

    def entries(self, source: Source) -> Entries:
        """Return the batches with all their bytes."""
        length = self.end - self.position
        view = self.view if len(self.view) >= length else source.view(self.position, length)
        return Entries(self.rows, view, self.position)


class Lost(NamedTuple):
    """Bytes in which no batch can be read.

    Attributes:
        start: The position of the first byte.
        end: The position of the next batch, or the end of the file.
        why: The problem at `start`.
        previous_offset: The last offset before the bytes; None if unknown.
        sizes: If all of the bytes are one batch with a wrong size field: the right size and the stored one; else None.
        followed: Whether a batch begins at `end`.
    """

    start: int
    end: int
    why: Stop
    previous_offset: int | None
    sizes: tuple[int, int] | None
    followed: bool


class Tail(NamedTuple):
    """The bytes after the end of the data.

    Attributes:
        kind: TORN for the beginning of a batch, ZEROED for zeros.
        start: The position where the data ends.
        end: The end of the file.
        why: The problem at `start`.
        previous_offset: The last offset before the tail; None if unknown.
    """

    kind: EndKind
    start: int
    end: int
    why: Stop
    previous_offset: int | None


Item: TypeAlias = Run | Lost | Tail


def walk(source: Source, bounds: Bounds | None = None, start: int = 0, end: int | None = None) -> Iterator[Item]:
    """Scan the batches that begin in [start, end) of a file, up to its present end.

    Args:
        source: The file.
        bounds: The offsets that the segment may hold; they distinguish a torn batch from garbage.
        start: The position in bytes where a batch begins.
        end: The position in bytes where the scan ends; None is the end of the file.

    Yields:
        Batch ranges, lost bytes and at most one tail, in the order of their positions, without gaps.

    Raises:
        CorruptRecordError: The file became shorter.
        OSError: The file cannot be read.
    """
    return _Walk(source, bounds or Bounds()).items(start, end)


def header_at(source: Source, position: int) -> Rows:
    """Return the header row of the batch at a position, shape (1,); shape (0,) if no batch begins there."""
    return _Walk(source, Bounds()).header_at(position)


def sound_header_at(source: Source, position: int) -> Rows:
    """Return the header row, shape (1,), of the batch that begins at a position and whose checksum holds; or none."""
    walk = _Walk(source, Bounds())
    rows = walk.header_at(min(position, source.size))
    return rows if len(rows) and walk.is_sound(rows[0]) else rows[:0]


def readable(rows: Rows) -> Flags:
    """Return which of `rows` are of a known format and not shorter than its header."""
    # The usual case, which this kernel finds in a tenth of the time.
    if first_unreadable(rows) == len(rows):
        return np.ones(len(rows), np.bool_)
    magic, size = rows["magic"], rows["size_in_bytes"]
    flags: Flags = (magic >= 0) & (magic <= 2) & (size >= np.array(SHORTEST)[np.clip(magic, 0, 2)])
    return flags


class _Walk:
    def __init__(self, source: Source, bounds: Bounds) -> None:
        self._source = source
        self._bounds = bounds
        self._size = source.size
        self._sound = SoundEntries(source, self._size)
        self._previous_offset: int | None = None

    def items(self, start: int, end: int | None) -> Iterator[Item]:
        at, end, span = start, self._size if end is None else min(end, self._size), RUN_BYTES
        while at < end:
            entries, stop = self._scan(at, min(span, end - at))
            run, stop = self._check_run(entries, stop)
            if len(run.rows):
                self._note(run)
                yield run
            at = stop.position
            if stop.more or at >= end:
                span = min(2 * span, RUN_BYTES)
            elif stop.status == framing.ZEROED:
                yield Tail(EndKind.ZEROED, at, self._size, stop, self._previous_offset)
                return
            else:
                item = self._find_next_batch(stop)
                yield item
                at, span = item.end, _CAREFUL_BYTES

    def _note(self, run: Run) -> None:
        # Mostly the last batch is one of them.
        for rows, valid in ((run.rows[-1:], run.valid[-1:]), (run.rows, run.valid)):
            own = rows["last_offset"][valid & self._bounds.inside(rows)]
            if len(own):
                self._previous_offset = int(own[-1])
                return

    # --- headers

    def _scan(self, position: int, span: int) -> tuple[Entries, Stop]:
        """Return the complete batches in the next `span` bytes, or else the first one, and why the scan stopped."""
        view = self._source.view(position, min(max(span, _PEEK_BYTES), self._size - position))
        rows, *figures = scan_headers(view, position, 0, RUN_ROWS, span=span)
        stop = Stop(*figures)._replace(position=position + figures[1])
        entries, left = Entries(rows, view, position), self._size - position
        if len(view) == left or stop.status not in {framing.END, framing.TORN, framing.ZEROED}:
            return entries, stop
        # The scan stopped at the end of the view, not of the file.
        if len(rows):
            return entries, Stop(framing.LIMIT, stop.position, 0, 0)
        if stop.status == framing.ZEROED:
            return entries, stop if self._is_zero(position) else Stop(
                framing.SIZE_TOO_SMALL, position, layout.RECORD_OVERHEAD_V0, 0
            )
        length = stop.expected
        if length > left:
            return entries, stop._replace(found=left)
        if length > INT32_MAX:
            size = length - layout.LOG_OVERHEAD
            return entries, Stop(framing.SIZE_TOO_LARGE, position, INT32_MAX - layout.LOG_OVERHEAD, size)
        return entries._replace(rows=_row_of(view, position, length)), Stop(framing.LIMIT, position + length, 0, 0)

    def _is_zero(self, position: int) -> bool:
        for at in range(position, self._size, _ZEROS_BYTES):
            view = self._source.view(at, min(_ZEROS_BYTES, self._size - at))
            if np.frombuffer(view, np.uint8).any():
                return False
        return True

    def header_at(self, position: int) -> Rows:
        """Return the header row of the batch at a position, shape (1,); shape (0,) if no batch begins there."""
        return self._scan(position, _PEEK_BYTES)[0].rows[:1]

    # --- valid batches, and damaged batches that can be skipped

    def _check_run(self, entries: Entries, stop: Stop) -> tuple[Run, Stop]:
        """Check scanned batches; return those before lost framing, and why the scan stopped or the framing is lost."""
        rows = entries.rows
        computed = self._wrong_checksums(entries) if len(rows) else {}
        valid = readable(rows)
        valid[list(computed)] = False
        for i in np.flatnonzero(~valid).tolist():
            if not self._size_is_right(rows, valid, i, stop) or self._size_is_too_large(rows[i]):
                stop = _cause(rows[i], computed.get(i))
                rows, valid = rows[:i], valid[:i]
                break
        return Run(rows, valid, computed, entries.view, entries.position), stop

    def _wrong_checksums(self, entries: Entries) -> dict[int, int]:
        """Return by index the computed checksums of the rows whose stored checksum is wrong."""
        rows, view, start = entries
        if int(rows["size_in_bytes"][0]) > len(view):
            # One batch longer than the view. Its size may be wrong, so its bytes are not read into memory at once.
            value = self._sound.checksum(rows[0])
            return {} if value == int(rows["checksum"][0]) else {0: value}
        wrong: dict[int, int] = {}
        i = 0
        while i < len(rows):
            bad, value = first_invalid(view, rows[i:], start)
            if i + bad < len(rows):
                wrong[i + bad] = value
            i += bad + 1
        return wrong

    def _size_is_right(self, rows: Rows, valid: Flags, i: int, stop: Stop) -> bool:
        """Return whether the bytes after row i show that its size field is right."""
        following = valid[i + 1 : i + 1 + _LINKS]
        if following.any() or len(following) == _LINKS:
            return True
        links = 0
        while stop.more and links < _LINKS:
            entries, stop = self._scan(stop.position, _PEEK_BYTES)
            links += len(entries.rows)
            if any(map(self.is_sound, entries.rows)):
                return True
        if links >= _LINKS:
            return True
        if stop.status == framing.ZEROED:
            # If the size field is too small, the zeros may be the rest of this batch.
            return self._right_size(int(rows["position"][i]), self._size) is None
        return stop.status == framing.END

    def is_sound(self, row: np.void) -> bool:
        """Return whether the format is known and the checksum holds."""
        magic, size = int(row["magic"]), int(row["size_in_bytes"])
        known = 0 <= magic <= 2 and size >= SHORTEST[magic]
        return known and self._sound.checksum(row) == int(row["checksum"])

    def _size_is_too_large(self, row: np.void) -> bool:
        """Return whether batches fill the end of this damaged one, which means that its size is too large.

        The first of them must be sound. Others may be damaged, if each begins where the one before it ends.
        """
        start, end = int(row["position"]) + 1, int(row["position"]) + int(row["size_in_bytes"])
        while (place := self._sound.first(start, end)) is not None:
            while place < end and len(found := self.header_at(place)):
                start = place + 1
                place += int(found["size_in_bytes"][0])
            if place == end:
                return True
        return False

    # --- lost framing

    def _find_next_batch(self, stop: Stop) -> Lost | Tail:
        """Search for the next batch, and return the lost bytes before it, or the tail."""
        start = stop.position
        place = self._next_sound(start + 1)
        end = self._size if place is None else place
        sizes = self._right_size(start, end)
        if sizes is None and place is None and stop.status == framing.TORN and self._may_be_torn(start):
            return Tail(EndKind.TORN, start, end, stop, self._previous_offset)
        return Lost(start, end, stop, self._previous_offset, sizes, place is not None)

    def _next_sound(self, start: int) -> int | None:
        """Return the position of the next sound batch that may be an entry of the log; None if there is none.

        A damaged wrapper whose content did not compress contains its inner messages uncompressed. Their checksums
        hold, but those of format 1 have offsets that count from 0, which excludes them.
        """
        least, most = self._offsets_ahead()
        while (place := self._sound.first(start, self._size)) is not None:
            (row,) = self.header_at(place)
            if row["magic"] >= 2 or least <= int(row["last_offset"]) <= most:
                break
            start = place + 1
        return place

    def _offsets_ahead(self) -> tuple[int, int]:
        """Return the smallest and the largest offset that the next batch may have."""
        last, most = self._previous_offset, self._bounds.last()
        least = (self._bounds.base or 0) if last is None else last + 1
        return least, INT64_MAX if most is None else most

    def _right_size(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the right and the stored size, if only the size field of a batch over [start, end) is wrong."""
        head = self._first_bytes(start, end)
        if len(head) < _HEAD_BYTES or head[layout.MAGIC_AT] > 2:
            return None
        size, found = end - start - layout.LOG_OVERHEAD, _int32(head, layout.SIZE_AT)
        if size == found or size > INT32_MAX:
            return None
        polynomial, crc_at, crc_from = crc_field(head[layout.MAGIC_AT])
        stored = _int32(head, crc_at) & 0xFFFFFFFF
        holds = end - start > crc_from and self._sound.range_checksum(start + crc_from, end, polynomial) == stored
        return (size, found) if holds else None

    def _may_be_torn(self, start: int) -> bool:
        """Return whether the bytes from `start` on may be the beginning of the batch that was to follow."""
        head = self._first_bytes(start, self._size)
        if len(head) >= layout.SIZE_AT:
            least, most = self._offsets_ahead()
            if not max(0, least) <= int.from_bytes(head[: layout.SIZE_AT], "big", signed=True) <= most:
                return False
        if len(head) >= layout.LOG_OVERHEAD and _int32(head, layout.SIZE_AT) < layout.RECORD_OVERHEAD_V0:
            return False
        return len(head) <= layout.MAGIC_AT or head[layout.MAGIC_AT] <= 2

    def _first_bytes(self, start: int, end: int) -> memoryview:
        return self._source.view(start, min(_HEAD_BYTES, end - start))


def _row_of(view: memoryview, position: int, length: int) -> Rows:
    """Return the header row, shape (1,), of a batch of `length` bytes of which `view` is only the beginning."""
    head = bytearray(view[: layout.RECORD_BATCH_OVERHEAD])
    head[layout.SIZE_AT : layout.LOG_OVERHEAD] = (len(head) - layout.LOG_OVERHEAD).to_bytes(4, "big")
    rows: Rows = scan_headers(head, position)[0].copy()
    rows["size_in_bytes"] = length
    return rows


def _cause(row: np.void, computed: int | None) -> Stop:
    """Return the reason for which the framing is lost at an invalid batch."""
    position, magic = int(row["position"]), int(row["magic"])
    if not 0 <= magic <= 2:
        return Stop(framing.BAD_MAGIC, position, 2, magic)
    if computed is None:
        return Stop(TOO_SHORT, position, SHORTEST[magic], int(row["size_in_bytes"]))
    return Stop(WRONG_CHECKSUM, position, int(row["checksum"]), computed)


def _int32(data: memoryview, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big", signed=True)
