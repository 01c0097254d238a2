"""The bytes of a split, a window at a time.

sealed    nothing is appended any more: a window is mapped, and let go of when the reader has passed it
active    read piece by piece: touching a mapped page that has been cut off kills the process
remote    ranged reads, a window each (`remote.py`)

An executor's memory limit counts maps, so that no more than a window is mapped at once, however long the split is.
"""

import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import framing
from kafkalog._speedups.checksum import first_invalid
from kafkalog._speedups.framing import scan_headers
from kafkalog._speedups.header_table import first_unreadable
from kafkalog.errors import CorruptRecordError
from kafkalog.fsck.batch_search import SoundEntries
from kafkalog.fsck.range_checksums import CRC32, CRC32C
from kafkalog.record.decoding import Entries
from kafkalog.record.framing import WRONG_CHECKSUM, Stop
from kafkalog.record.layout import BATCH_CRC_AT, BATCH_CRC_FROM, MAGIC_AT, MESSAGE_CRC_AT, MESSAGE_CRC_FROM
from kafkalog.record.message_set import RUN_ROWS
from kafkalog.storage.files.readable_file import ReadableFile

MAPPED_BYTES = 16 << 20
READ_BYTES = 4 << 20
# Header rows are read for so many bytes at once: the records left over at a run's end are a small Arrow batch.
RUN_BYTES = 4 << 20
# Bytes: a larger batch is looked through before it is read, as memory is taken for what its size says.
LARGEST_BELIEVED = 16 << 20
# What is asked for where one batch is looked at: most of them are smaller.
_ONE_BATCH = 1 << 16
_PAGE = mmap.ALLOCATIONGRANULARITY


class ShorterFileError(CorruptRecordError):
    """Bytes of a file that were there when the read was planned are not there any more."""


class Window(ABC):
    """Bytes of a file, those around where one reads at hand.

    size: of the file when it was opened. until: where reading is to end, as far as is known; what lies behind is had
    only when it is asked for.
    """

    most: int

    def __init__(self, path: str, size: int, until: int | None = None) -> None:
        self.path = path
        self.size = size
        self.until = size if until is None else min(until, size)
        self._start = 0
        self._bytes = memoryview(b"")

    def peek(self, position: int, least: int) -> memoryview:
        """At least `least` bytes from a position on (fewer at the file's end), as many more as are at hand.

        ShorterFileError: the file became shorter.
        """
        least = min(least, self.size - position)
        offset = position - self._start
        if offset < 0 or offset + least > len(self._bytes):
            # The old window goes before the new one comes: memory is counted.
            self._bytes = memoryview(b"")
            self._start, self._bytes = self._load(position, max(least, min(self.most, self.until - position)))
            offset = position - self._start
        else:
            self._check(position, len(self._bytes) - offset)
        return self._bytes[offset:]

    def view(self, position: int, length: int) -> memoryview:
        """Exactly these bytes."""
        return self.peek(position, length)[:length]

    def scan(self, position: int, end: int) -> tuple[Entries, Stop]:
        """The entries that begin in [position, end), a run of them, and why it ends. ShorterFileError: as `peek`."""
        least = min(RUN_BYTES, end - position)
        if end == position + 1:
            least = min(_ONE_BATCH, self.until - position) if position < self.until else _ONE_BATCH
        while True:
            view = self.peek(position, least)
            rows, status, at, expected, found = scan_headers(
                view, position, 0, RUN_ROWS, span=min(RUN_BYTES, end - position)
            )
            entries = Entries(rows, view, position)
            if status != framing.TORN or position + len(view) >= self.size:
                return entries, Stop(status, position + at, expected, found)
            if len(rows):
                return entries, Stop(framing.LIMIT, position + at, 0, 0)
            # The first batch is longer than what is at hand. All of it will be, so that its size must be true.
            if expected > LARGEST_BELIEVED and (lie := self._lie(view, position, expected)) is not None:
                return entries, lie
            least = max(2 * least, expected)

    def _lie(self, view: memoryview, position: int, length: int) -> Stop | None:
        """What is wrong with a batch of `length` bytes of which `view` is the beginning, looked at piece by piece."""
        polynomial, crc_at, crc_from = CRC32C, BATCH_CRC_AT, BATCH_CRC_FROM
        if view[MAGIC_AT] < 2:
            polynomial, crc_at, crc_from = CRC32, MESSAGE_CRC_AT, MESSAGE_CRC_FROM
        stored = int.from_bytes(view[crc_at : crc_at + 4], "big")
        computed = SoundEntries(self, self.size).range_checksum(position + crc_from, position + length, polynomial)
        return None if stored == computed else Stop(WRONG_CHECKSUM, position, stored, computed)

    def ensure_there(self, position: int, length: int) -> None:
        """Before bytes are touched that were at hand a while ago. ShorterFileError: they are gone."""
        self._check(position, length)

    def walk(self, position: int, end: int) -> Iterator[tuple[NDArray[np.void], Stop]]:
        """Header rows, run after run, and why each ended, until there is nothing more in [position, end)."""
        more = True
        while more and position < end:
            entries, stop = self.scan(position, end)
            yield entries.rows, stop
            position, more = stop.position, stop.more

    def sound_entry(self, position: int) -> np.void | None:
        """The header row of the batch that begins there; None where there is none whose checksum holds."""
        if position >= self.size:
            return None
        entries, _ = self.scan(position, position + 1)
        rows = entries.rows[:1]
        if not len(rows) or not first_unreadable(rows) or not first_invalid(entries.view, rows, position)[0]:
            return None
        row: np.void = rows[0]
        return row

    @abstractmethod
    def _load(self, position: int, length: int) -> tuple[int, memoryview]:
        """A window that holds these bytes, and where it begins."""

    def _check(self, position: int, length: int) -> None:  # noqa: B027 - what is held in memory stays
        """ShorterFileError: bytes that were there are not there any more."""

    def _shorter(self, position: int, length: int, size: int) -> "ShorterFileError":
        what = "the file became shorter while it was read"
        return ShorterFileError(what, self.path, position, f"{position + length} bytes", size)

    @abstractmethod
    def close(self) -> None:
        """Let go of file and window."""


class MappedWindow(Window):
    """Of a file that is not written to any more."""

    most = MAPPED_BYTES

    def __init__(self, path: str) -> None:
        self._file = ReadableFile(path)
        super().__init__(path, self._file.size)

    def _load(self, position: int, length: int) -> tuple[int, memoryview]:
        self._check(position, length)
        start = position // _PAGE * _PAGE
        mapped = mmap.mmap(self._file.fileno(), position + length - start, prot=mmap.PROT_READ, offset=start)
        return start, memoryview(mapped)

    def _check(self, position: int, length: int) -> None:
        size = self._file.size
        if size < position + length:
            raise self._shorter(position, length, size)

    def close(self) -> None:
        self._bytes = memoryview(b"")
        self._file.close()


class ReadWindow(Window):
    """Of a file that somebody may be writing to."""

    most = READ_BYTES

    def __init__(self, path: str) -> None:
        self._file = ReadableFile(path)
        super().__init__(path, self._file.size)

    def _load(self, position: int, length: int) -> tuple[int, memoryview]:
        size = self._file.size
        if size < position + length:
            raise self._shorter(position, length, size)
        return position, self._file.view(position, length)

    def close(self) -> None:
        self._bytes = memoryview(b"")
        self._file.close()
