"""`FileMessageSet`: log entries in a file, the whole of it or a slice.

    ... entry | entry | entry | torn or zeroed tail
        ^ start                                    ^ end

Kafka: `FileRecords` (before 0.11 `FileMessageSet`).
"""

import io
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import decompress
from kafkalog._speedups.arguments import BYTES, EPOCH_MS, INT32_MAX, INT64_MAX, instance, whole
from kafkalog._speedups.framing import find_file_entry, load_file_entry, scan_file_headers, scan_headers
from kafkalog.errors import CorruptRecordError, LogStateError
from kafkalog.record.decoding import Entries, Reading, first_record
from kafkalog.record.framing import EndKind, Stop
from kafkalog.record.layout import LOG_OVERHEAD, SIZE_AT, SMALLEST_ENTRY
from kafkalog.record.message_set import RUN_BYTES, RUN_GROWTH, RUN_ROWS, MessageSet
from kafkalog.record.record_batch import RecordBatch, batches_of
from kafkalog.record.write_to import Target
from kafkalog.storage.files.appendable_file import AppendableFile, Piece
from kafkalog.storage.files.byte_source import ByteSource, became_shorter
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.files.readable_file import MappedFile, ReadableFile
from kafkalog.storage.files.transfer import transfer
from kafkalog.storage.remote_path import local_path, to_path

__all__ = ["FileMessageSet", "FoundEntry", "OffsetPosition", "TimestampAndOffset"]

_log = logging.getLogger(__name__)
# The chunk size for appending from another file, bytes.
PIECE_BYTES = 1 << 20
# If fewer entries fit in a range that is read at once, their headers are read first, to read whole entries only.
FEWEST_IN_A_READ = 8
_SIZE = Struct(">i")

# The smallest offset and timestamp (ms) of a Java long, which every entry reaches.
NO_OFFSET = ANY_TIMESTAMP = -(2**63)

_Found = TypeVar("_Found")
# A kernel that searches for an entry; it returns the entry found and how the scan ended.
_Search: TypeAlias = Callable[[int | ByteSource, int, int, int, int, int], tuple[_Found | None, int, int, int, int]]


class OffsetPosition(NamedTuple):
    """The place of a batch in a file.

    Attributes:
        offset: Its base offset.
        position: The position of its first byte.
        size: Its size, bytes.
    """

    offset: int
    position: int
    size: int


class FoundEntry(NamedTuple):
    """The header of an entry: its position and size (bytes), offsets, largest timestamp (ms) and format.

    The base offset of a wrapper is -1, because only its content has it.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    magic: int


class TimestampAndOffset(NamedTuple):
    """A record that was found by time.

    Attributes:
        timestamp: Its timestamp, ms.
        offset: Its offset.
        leader_epoch: The leader epoch of its batch; None = none.
    """

    timestamp: int
    offset: int
    leader_epoch: int | None


class FileMessageSet(MessageSet):
    """The log entries of a file from position `start` to `end` (bytes; None: the current end of the file at each read).

    As in Kafka, the magic is not checked before a batch is read, and an incomplete entry is the end of the data.
    Positions of batches count from the start of the file.

    With read_only=False the file is created if it is missing, and appended to at its end. A torn or zeroed tail left by
    a crash must be removed first: `truncate_to(valid_bytes)`. Such a file must be closed. Any number of threads may
    read concurrently, even while it is closed: reads in progress complete from this file, later ones raise
    LogStateError.

    Only one object in one process may write to a file. A second writer is rejected if the file system supports locks,
    except in a forked child, which shares the lock and must not write. To protect whole directories, which a broker may
    have open, see `kafkalog.storage.data_dir.directory_lock`.

    Args:
        path: The file.
        start: The first position, bytes.
        end: The end position, bytes, or None.
        sealed: The file has a successor and is not written to any more: a torn or zeroed tail counts as damage.
        mapped: Map the file instead of reading it (None: if sealed). Only for files that no process truncates, because
            access to a truncated part of a map kills the process.
        decompression_limit: The maximum size of a decompressed batch, bytes.
        read_only: Open the file for reading only.
        preallocate_bytes: The number of bytes to reserve on disk for a new file.

    Raises:
        LogStateError: The file is used after it was closed.
        NotALogError: The path is a directory, a pipe or a device.
        LogLockedError: Another object writes to the file.
        OSError: The file cannot be opened, or a file to append to is larger than 2**31 - 1 bytes.
        ValueError: start or end is negative, or start > end; writing is combined with a start, an end, or sealed; or
            preallocate_bytes is given without writing.
        io.UnsupportedOperation: A read-only set or a slice is written to; it is an OSError and a ValueError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        start: int = 0,
        end: int | None = None,
        read_only: bool = True,
        preallocate_bytes: int = 0,
        sealed: bool = False,
        mapped: bool | None = None,
        decompression_limit: int = decompress.DEFAULT_LIMIT,
    ) -> None:
        limit = whole("decompression_limit", decompression_limit, 0, INT64_MAX, BYTES)
        path = to_path(path) if read_only else local_path(path)
        super().__init__(Reading(decompression_limit=limit, path=os.fspath(path)))
        start = whole("start", start, 0, INT64_MAX, BYTES)
        end = end if end is None else whole("end", end, start, INT64_MAX, BYTES)
        if not read_only and (start or end is not None or sealed):
            raise ValueError("only a whole file that is not sealed is written to")
        if read_only and preallocate_bytes:
            raise ValueError("nothing is preallocated for a file that is only read")
        self._file: ByteSource = (
            open_source(path, mapped=sealed if mapped is None else mapped)
            if read_only
            else AppendableFile(path, preallocate_bytes=preallocate_bytes)
        )
        self._first = start
        self._end = end
        self._is_slice = False
        # Whether the last byte of a writable file is known to be the end of an entry.
        self._ends_well = False
        self.sealed = sealed

    @property
    def closed(self) -> bool:
        """Whether the file has been closed, by this set or another one that shares it."""
        return self._file.closed

    @property
    def source(self) -> ByteSource:
        """The bytes of the file."""
        return self._file

    @property
    def path(self) -> str:
        """The path of the file, as given."""
        return str(self._file.path)

    @property
    def _start(self) -> int:
        return self._first

    @property
    def size_in_bytes(self) -> int:
        """The current size from start to end in bytes, with a torn or zeroed tail, without preallocated space."""
        if self._end is None and not self._first:
            return self._file.size
        return max(0, self._stop() - self._first)

    def read(self, position: int, length: int) -> "FileMessageSet":
        """Return the slice of `length` bytes at `position`, counted from this set's start; shorter at this set's end.

        The slice shares the open file.

        Raises:
            ValueError: position or length is negative, or position is past the end.
        """
        position, length = self._range(position, length, "length")
        first = self._first + position
        return self._slice(first, first + length, sealed=False)

    def found_at(self, position: int, length: int | None = None) -> "FileMessageSet":
        """Return the slice from a position in the file at which an entry has been found before.

        Args:
            position: The position in the file, not in this set.
            length: The number of bytes; None: up to this set's end.

        Raises:
            ChangedWhileReading: The file has become shorter than that.
        """
        stop = self._stop()
        if position > stop:
            raise became_shorter(self.path, position, 0, stop - position)
        end = self._end if length is None else position + length
        return self._slice(position, end, sealed=self.sealed and length is None)

    def starting_at(self, offset: int, start: int = 0, *, hint: int | None = None) -> "FileMessageSet":
        """Return this set without the batches before the first one whose last offset is `offset` or more.

        Args:
            offset: The first offset wanted.
            start: As for `search`.
            hint: As for `search`.
        """
        found = self.first_entry(start, offset, hint=hint)
        part = self._slice(self._stop() if found is None else found.position, self._end, sealed=self.sealed)
        part._first_run_bytes = 1
        return part

    def last_offset(self, minimum: int = NO_OFFSET) -> int | None:
        """Return the last offset of the last whole batch before any damage; None if there is no batch.

        Args:
            minimum: Batches that end before this offset are skipped: their offsets are damaged.
        """
        last = None
        for rows, _ in self._scans():
            own = rows["last_offset"][rows["last_offset"] >= minimum]
            last = int(own[-1]) if len(own) else last
        return last

    def _slice(self, first: int, end: int | None, *, sealed: bool) -> "FileMessageSet":
        part = FileMessageSet.__new__(FileMessageSet)
        MessageSet.__init__(part, self._reading)
        part._file = self._file
        part._first = first
        part._end = end
        part._is_slice = True
        part.sealed = sealed
        return part

    def batches(self, start: int = 0, *, max_message_size: int | None = None) -> Iterator[RecordBatch]:
        """Yield the entries from position `start` (bytes from this set's start) on; no decompression, no CRC checks.

        Raises:
            CorruptRecordError: The framing is damaged, or a size field is greater than `max_message_size`.
        """
        limit = -1 if max_message_size is None else whole("max_message_size", max_message_size, 0, INT32_MAX, BYTES)
        runs = self._loaded_runs(self._place(start), max_size=limit)
        return chain.from_iterable(batches_of(entries, self._reading) for entries in runs)

    def search(self, offset: int, start: int = 0, *, hint: int | None = None) -> OffsetPosition | None:
        """Return the first batch from position `start` on whose last offset is `offset` or more; None if there is none.

        Args:
            offset: The offset to find.
            start: The position to search from, bytes from this set's start.
            hint: The offset in the index entry for position `start`: the batch there should begin at this offset or
                before. If it does not, the whole set is searched. Not used if start is 0.

        Raises:
            CorruptRecordError: The framing before the batch is damaged.
        """
        found = self.first_entry(start, offset, hint=hint)
        if found is None:
            return None
        is_wrapper = found.base_offset < 0 and found.magic < 2
        base_offset = self._batch_at(found.position).base_offset if is_wrapper else found.base_offset
        return OffsetPosition(base_offset, found.position, found.size)

    def search_timestamp(
        self, timestamp: int | datetime, start: int = 0, starting_offset: int = 0, *, hint: int | None = None
    ) -> TimestampAndOffset | None:
        """Return the first record from `start` and `starting_offset` on whose timestamp (ms) is `timestamp` or more.

        Args:
            timestamp: The timestamp to find, ms, or a datetime with a time zone.
            start: The position to search from, bytes from this set's start.
            starting_offset: The smallest offset to return.
            hint: As for `search`.

        Returns:
            The record, or None if there is none; format 0 has no timestamps.

        Raises:
            CorruptRecordError, InvalidRecordError: A batch that may contain the record is damaged.
        """
        wanted = whole("timestamp", timestamp, -INT64_MAX - 1, INT64_MAX, EPOCH_MS)
        offset, wanted = max(starting_offset, NO_OFFSET), max(wanted, ANY_TIMESTAMP)
        entry = self.load_entry(start, offset, wanted, hint)
        while entry is not None:
            found = first_record(entry, self._reading, offset, wanted)
            # The whole batch must be valid, because it is read later; format 0 has no timestamps.
            if found is not None and entry.rows["magic"][0] >= 1:
                epoch = int(entry.rows["partition_leader_epoch"][0])
                return TimestampAndOffset(found[1], found[0], epoch if epoch >= 0 else None)
            entry = self.found_at(entry.position + len(entry.view)).load_entry(0, offset, wanted)
        return None

    def first_entry(self, start: int = 0, offset: int = NO_OFFSET, *, hint: int | None = None) -> FoundEntry | None:
        """Return the header of the first entry from position `start` on that reaches the offset; see `search`."""
        row = self._first_reaching(find_file_entry, start, offset, ANY_TIMESTAMP, hint)
        return None if row is None else FoundEntry(*row)

    def load_entry(
        self, start: int, offset: int, timestamp: int = ANY_TIMESTAMP, hint: int | None = None
    ) -> Entries | None:
        """Return the first entry that reaches offset and timestamp, with its bytes."""
        entry = self._first_reaching(load_file_entry, start, offset, timestamp, hint)
        if entry is None:
            return None
        rows, view, position, size = entry
        if len(view) < size:
            raise became_shorter(self.path, position, size, len(view))
        return Entries(rows, view, position)

    def _first_reaching(
        self, kernel: _Search[_Found], start: int, offset: int, timestamp: int, hint: int | None
    ) -> _Found | None:
        """Return the result of the kernel; a hint that does not lead to a batch at or before its offset is ignored."""
        if offset > INT64_MAX:
            return None
        wanted = max(offset, NO_OFFSET), timestamp
        # A damaged index has positions before the file.
        position = self._place(start) if hint is None else self._first + max(start, 0)
        known = -1 if hint is None or position == self._first else hint
        found, *stop = self._search_with(kernel, position, wanted, known)
        if found is None and stop[1] == position > self._first and hint is not None:
            found, *stop = self._search_with(kernel, self._first, wanted, -1)
        if found is None:
            self._check_end(Stop(*stop))
        return found

    def _search_with(
        self, kernel: _Search[_Found], position: int, wanted: tuple[int, int], hint: int
    ) -> tuple[_Found | None, int, int, int, int]:
        end = max(self._stop(), position)
        try:
            return kernel(self._file.scanned, position, end, *wanted, hint)
        except OSError as error:
            raise self._named(error) from None

    def _named(self, error: OSError) -> OSError:
        """Return the error of a descriptor with the path added."""
        return error if error.filename is not None else OSError(error.errno, error.strerror, self.path)

    def _batch_at(self, position: int) -> RecordBatch:
        rows, _ = self._scan(position, rows=1, span=-1)
        if not len(rows):
            raise became_shorter(self.path, position, 1, 0)
        return next(batches_of(self._entries(rows), self._reading))

    def largest_timestamp(self, start: int = 0) -> tuple[int, int]:
        """Return the largest timestamp (ms) from `start` on, and the last offset of the first batch that has it.

        Returns:
            Both values, or (-1, -1) if no batch has a timestamp.
        """
        largest = -1, -1
        for run in self._runs(self._place(start)):
            i = int(run["max_timestamp"].argmax())
            timestamp = int(run["max_timestamp"][i])
            if timestamp > largest[0]:
                largest = timestamp, int(run["last_offset"][i])
        return largest

    def append(self, message_set: MessageSet) -> int:
        """Append all bytes of `message_set` and return their number.

        Either all of them are written, and visible to every reader of this object, or none. After an error the file is
        unchanged, or the error says that it could not be restored. The bytes reach the disk with `flush`. Their content
        is not checked; but bytes after a torn tail, including one appended earlier, would be unreadable and are
        rejected.

        Args:
            message_set: The entries to append.

        Raises:
            LogStateError: The file ends in a torn or zeroed tail, or in damage; `truncate_to` the `position` of the
                error.
            OSError: The disk is full, or the write failed.
            CorruptRecordError: Another process changed the length of the file, or `message_set` is a file that became
                shorter.
            ValueError: The file would grow beyond 2**31 - 1 bytes.
            io.UnsupportedOperation: The set is read-only or a slice.
        """
        instance("message_set", message_set, MessageSet, ", as ByteBufferMessageSet(bytes) makes one")
        start, length = message_set._start, message_set.size_in_bytes
        places = range(start, start + length, PIECE_BYTES)
        pieces = (message_set._view(at, min(PIECE_BYTES, start + length - at)) for at in places)
        self.append_pieces(pieces, length, ends_well=_ends_well(message_set))
        return length

    def append_pieces(self, pieces: Iterable[Piece], length: int, *, ends_well: bool = True) -> int:
        """Append entries as `append` does, and return the new end of the file.

        Args:
            pieces: The bytes of the entries.
            length: Their total length.
            ends_well: Whether the last entry is whole, so that another one can follow.
        """
        file = self._writable("append to")
        with file.lock:
            if length and not self._ends_well:
                self._ensure_end()
            end = file.append(pieces, length)
            if length:
                self._ends_well = ends_well
            return end

    def _ensure_end(self) -> None:
        """Raise LogStateError if an appended entry would be unreadable because of the bytes before it."""
        try:
            kind, position = self.end_of_data
        except CorruptRecordError as error:
            what = f"there is damage, and what is appended after it could not be read; truncate_to({error.position})"
            raise LogStateError(f"{what} cuts it off, and all that follows it", self.path, error.position) from error
        if kind is not EndKind.END:
            what = f"what is appended after a {kind.value} tail could not be read; truncate_to({position}) cuts it off"
            left = self._stop() - position
            raise LogStateError(what, self.path, position, "the end of the file", f"{left} bytes more")

    def truncate_to(self, size: int) -> int:
        """Cut the file to `size` bytes, including preallocated space, and return the number of bytes removed.

        Whether an entry ends there is checked by the next append. A file of exactly that length is left untouched.

        Raises:
            ValueError: `size` is negative or larger than the file.
            OSError, CorruptRecordError, io.UnsupportedOperation: As `append`.
        """
        file = self._writable("truncate")
        with file.lock:
            removed = file.truncate(size)
            if removed:
                self._ends_well = False
            return removed

    def trim(self) -> None:
        """Cut off unused preallocated space.

        Raises:
            OSError, CorruptRecordError, io.UnsupportedOperation: As `append`.
        """
        self._writable("trim").trim()

    def flush(self) -> None:
        """Sync appended data to disk, so that it survives a power failure.

        For a read-only set this does nothing.

        Raises:
            OSError: The sync failed. Any part of the data appended since the last flush may be lost, although it is
                still readable, and a later successful flush does not recover it.
        """
        if isinstance(self._file, AppendableFile):
            self._file.flush()

    def write_to(self, file: Target, position: int = 0, size: int | None = None) -> int:
        """Write bytes of this set to a binary file or a socket and return their number.

        For sockets, and files opened by `open()`, the kernel moves the bytes without copying them through Python.

        Args:
            file: The binary file or socket.
            position: The first byte, counted from this set's start.
            size: The number of bytes (None: all). Fewer are written at the end of this set, or if `file` is
                non-blocking and accepts no more.

        Raises:
            ValueError: position or size is negative, or position is past the end.
            OSError: Writing to `file` failed.
            CorruptRecordError: The file of this set became shorter.
        """
        position, size = self._range(position, size, "size")
        part = self.read(position, size)
        return transfer(self._file, file, part._first, part.size_in_bytes)

    def close(self) -> None:
        """Close the file, for slices of it too. Records, columns and batches returned before stay valid.

        A writable file is flushed and trimmed first; it is closed even if that fails. Closing twice does nothing, and
        neither does closing a slice, which only borrows the file.
        """
        if not self._is_slice:
            self._file.close()

    def release(self) -> None:
        """Close the file without flushing or trimming it, as a crash would; for slices of it too.

        For a slice this does nothing.
        """
        file = self._file
        if not self._is_slice:
            file.release() if isinstance(file, AppendableFile) else file.close()

    def retire(self) -> None:
        """Stop writing. The file is closed, without flush or trim, once neither it nor a slice of it is referenced."""
        if isinstance(self._file, AppendableFile) and not self._is_slice:
            self._file.retire()

    def moved_to(self, path: str | os.PathLike[str]) -> None:
        """Record the new path of a renamed file."""
        if isinstance(self._file, ReadableFile):
            self._file.moved_to(Path(path))
        self._reading = replace(self._reading, path=os.fspath(path))

    def delete(self) -> bool:
        """Close the file without flushing it, and delete it. Errors are logged, not raised.

        Returns:
            Whether the file was deleted; False too if the file is no longer at its path.

        Raises:
            io.UnsupportedOperation: The set is read-only or a slice.
        """
        file = self._writable("delete")
        try:
            file.release()
        except OSError:
            _log.warning("%s cannot be closed", self.path, exc_info=True)
        try:
            return file.unlink()
        except OSError:
            _log.warning("%s cannot be deleted", self.path, exc_info=True)
            return False

    def _place(self, start: int) -> int:
        """Convert `start` to a position in the file.

        Raises:
            ValueError: It is outside this set.
        """
        return self._first + whole("start", start, 0, self.size_in_bytes, BYTES)

    def _writable(self, what: str) -> AppendableFile:
        if self._is_slice or not isinstance(self._file, AppendableFile):
            kind = "a slice of" if self._is_slice else "read-only:"
            raise io.UnsupportedOperation(f"cannot {what} {kind} {self.path}")
        return self._file

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the path; the copy opens the file itself, because a descriptor is meaningless in another process.

        Raises:
            TypeError: The set is writable.
        """
        if isinstance(self._file, AppendableFile):
            raise TypeError(f"{self.path} is written to: one object alone may do that")
        kind = {"sealed": self.sealed, "mapped": isinstance(self._file, MappedFile)}
        limit = self._reading.decompression_limit
        return _opened_again, (self.path, (self._first, self._end), kind, limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop(self) -> int:
        return self._file.size if self._end is None else min(self._end, self._file.size)

    def _scan(self, start: int, *, rows: int, span: int, max_size: int = -1) -> tuple[NDArray[np.void], Stop]:
        end = self._stop()
        if end < start:
            if start > self._first:
                raise became_shorter(self.path, start, 0, end - start)
            end = start
        try:
            found, *stop = scan_file_headers(self._file.scanned, start, end, rows, span, max_size)
        except OSError as error:
            raise self._named(error) from None
        return found, Stop(*stop)

    def _loaded_runs(self, start: int | None = None, *, max_size: int = -1, span: int = RUN_BYTES) -> Iterator[Entries]:
        position, reach = self._first if start is None else start, self._first_run_bytes
        while (entries := self.load(position, min(span, reach), max_size)) is not None:
            yield entries
            position, reach = entries.end, RUN_GROWTH * (entries.end - position)
        stop = self._stop()
        if self._first < position > stop:
            raise became_shorter(self.path, position, 0, stop - position)

    def load(self, position: int, span: int, max_size: int = -1) -> Entries | None:
        """Return the entries from a position in the file on, about `span` bytes; None at the end.

        The headers are those of the bytes returned: they are scanned in memory, whatever the file had a moment before.

        Args:
            position: The position of the first entry in the file.
            span: The approximate number of bytes; a longer entry is returned alone.
            max_size: The largest valid size field; -1 = no limit.

        Raises:
            ChangedWhileReading: The file has become shorter.
            CorruptRecordError: Damage at the position.
        """
        while position < (end := self._stop()):
            rows, stop = self._scan(position, rows=1, span=-1, max_size=max_size)
            if not len(rows):
                self._check_end(stop)
                return None
            end = min(end, position + span)
            if rows["size_in_bytes"][0] > span // FEWEST_IN_A_READ:
                # The bytes of a large entry that does not end in the range would be read twice.
                rows, stop = self._scan(position, rows=RUN_ROWS, span=span, max_size=max_size)
                end = stop.position
            view = self._view(position, end - position)
            rows, *_ = scan_headers(view, position, max_size=max_size)
            # If there is none, the file has been changed meanwhile.
            if len(rows):
                found = Entries(rows, view, position)
                return found._replace(view=view[: found.end - position])
        return None

    def _check_end(self, stop: Stop) -> None:
        kind, position = stop.end(self._reading.path)
        if self.sealed and kind is not EndKind.END:
            raise CorruptRecordError(
                f"a segment that has a successor ends in a {kind.value} tail",
                self._reading.path,
                position,
                "the end of the file",
                f"{self._stop() - position} bytes more",
            )

    def _view(self, position: int, length: int) -> memoryview:
        return self._file.view(position, length)

    def __repr__(self) -> str:
        return f"<FileMessageSet {self.path} [{self._first}, {'end' if self._end is None else self._end})>"


def _opened_again(path: str, span: tuple[int, int | None], kind: dict[str, bool], limit: int) -> FileMessageSet:
    return FileMessageSet(path, start=span[0], end=span[1], decompression_limit=limit, **kind)


def _ends_well(message_set: MessageSet) -> bool:
    """Return whether another entry can follow the message set."""
    start, length = message_set._start, message_set.size_in_bytes
    if length >= SMALLEST_ENTRY:
        # Nearly every set is one entry, as its size field tells without a scan.
        (size,) = _SIZE.unpack(message_set._view(start + SIZE_AT, _SIZE.size))
        if size == length - LOG_OVERHEAD:
            return True
    try:
        return message_set.end_of_data.kind is EndKind.END
    except CorruptRecordError:
        return False
