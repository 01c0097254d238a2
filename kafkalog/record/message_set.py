"""A run of log entries, whatever holds it: `MessageSet`; and the one in memory: `ByteBufferMessageSet`.

A message set is iterable and never its own iterator, so that any number of walks may be under way at once.
Kafka: `Records` and `MemoryRecords` (before 0.11 `MessageSet` and `ByteBufferMessageSet`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.framing import scan_headers
from kafkalog._speedups.record import Record
from kafkalog.record import compression
from kafkalog.record.batch import RecordBatch, batches_of
from kafkalog.record.columns import RecordColumns
from kafkalog.record.decoding import Entries, Reading, pieces, read_columns
from kafkalog.record.framing import EndOfData, Stop
from kafkalog.record.threads import ordered_map

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Entries are handed on in runs of about so many bytes and at most so many rows.
RUN_BYTES = 1 << 20
RUN_ROWS = 8192


class MessageSet(ABC):
    """Log entries one after the other: `RecordBatch`es of `Record`s.

    Reading gives everything before damage and then raises `CorruptRecordError` (framing, checksum) or
    `InvalidRecordError` (content). A torn or zeroed tail is no damage: reading ends there, and `end_of_data` tells.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @abstractmethod
    def _scan(self, start: int, *, rows: int, span: int, max_size: int = -1) -> tuple[NDArray[np.void], Stop]:
        """The entries from position `start` on: at most `rows`, until `span` bytes are covered (-1: no limit).

        A size field greater than `max_size` (-1: none is) is damage.
        """

    @abstractmethod
    def _view(self, position: int, length: int) -> memoryview:
        """The bytes [position, position + length), which a scan has found to be there."""

    @property
    @abstractmethod
    def _start(self) -> int:
        """The position of the first entry."""

    @property
    @abstractmethod
    def size_in_bytes(self) -> int:
        """Bytes, a torn or zeroed tail included."""

    def __iter__(self) -> Iterator[Record]:
        """The records in order, control records left out as for a consumer; batches are checked against their CRC."""
        columns = chain.from_iterable(map(self._columns_of, self._pieces()))
        return chain.from_iterable(chain.from_iterable(each.record_lists() for each in columns))

    def batches(self) -> Iterator[RecordBatch]:
        """The entries in order; nothing is decompressed, no CRC computed."""
        return chain.from_iterable(batches_of(self._entries(run), self._reading) for run in self._runs())

    def headers(self) -> NDArray[np.void]:
        """One row (`HEADER_DTYPE`) an entry, from the headers alone. CorruptRecordError: damage in the framing."""
        rows, stop = self._scan(self._start, rows=-1, span=-1)
        self._check_end(stop)
        return rows

    def header_runs(self) -> Iterator[NDArray[np.void]]:
        """The rows of `headers()` piece by piece, in bounded memory.

        CorruptRecordError: damage, after the rows before it.
        """
        return self._runs()

    def columns(self, *, threads: int = 1, check_crcs: bool = True) -> Iterator[RecordColumns]:
        """The records as arrays, some thousand at a time, in order; control records left out.

        threads: so many threads decode at once, a few pieces ahead of the reader. check_crcs: False saves about a
        fifth of the time on uncompressed data and hands out what a damaged batch decodes to. ValueError: threads < 1.
        """
        if threads < 1:
            raise ValueError(f"threads is {threads}, at least 1 is needed")
        reading = self._reading if check_crcs else Reading(False, False, *_rest(self._reading))

        def decode(piece: NDArray[np.void]) -> Iterator[RecordColumns]:
            return read_columns(self._entries(piece), reading)

        if threads == 1:
            return chain.from_iterable(map(decode, self._pieces()))
        return ordered_map(decode, self._pieces(), threads)

    @property
    def end_of_data(self) -> EndOfData:
        """Where the whole entries end, and how: END, TORN or ZEROED. CorruptRecordError: in damage."""
        *_, stop = self._stops()
        return stop.end(self._reading.path)

    @property
    def valid_bytes(self) -> int:
        """Bytes of whole entries, from the start. CorruptRecordError: damage in the framing."""
        return self.end_of_data.position - self._start

    def has_matching_magic(self, magic: int) -> bool:
        """Whether every entry is of format `magic` (also where there is none)."""
        return all(bool((run["magic"] == magic).all()) for run in self._runs())

    def _stops(self) -> Iterator[Stop]:
        start, more = self._start, True
        while more:
            _, stop = self._scan(start, rows=RUN_ROWS, span=-1)
            start, more = stop.position, stop.more
            yield stop

    def _runs(self, start: int | None = None, *, max_size: int = -1) -> Iterator[NDArray[np.void]]:
        """Rows of the header table, run after run.

        CorruptRecordError: the framing is damaged, after the rows before it.
        """
        position = self._start if start is None else start
        more = True
        while more:
            rows, stop = self._scan(position, rows=RUN_ROWS, span=RUN_BYTES, max_size=max_size)
            if len(rows):
                yield rows
            position, more = stop.position, stop.more
        self._check_end(stop)

    def _check_end(self, stop: Stop) -> None:
        """CorruptRecordError: the walk did not end where this set of messages may end."""
        stop.end(self._reading.path)

    def _entries(self, run: NDArray[np.void]) -> Entries:
        start = int(run["position"][0])
        end = int(run["position"][-1]) + int(run["size_in_bytes"][-1])
        return Entries(run, self._view(start, end - start), start)

    def _pieces(self) -> Iterator[NDArray[np.void]]:
        return chain.from_iterable(map(pieces, self._runs()))

    def _columns_of(self, piece: NDArray[np.void]) -> Iterator[RecordColumns]:
        return read_columns(self._entries(piece), self._reading)


def _rest(reading: Reading) -> tuple[int, str | None]:
    return reading.decompression_limit, reading.path


class ByteBufferMessageSet(MessageSet):
    """A message set in memory, over any buffer of bytes, which is not copied.

    As Kafka's reader of memory: a magic other than 0, 1, 2 is damage at once; bytes that are too few for the next
    entry are the end. `decompression_limit`: bytes that one batch may decompress to.
    """

    def __init__(self, buffer: "ReadableBuffer", *, decompression_limit: int = compression.DEFAULT_LIMIT) -> None:
        super().__init__(Reading(decompression_limit=decompression_limit))
        self._buffer = memoryview(buffer).cast("B").toreadonly()

    @property
    def _start(self) -> int:
        return 0

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the buffer, a torn or zeroed tail included."""
        return self._buffer.nbytes

    def _scan(self, start: int, *, rows: int, span: int, max_size: int = -1) -> tuple[NDArray[np.void], Stop]:
        found, *stop = scan_headers(self._buffer, 0, start, rows, strict_magic=True, max_size=max_size, span=span)
        return found, Stop(*stop)

    def _view(self, position: int, length: int) -> memoryview:
        return self._buffer[position : position + length]

    def __repr__(self) -> str:
        return f"<ByteBufferMessageSet of {self.size_in_bytes} bytes>"
