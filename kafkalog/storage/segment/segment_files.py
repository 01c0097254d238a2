r"""`SegmentFiles`: the files of a segment, each opened on first use.

    00000000000000000040.log        for writing: from the first append or truncation until it is sealed and flushed
                                    for reading: until others need the descriptor
    00000000000000000040.index      \
    00000000000000000040.timeindex   > writable ones until others need the descriptor, read-only ones for each lookup
    00000000000000000040.txnindex   /

All of them together have a limited number of descriptors, see `open_file_limit`.

A dropped file is closed when its last reader is done; only `close` and `release` close it for readers as well.
"""

import io
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import Any

from kafkalog._speedups import decompress
from kafkalog.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from kafkalog.storage.files.appendable_file import sync_and_close
from kafkalog.storage.files.byte_source import closed
from kafkalog.storage.files.open_file_limit import OPEN_FILES
from kafkalog.storage.index.offset_index import OffsetIndex
from kafkalog.storage.index.time_index import TimeIndex
from kafkalog.storage.index.transaction_index import TransactionIndex
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.segment.file_message_set import FileMessageSet

DEFAULTS = LogConfig()
_INDEX_SUFFIXES = INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX


class SegmentFiles:
    """The files of one segment.

    Attributes:
        base_offset: The base offset from the file's name.
        path: The path of the `.log` file.
        sealed: A later segment follows, so that nothing more is appended to this one.
        writable: Only this process writes the files; otherwise nothing is written or created.
        config: The settings of the log.
        decompression_limit: The maximum size of a decompressed batch, bytes.
    """

    def __init__(
        self,
        base_offset: int,
        path: Path,
        *,
        sealed: bool,
        writable: bool = False,
        config: LogConfig = DEFAULTS,
        decompression_limit: int = decompress.DEFAULT_LIMIT,
    ) -> None:
        self.base_offset = base_offset
        self.path = path
        self.sealed = sealed
        self.writable = writable
        self.recently_used = False
        self.config = config
        self.decompression_limit = decompression_limit
        # Protects opening, dropping and renaming; users of a file have their own reference to it.
        self._lock = threading.RLock()
        self._closed = self._deleted = self._retired = False
        self._writer: FileMessageSet | None = None
        self._reader: FileMessageSet | None = None
        self._size: int | None = None
        # The open indexes by their suffixes.
        self._indexes: dict[str, Any] = {}

    @property
    def log(self) -> FileMessageSet:
        """The entries of the `.log` file.

        Raises:
            OSError: The file cannot be opened.
            LogStateError: The segment has been closed.
        """
        log = self._writer or self._reader
        if log is None:
            return self._open_reader()
        # Set on the second use only, so that one sequential read of the log does not displace frequently used files.
        self.recently_used = True
        return log

    def opened(self) -> FileMessageSet:
        """Open the `.log` file anew; the caller closes it.

        Raises:
            OSError, LogStateError: As `log`.
        """
        sealed, limit = self.sealed and not self.writable, self.decompression_limit
        # With the lock, because the file may be renamed concurrently.
        with self._lock:
            self._check_open()
            # Not mapped: a follower truncates sealed segments too, and the follower may be this process.
            return FileMessageSet(self.path, sealed=sealed, mapped=False, decompression_limit=limit)

    @property
    def size_in_bytes(self) -> int:
        """The size of the `.log` file in bytes, including a torn or zeroed tail, excluding preallocated space.

        Raises:
            OSError: The file has been deleted.
        """
        writer = self._writer
        if writer is not None:
            return writer.size_in_bytes
        if not self.writable:
            return self.path.stat().st_size
        if self._size is None:
            self._size = self.path.stat().st_size
        return self._size

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index.

        Raises:
            OSError, LogStateError: As `log`.
        """
        index: OffsetIndex = self._indexes.get(INDEX_SUFFIX) or self._open_index(OffsetIndex, INDEX_SUFFIX)
        return index

    @property
    def time_index(self) -> TimeIndex:
        """The time index.

        Raises:
            OSError, LogStateError: As `log`.
        """
        index: TimeIndex = self._indexes.get(TIME_INDEX_SUFFIX) or self._open_index(TimeIndex, TIME_INDEX_SUFFIX)
        return index

    @property
    def txn_index(self) -> TransactionIndex:
        """The index of aborted transactions.

        Raises:
            OSError, LogStateError: As `log`.
        """
        with self._lock:
            self._check_open()
            index: TransactionIndex | None = self._indexes.get(TXN_INDEX_SUFFIX)
            if index is None:
                path = self.index_path(TXN_INDEX_SUFFIX)
                index = self._indexes[TXN_INDEX_SUFFIX] = TransactionIndex(
                    path, self.base_offset, writable=self.writable
                )
            return index

    def index_path(self, kind: str) -> Path:
        """Return the path of an index; `kind` is `.index`, `.timeindex` or `.txnindex`."""
        stem, _, suffix = self.path.name.partition(LOG_SUFFIX)
        return self.path.with_name(stem + kind + suffix)

    def seal(self) -> None:
        """Mark the segment as sealed: another one follows, and nothing more is appended."""
        with self._lock:
            self.sealed = True
            if not self.writable:
                # Open the file again on the next use, since the tail of a sealed file is checked.
                self._reader = None

    def unseal(self) -> None:
        """Mark the segment as the last one again."""
        with self._lock:
            self.sealed = False
            self._reader = None
            if self.writable:
                # Open read-only indexes again.
                self._indexes = {suffix: index for suffix, index in self._indexes.items() if index.writable}

    def flush(self) -> None:
        """Sync all files to disk; missing indexes of the last segment are created.

        Afterwards a sealed segment needs no writable file any more. For a read-only segment this does nothing.

        Raises:
            OSError: The sync failed.
        """
        if not self.writable:
            return
        writer = self._writer
        if writer is not None:
            self._check_open()
            writer.flush()
        else:
            # Open with the lock, because the file may be renamed concurrently; sync without it, because that takes
            # long.
            with self._lock:
                self._check_open()
                fd = os.open(self.path, os.O_RDONLY)
            sync_and_close(fd, self.path)
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.flush()
        with self._lock:
            if self.sealed and writer is not None and self._writer is writer:
                self._put_down(writer)

    def close(self) -> None:
        """Close the files for good; writable ones are trimmed and flushed.

        Data read from them stays valid. Closing twice does nothing.
        """
        self._close_each(lambda file: file.close())

    def release(self) -> None:
        """Close the files without trimming or flushing them, as a crash would."""
        self._close_each(lambda file: file.release())

    def _close_each(self, close: Callable[[Any], None]) -> None:
        with self._lock, ExitStack() as last:
            self._closed = True
            for file in (self._writer, self._reader, *self._indexes.values()):
                if file is not None:
                    last.callback(close, file)
            self._forget()

    def change_file_suffixes(self, old: str, new: str) -> None:
        """Rename all existing files: replace the suffix `old` by `new`.

        Raises:
            OSError: A file cannot be renamed, or there is no `.log` file.
            io.UnsupportedOperation: The segment is read-only.
        """
        self._check_writable("rename")
        with self._lock:
            path = self.path.with_name(self.path.name.removesuffix(old) + new)
            before = {suffix: self.index_path(suffix) for suffix in _INDEX_SUFFIXES}
            self.path.replace(path)
            self.path = path
            for file in (self._writer, self._reader):
                if file is not None:
                    file.moved_to(path)
            for suffix, old_path in before.items():
                index, new_path = self._indexes.get(suffix), self.index_path(suffix)
                with suppress(FileNotFoundError):
                    index.rename_to(new_path) if index and index.writable else old_path.replace(new_path)

    def _check_writable(self, what: str) -> None:
        if not self.writable:
            raise io.UnsupportedOperation(f"cannot {what} {self.path}: it was opened for reading")

    def delete_if_exists(self) -> None:
        """Delete all existing files; current readers can go on reading.

        Raises:
            OSError: A file cannot be deleted.
            io.UnsupportedOperation: The segment is read-only.
        """
        self._check_writable("delete")
        with self._lock, ExitStack() as last:
            if self._writer is not None:
                self._writer.retire()
            self._closed = self._deleted = True
            self._forget()
            for path in (self.path, *map(self.index_path, _INDEX_SUFFIXES)):
                last.callback(path.unlink, missing_ok=True)

    def retire(self) -> None:
        """Stop writing; files are closed, without flush or trim, once their last reader is done."""
        with self._lock:
            self._retired = True
            if self._writer is not None:
                self._put_down(self._writer)
            self._indexes.clear()

    def give_up_file(self) -> bool:
        """Drop the file opened for reading; it is closed once no reader holds it."""
        self._reader = None
        return True

    def _open_reader(self) -> FileMessageSet:
        with self._lock:
            log = self._writer or self._reader
            if log is None:
                log = self._reader = self.opened()
                self.recently_used = False
        OPEN_FILES.add(self)
        return log

    def open_writer(self) -> FileMessageSet:
        """Return the `.log` file opened for writing, which reads use from now on too; create it if it is missing.

        Raises:
            OSError: The file cannot be opened or created.
        """
        with self._lock:
            self._check_open()
            self._check_writable("write to")
            if self._writer is None:
                self._writer = FileMessageSet(
                    self.path,
                    read_only=False,
                    preallocate_bytes=self.config.init_file_size,
                    decompression_limit=self.decompression_limit,
                )
                self._reader = None
            return self._writer

    def _put_down(self, writer: FileMessageSet) -> None:
        self._size = writer.size_in_bytes
        self._writer = None
        writer.retire()

    def _open_index(self, kind: type[OffsetIndex | TimeIndex], suffix: str) -> Any:
        with self._lock:
            self._check_open()
            if suffix not in self._indexes:
                path = self.index_path(suffix)
                # No index is created for a segment that is sealed or retired.
                writable = self.writable and (not (self.sealed or self._retired) or path.exists())
                size = self.config.segment_index_bytes
                self._indexes[suffix] = kind(path, self.base_offset, max_size=size, writable=writable)
            return self._indexes[suffix]

    def _forget(self) -> None:
        self._writer = self._reader = None
        self._indexes.clear()

    def _check_open(self) -> None:
        if self._deleted:
            raise FileNotFoundError(ENOENT, "the segment has been deleted", str(self.path))
        if self._closed:
            raise closed(self.path)

    def __reduce__(self) -> tuple[object, ...]:
        # A copy, possibly in another process, opens the files itself.
        if self.writable:
            raise TypeError(f"{self.path} is written to: one object alone may do that")
        again = partial(type(self), sealed=self.sealed, decompression_limit=self.decompression_limit)
        return again, (self.base_offset, self.path)
