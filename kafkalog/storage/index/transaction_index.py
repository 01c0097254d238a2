"""`TransactionIndex`: the aborted transactions whose abort marker lies in a segment.

    2 B version (0) | 8 B producer id | 8 B first offset | 8 B last offset | 8 B last stable offset

34 bytes, big-endian. The last offset is the marker's, and rises from entry to entry. The last stable offset is the one
right after the marker: all transactions before it were completed by then, so that no later entry affects offsets below
it. Unlike the other indexes the file is neither preallocated nor sparse, and exists only if it has entries.

Source: storage/.../log/TransactionIndex.java, AbortedTxn.java.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, Self

from kafkalog.errors import CorruptIndexError
from kafkalog.storage.files.appendable_file import write_at
from kafkalog.storage.files.durable import naming
from kafkalog.storage.files.readable_file import CLOSE_ON_EXEC
from kafkalog.storage.index.index_file import IndexFile

VERSION = 0
_LAYOUT = struct.Struct(">hqqqq")
ENTRY_SIZE = _LAYOUT.size
_ZEROS = bytes(ENTRY_SIZE)
# The number of entries per read.
_AT_ONCE = 1024


class AbortedTxn(NamedTuple):
    """A producer's transaction: its first offset, its abort marker, and the last stable offset after the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def to_bytes(self) -> bytes:
        """Return the entry as bytes."""
        return _LAYOUT.pack(VERSION, *self)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Parse an entry of 34 bytes.

        Raises:
            CorruptIndexError: The version is unknown.
        """
        version, *fields = _LAYOUT.unpack(raw)
        # Kafka reads only the first of the two bytes, and so accepts versions 1 to 255 as 0.
        if version != VERSION:
            raise CorruptIndexError("the version of an entry is unknown", expected=VERSION, found=version)
        return cls(*fields)


class TxnIndexSearchResult(NamedTuple):
    """The aborted transactions found. is_complete: later segments have no more of them."""

    aborted_txns: list[AbortedTxn]
    is_complete: bool


class TransactionIndex(IndexFile):
    """The aborted transactions of the segment that starts at `start_offset`. Thread-safe.

    A partial entry at the end of the file is ignored, and overwritten by the next append.

    Args:
        start_offset: The base offset of the segment.
        path: The file.
        writable: Only this process writes the file; it is created by the first append.

    Attributes:
        last_offset: The offset of the last abort marker; None if there is none, or the index is read-only.

    Raises:
        OSError: The file cannot be read or written.
        CorruptIndexError: The path is not a regular file, or an entry has an unknown version.
        LogStateError: The index is used after it was closed.
        io.UnsupportedOperation: A read-only index is changed; it is an OSError and a ValueError.
    """

    def __init__(self, path: str | os.PathLike[str], start_offset: int, *, writable: bool = True) -> None:
        self.start_offset = start_offset
        super().__init__(path, writable=writable)
        self._entries = self.length // ENTRY_SIZE
        # Only for a writable index; read-only ones do not need it, and in a store it costs a request.
        self.last_offset = self._last_offset_of(self._entries) if writable else None

    def _last_offset_of(self, entries: int) -> int | None:
        if not entries:
            return None
        raw = self.read((entries - 1) * ENTRY_SIZE, ENTRY_SIZE)
        return int(_LAYOUT.unpack(raw)[3]) if len(raw) == ENTRY_SIZE else None

    def __iter__(self) -> Iterator[AbortedTxn]:
        """Yield all entries in order of their markers, up to zero bytes, which a system crash may leave at the end."""
        position = 0
        while True:
            with self._lock:
                wanted = _AT_ONCE if not self.writable else min(_AT_ONCE, self._entries - position // ENTRY_SIZE)
                raw = self.read(position, wanted * ENTRY_SIZE) if wanted > 0 else b""
            for start in range(0, len(raw) - ENTRY_SIZE + 1, ENTRY_SIZE):
                entry = raw[start : start + ENTRY_SIZE]
                if entry == _ZEROS:
                    return
                yield self._parsed(entry, position + start)
            if len(raw) < _AT_ONCE * ENTRY_SIZE:
                return
            position += len(raw)

    def _parsed(self, raw: bytes, position: int) -> AbortedTxn:
        try:
            return AbortedTxn.from_bytes(raw)
        except CorruptIndexError as error:
            error.at(str(self.path), position)
            raise

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """Return the transactions that overlap offsets [fetch_offset, upper_bound_offset).

        Raises:
            CorruptIndexError: An entry has an unknown version.
        """
        found: list[AbortedTxn] = []
        for txn in self:
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound_offset:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound_offset:
                return TxnIndexSearchResult(found, is_complete=True)
        return TxnIndexSearchResult(found, is_complete=False)

    def append(self, txn: AbortedTxn) -> None:
        """Add a transaction whose marker follows all others; the file is created if it is missing.

        Raises:
            ValueError: Its last offset is not larger than the previous one.
            OSError: The write failed; the index is unchanged.
        """
        with self._lock:
            self.check_writable("append to")
            if self.last_offset is not None and txn.last_offset <= self.last_offset:
                raise ValueError(
                    f"{self.path}: the last offset {txn.last_offset} is not larger than {self.last_offset}"
                )
            self._write(txn.to_bytes(), self._entries * ENTRY_SIZE)
            self._entries += 1
            self.last_offset = txn.last_offset

    def _write(self, raw: bytes, position: int) -> None:
        with naming(self.path):
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | CLOSE_ON_EXEC, 0o666)
            try:
                # Remove a partial entry first, so that no part of it remains if this write is partial as well.
                os.ftruncate(fd, position)
                write_at(fd, raw, position)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(fd, position)
                raise
            finally:
                os.close(fd)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries from the first one on whose last offset is `offset` or more.

        Raises:
            OSError: The file cannot be truncated.
        """
        with self._lock:
            self.check_writable("truncate")
            for n, txn in enumerate(self):
                if txn.last_offset >= offset:
                    self._cut(n)
                    return

    def _cut(self, entries: int) -> None:
        last_offset = self._last_offset_of(entries)
        with naming(self.path):
            os.truncate(self.path, entries * ENTRY_SIZE)
        self._entries, self.last_offset = entries, last_offset

    def reset(self) -> None:
        """Remove all entries; the file itself is kept, if there is one.

        Raises:
            OSError: The file cannot be truncated.
        """
        with self._lock:
            self.check_writable("reset")
            with suppress(FileNotFoundError):
                self._cut(0)
            self._entries, self.last_offset = 0, None

    def sanity_check(self) -> None:
        """Check all entries. Unlike Kafka, this also compares the last offsets with one another.

        Raises:
            CorruptIndexError: A last offset is before the start offset or does not rise, a version is unknown, or zero
                bytes follow the entries.
        """
        with self._lock:
            last, count = self.start_offset - 1, 0
            for txn in self:
                if txn.last_offset <= last:
                    what = "the last offset of an aborted transaction is too small"
                    expected = f"more than {last}"
                    raise CorruptIndexError(what, str(self.path), count * ENTRY_SIZE, expected, txn.last_offset)
                last, count = txn.last_offset, count + 1
            if count < self._entries:
                raise CorruptIndexError("zero bytes in the place of an entry", str(self.path), count * ENTRY_SIZE)

    def flush(self) -> None:
        """Sync the file to disk, if there is one. Raises: as `IndexFile.flush`."""
        with suppress(FileNotFoundError):
            super().flush()

    close = IndexFile.release
