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
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import BYTES, INT32_MAX, INT64_MAX, instance, whole
from kafkalog._speedups.framing import find_file_entry, load_file_entry, scan_file_headers, scan_headers
from kafkalog.errors import CorruptRecordError, LogStateError
from kafkalog.record import decompress
from kafkalog.record.decoding import Entries, Reading, first_record, read_columns
from kafkalog.record.framing import EndKind, Stop
from kafkalog.record.message_set import RUN_BYTES, RUN_GROWTH, RUN_ROWS, ByteBufferMessageSet, MessageSet
from kafkalog.record.record_batch import RecordBatch, batches_of
from kafkalog.record.record_columns import RecordColumns
from kafkalog.storage.files.appendable_file import AppendableFile, Piece
from kafkalog.storage.files.byte_source import ByteSource, became_shorter
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.files.readable_file import MappedFile, ReadableFile
from kafkalog.storage.remote_path import local_path, to_path

if TYPE_CHECKING:
    from kafkalog.record.write_to import Target

__all__ = ["FileMessageSet", "FoundEntry", "OffsetPosition", "TimestampAndOffset"]

_log = logging.getLogger(__name__)
# What is appended out of a file is taken from it in pieces of so many bytes.
PIECE_BYTES = 1 << 20

# The smallest offset and the smallest timestamp (ms) that Java's long holds: every entry reaches them.
NO_OFFSET = ANY_TIMESTAMP = -(2**63)

_Found = TypeVar("_Found")
# A kernel that looks for an entry: what it has found, and how the scan ended.
_Search: TypeAlias = Callable[[int | ByteSource, int, int, int, int, int], tuple[_Found | None, int, int, int, int]]


class OffsetPosition(NamedTuple):
    """A batch in a file: its base offset, where it begins (bytes) and its size in bytes."""

    offset: int
    position: int
    size: int


class FoundEntry(NamedTuple):
    """What the header of an entry says: where it begins, its size (bytes), offsets, largest timestamp (ms), format.

    The base offset of a wrapper is -1: only its content tells.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    magic: int


class TimestampAndOffset(NamedTuple):
    """A record found by time: its timestamp (ms), its offset, and its batch's leader epoch (None where it has none)."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class FileMessageSet(MessageSet):
    """The log entries of a file from `start` to `end` (bytes; None: wherever the file ends when it is read).

    As Kafka's reader of files: the magic is not looked at before a batch is read; an entry that the file does not
    hold whole is the end of the data. Positions of batches count from the start of the file.

    sealed: the file has a successor and is not written to any more: a torn or zeroed tail is damage. mapped: it is
    mapped, not read (None: if sealed); only for a file that nobody cuts, because touching what was cut off kills the
    process. decompression_limit: bytes that one batch may decompress to.

    read_only=False: the file is created if it is missing, a new one with `preallocate_bytes` reserved on disk, and
    appended to at its end. A torn or zeroed tail, as a crash leaves it, must go first: `truncate_to(valid_bytes)`.
    It must be closed. Any number of threads may read meanwhile, also when it is closed: what is being read then is read
    from this very file, and what is asked for later is refused.

    One object at a time, in one process alone, may write to a file: a second is refused where the file system knows
    locks, but a forked child, who shares the lock, is not, and must not write. For whole directories, which a broker
    may have open, see `kafkalog.storage.data_dir.directory_lock`.

    LogStateError: anything is asked of the file after it was closed. NotALogError: a directory, a pipe or a device.
    LogLockedError: another writes to it. OSError: the file cannot be
    opened, or a file to append to is larger than 2**31 - 1 bytes. ValueError: start or end negative, or start > end;
    writing combined with a start, an end, or sealed; preallocating without writing. io.UnsupportedOperation, which is
    an OSError and a ValueError: writing to a read-only set, or to a slice.
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
        self._loaded: Entries | None = None
        self.sealed = sealed

    @property
    def closed(self) -> bool:
        """Whether the file has been closed, by this set or another that shares it."""
        return self._file.closed

    @property
    def path(self) -> str:
        """The file's path, as it was given."""
        return str(self._file.path)

    @property
    def _start(self) -> int:
        return self._first

    @property
    def size_in_bytes(self) -> int:
        """Bytes from start to end as the file is now, a torn or zeroed tail included, a preallocated one not."""
        if self._end is None and not self._first:
            return self._file.size
        return max(0, self._stop() - self._first)

    def read(self, position: int, length: int) -> "FileMessageSet":
        """The slice of `length` bytes at `position`, counted from this set's start; less where this set ends before.

        The slice shares the open file. ValueError: position or length negative, or position after the end.
        """
        position, length = self._range(position, length, "length")
        first = self._first + position
        return self._slice(first, first + length, sealed=False)

    def starting_at(
        self, offset: int, start: int = 0, *, hint: int | None = None, loaded: bool = False
    ) -> "FileMessageSet":
        """This set without the batches before the first whose last offset is `offset` or more.

        start, hint: as `search`. loaded: that batch is read now, and `columns` in one thread gives it as it is now.
        """
        first = self._load_entry(start, offset, hint=hint) if loaded else None
        found = first if loaded else self._find_entry(start, offset, hint)
        part = self._slice(self._stop() if found is None else found.position, self._end, sealed=self.sealed)
        part._first_run_bytes = 1
        part._loaded = first
        return part

    def columns(self, *, threads: int = 1, check_crcs: bool = True) -> Iterator[RecordColumns]:
        """As in `MessageSet`."""
        first = self._loaded
        if first is None or threads != 1:
            return super().columns(threads=threads, check_crcs=check_crcs)
        return self._columns_from(first, self._reading_as(check_crcs))

    def _columns_from(self, first: Entries, reading: Reading) -> Iterator[RecordColumns]:
        yield from read_columns(first, reading)
        size = len(first.view)
        rest = self._slice(first.position + size, self._end, sealed=self.sealed)
        rest._first_run_bytes = RUN_GROWTH * size
        yield from rest.columns(check_crcs=reading.check_crcs)

    def last_offset(self) -> int | None:
        """The last offset of the last whole batch, before damage if there is any; None where there is no batch."""
        last, position, more = None, self._first, True
        while more:
            rows, stop = self._scan(position, rows=RUN_ROWS, span=-1)
            last = int(rows["last_offset"][-1]) if len(rows) else last
            position, more = stop.position, stop.more
        return last

    def _slice(self, first: int, end: int | None, *, sealed: bool) -> "FileMessageSet":
        part = FileMessageSet.__new__(FileMessageSet)
        MessageSet.__init__(part, self._reading)
        part._file = self._file
        part._first = first
        part._end = end
        part._is_slice = True
        part._loaded = None
        part.sealed = sealed
        return part

    def batches(self, start: int = 0, *, max_message_size: int | None = None) -> Iterator[RecordBatch]:
        """The entries from position `start` (bytes from this set's start) on; nothing is decompressed, no CRC computed.

        CorruptRecordError: damage in the framing, or a size field greater than `max_message_size`.
        """
        limit = -1 if max_message_size is None else whole("max_message_size", max_message_size, 0, INT32_MAX, BYTES)
        runs = self._runs(self._place(start), max_size=limit)
        return chain.from_iterable(batches_of(self._entries(run), self._reading) for run in runs)

    def search(self, offset: int, start: int = 0, *, hint: int | None = None) -> OffsetPosition | None:
        """The first batch from position `start` on whose last offset is `offset` or more; None where there is none.

        hint: what an index says of the batch at `start`, if that is not 0: it begins at this offset or before. Where
        there is no such batch the whole set is searched. CorruptRecordError: damage in the framing, before anything is
        found.
        """
        found = self._find_entry(start, offset, hint)
        if found is None:
            return None
        is_wrapper = found.base_offset < 0 and found.magic < 2
        base_offset = self._batch_at(found.position).base_offset if is_wrapper else found.base_offset
        return OffsetPosition(base_offset, found.position, found.size)

    def search_timestamp(
        self, timestamp: int, start: int = 0, starting_offset: int = 0, *, hint: int | None = None
    ) -> TimestampAndOffset | None:
        """The first record from position `start` and `starting_offset` on whose timestamp (ms) is `timestamp` or more.

        None where there is none; format 0 has no timestamps. hint: as `search`. CorruptRecordError,
        InvalidRecordError: a batch to look into is damaged.
        """
        offset, timestamp = max(starting_offset, NO_OFFSET), max(timestamp, ANY_TIMESTAMP)
        entry = self._load_entry(start, offset, timestamp, hint)
        while entry is not None:
            found = first_record(entry, self._reading, offset, timestamp)
            # The whole batch must be valid, whoever reads the rest of it; format 0 has no timestamps.
            if found is not None and entry.rows["magic"][0] >= 1:
                epoch = int(entry.rows["partition_leader_epoch"][0])
                return TimestampAndOffset(found[1], found[0], epoch if epoch >= 0 else None)
            entry = self._load_entry(entry.position + len(entry.view) - self._first, offset, timestamp)
        return None

    def first_entry(self, start: int = 0) -> FoundEntry | None:
        """What the header of the first entry from position `start` on says."""
        return self._find_entry(start, NO_OFFSET)

    def _find_entry(self, start: int, offset: int, hint: int | None = None) -> FoundEntry | None:
        """Return the first entry from position `start` on that reaches the offset, from headers alone."""
        row = self._first_reaching(find_file_entry, start, offset, ANY_TIMESTAMP, hint)
        return None if row is None else FoundEntry(*row)

    def _load_entry(
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
        """Return what the kernel finds; a hint that leads to no batch at or before it is not followed."""
        if max(offset, timestamp) > INT64_MAX:
            return None
        wanted = max(offset, NO_OFFSET), max(timestamp, ANY_TIMESTAMP)
        if hint is None or not start:
            found, *stop = self._search_with(kernel, self._place(start), wanted, -1)
        else:
            position = self._first + start
            found, *stop = self._search_with(kernel, position, wanted, hint)
            if found is None and stop[1] == position:
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
        """Return the error of a descriptor, which knows no path, with the path."""
        return error if error.filename is not None else OSError(error.errno, error.strerror, self.path)

    def _batch_at(self, position: int) -> RecordBatch:
        rows, _ = self._scan(position, rows=1, span=-1)
        (batch,) = batches_of(self._entries(rows), self._reading)
        return batch

    def largest_timestamp(self, start: int = 0) -> tuple[int, int]:
        """The largest timestamp (ms) of the batches from position `start` on and the last offset of the first of them
        that has it; (-1, -1) where none has any.
        """
        largest = -1, -1
        for run in self._runs(self._place(start)):
            i = int(run["max_timestamp"].argmax())
            timestamp = int(run["max_timestamp"][i])
            if timestamp > largest[0]:
                largest = timestamp, int(run["last_offset"][i])
        return largest

    def append(self, message_set: MessageSet, *, is_whole: bool = False) -> int:
        """Write all bytes of `message_set` at the end. Returns how many.

        Either all of them are in the file then, and seen by every reader of this object, or none: a failure leaves the
        file as it was and says so, or says that the file could not be left so. They are on the disk after `flush`.
        The bytes are not looked at; but behind a torn tail, also of what was appended before, they could not be read.
        is_whole: the caller knows that the last entry of `message_set` is whole.

        LogStateError: the file ends in a torn or zeroed tail, or in damage; `truncate_to` the `position` of the error.
        OSError: the disk is full, or refuses. CorruptRecordError: somebody else has made the file longer or shorter, or
        `message_set` is a file that became shorter. ValueError: the file would grow beyond 2**31 - 1 bytes.
        io.UnsupportedOperation: see the class.
        """
        pieces: Iterable[Piece]
        if isinstance(message_set, ByteBufferMessageSet):
            pieces, length = (message_set._buffer,), message_set.size_in_bytes
        else:
            instance("message_set", message_set, MessageSet, ", as ByteBufferMessageSet(bytes) makes one")
            length = message_set.size_in_bytes
            pieces = _pieces(message_set, length)
        file, ends_well = self._writable("append to"), is_whole or _ends_well(message_set)
        return file.append(pieces, length, ends_well, self._ensure_end)

    def _ensure_end(self) -> None:
        """LogStateError: an entry that is appended could not be read, for what is before it."""
        try:
            *_, stop = self._stops()
            kind, position = stop.end(self.path)
        except CorruptRecordError as error:
            what = f"there is damage, and what is appended after it could not be read; truncate_to({error.position})"
            raise LogStateError(f"{what} cuts it off, and all that follows it", self.path, error.position) from error
        if kind is not EndKind.END:
            what = f"what is appended after a {kind.value} tail could not be read; truncate_to({position}) cuts it off"
            left = self._stop() - position
            raise LogStateError(what, self.path, position, "the end of the file", f"{left} bytes more")

    def truncate_to(self, size: int) -> int:
        """Cut the file to `size` bytes, and what was preallocated. Returns how many bytes went.

        Whether an entry ends there is seen to when the next is appended. A file of that very length is not touched.
        ValueError: `size` is negative or more than the file's. OSError, CorruptRecordError, io.UnsupportedOperation: as
        `append`.
        """
        return self._writable("truncate").truncate(size)

    def trim(self) -> None:
        """Cut off what was preallocated and not used.

        OSError, CorruptRecordError, io.UnsupportedOperation: as `append`.
        """
        self._writable("trim").trim()

    def flush(self) -> None:
        """Have the system put on the disk what was appended: after it, even a power failure takes none of it.

        Nothing is done for a read-only set. OSError: it failed; then what was appended since the last flush may be
        lost, in any part, although it can still be read, and another flush that succeeds does not bring it back.
        """
        if isinstance(self._file, AppendableFile):
            self._file.flush()

    def write_to(self, file: "Target", position: int = 0, size: int | None = None) -> int:
        """Write `size` bytes from `position` on (None: all of them) to a binary file or a socket. Returns how many.

        position counts from this set's start. For sockets, and files opened by `open()`, the system moves the bytes
        without copying them through Python. Fewer than asked for are written where this set ends before, or `file`
        does not wait and takes no more. ValueError: position or size negative, or position after the end. OSError:
        as `file` raises it. CorruptRecordError: this set's file became shorter.
        """
        from kafkalog.storage.files.transfer import transfer

        position, size = self._range(position, size, "size")
        part = self.read(position, size)
        return transfer(self._file, file, part._first, part.size_in_bytes)

    def close(self) -> None:
        """Close the file, for slices of it too. Records, columns and batches given out before stay valid.

        A file that was written to is flushed and trimmed first; it is closed also if that raises. Closing twice does
        nothing, nor does closing a slice: it is a view of a file that others have opened.
        """
        if not self._is_slice:
            self._file.close()

    def release(self) -> None:
        """Close the file, neither flushed nor trimmed, as if the process had died; for slices of it too.

        Nothing is done for a slice.
        """
        file = self._file
        if not self._is_slice:
            file.release() if isinstance(file, AppendableFile) else file.close()

    def retire(self) -> None:
        """Write no more. The file is closed, as it is, once nobody has it or a slice of it any more."""
        if isinstance(self._file, AppendableFile) and not self._is_slice:
            self._file.retire()

    def moved_to(self, path: str | os.PathLike[str]) -> None:
        """The open file has this path from now on: somebody has renamed it."""
        if isinstance(self._file, ReadableFile):
            self._file.moved_to(Path(path))
        self._reading = replace(self._reading, path=os.fspath(path))

    def delete(self) -> bool:
        """Close the file without flushing it, and delete it. Returns whether that was done.

        What goes wrong is logged and not raised. It is no longer at its path, or another file is: False.
        io.UnsupportedOperation: see the class.
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
        """The position in the file that `start` counts to. ValueError: it is outside this set."""
        return self._first + whole("start", start, 0, self.size_in_bytes, BYTES)

    def _writable(self, what: str) -> AppendableFile:
        if self._is_slice or not isinstance(self._file, AppendableFile):
            kind = "a slice of" if self._is_slice else "read-only:"
            raise io.UnsupportedOperation(f"cannot {what} {kind} {self.path}")
        return self._file

    def __reduce__(self) -> tuple[object, ...]:
        """A copy opens the file for itself: a descriptor means nothing elsewhere. TypeError: a writable set."""
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
                raise CorruptRecordError(
                    "the file became shorter while it was read", self._reading.path, start, f"{start} bytes", end
                )
            end = start
        try:
            found, *stop = scan_file_headers(self._file.scanned, start, end, rows, span, max_size)
        except OSError as error:
            raise self._named(error) from None
        return found, Stop(*stop)

    def _loaded_runs(self) -> Iterator[Entries]:
        """Read first, then scanned in memory: where all bytes are wanted, headers need not be read by themselves."""
        position = self._first
        while True:
            view = self._view(position, min(RUN_BYTES, max(0, self._stop() - position)))
            rows, *_ = scan_headers(view, position)
            if not len(rows):
                # The end, damage, or an entry that is longer: the file tells.
                rows, stop = self._scan(position, rows=1, span=-1)
                if not len(rows):
                    return self._check_end(stop)
                view = self._view(position, int(rows["size_in_bytes"][0]))
            yield Entries(rows, view, position)
            position = int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])

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


def _pieces(message_set: MessageSet, length: int) -> Iterable[memoryview]:
    start = message_set._start
    return (message_set._view(start + at, min(PIECE_BYTES, length - at)) for at in range(0, length, PIECE_BYTES))


def _ends_well(message_set: MessageSet) -> bool:
    """Whether another entry can follow."""
    try:
        return message_set.end_of_data.kind is EndKind.END
    except CorruptRecordError:
        return False
