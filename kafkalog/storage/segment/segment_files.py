r"""`SegmentFiles`: the files of a segment, each opened on first use.

    00000000000000000040.log        for writing: from the first append or truncation until it is sealed and flushed
                                    for reading: while not too many segments have theirs open, see `open_file_limit`
    00000000000000000040.index      \
    00000000000000000040.timeindex   > use a descriptor only while they are appended to
    00000000000000000040.txnindex   /

A dropped file is closed when its last reader is done; only `close` and `release` close it for readers as well.
"""

import io
import threading
from contextlib import ExitStack, suppress
from errno import ENOENT
from pathlib import Path
from typing import TypeVar

from kafkalog.record import decompress
from kafkalog.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from kafkalog.storage.files.appendable_file import open_for_sync, sync_and_close
from kafkalog.storage.files.byte_source import closed
from kafkalog.storage.files.open_file_limit import SEALED_SEGMENTS
from kafkalog.storage.index.offset_index import OffsetIndex
from kafkalog.storage.index.time_index import TimeIndex
from kafkalog.storage.index.transaction_index import TransactionIndex
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.segment.file_message_set import FileMessageSet

DEFAULTS = LogConfig()
_INDEX_SUFFIXES = INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
_Index = TypeVar("_Index", OffsetIndex, TimeIndex)


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
        self._noted = False
        self._size: int | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None

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
    def last_modified(self) -> int:
        """The mtime of the `.log` file, ms.

        Raises:
            OSError: The file has been deleted.
        """
        return self.path.stat().st_mtime_ns // 1_000_000

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index.

        Raises:
            OSError, LogStateError: As `log`.
        """
        index = self._offset_index
        if index is None:
            with self._lock:
                index = self._offset_index
                if index is None:
                    index = self._offset_index = self._open_index(OffsetIndex, INDEX_SUFFIX)
        return index

    @property
    def time_index(self) -> TimeIndex:
        """The time index.

        Raises:
            OSError, LogStateError: As `log`.
        """
        index = self._time_index
        if index is None:
            with self._lock:
                index = self._time_index
                if index is None:
                    index = self._time_index = self._open_index(TimeIndex, TIME_INDEX_SUFFIX)
        return index

    @property
    def txn_index(self) -> TransactionIndex:
        """The index of aborted transactions.

        Raises:
            OSError, LogStateError: As `log`.
        """
        with self._lock:
            self._check_open()
            if self._txn_index is None:
                path = self.index_path(TXN_INDEX_SUFFIX)
                self._txn_index = TransactionIndex(path, self.base_offset, writable=self.writable)
            return self._txn_index

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
                if self._offset_index is not None and not self._offset_index.writable:
                    self._offset_index = None
                if self._time_index is not None and not self._time_index.writable:
                    self._time_index = None

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
                fd = open_for_sync(self.path)
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
        with self._lock, ExitStack() as last:
            self._closed = True
            for file in (self._writer, self._reader, self._offset_index, self._time_index, self._txn_index):
                if file is not None:
                    last.callback(file.close)
            self._forget()

    def release(self) -> None:
        """Close the files without trimming or flushing them, as a crash would."""
        with self._lock, ExitStack() as last:
            self._closed = True
            for file in (self._writer, self._reader, self._offset_index, self._time_index):
                if file is not None:
                    last.callback(file.release)
            self._forget()

    def change_file_suffixes(self, old: str, new: str) -> None:
        """Rename all existing files: replace the suffix `old` by `new`.

        Raises:
            ValueError: The names do not end in `old`.
            OSError: A file cannot be renamed, or there is no `.log` file.
            io.UnsupportedOperation: The segment is read-only.
        """
        self._check_writable("rename")
        if not self.has_suffix(old):
            raise ValueError(f"{self.path} does not end in {old!r}")
        with self._lock:
            path = self.path.with_name(self.path.name.removesuffix(old) + new)
            before = [self.index_path(kind) for kind in _INDEX_SUFFIXES]
            self.path.replace(path)
            self._moved_to(path)
            after = [self.index_path(kind) for kind in _INDEX_SUFFIXES]
            for index, old_path, new_path in zip(self._indexes(), before, after, strict=True):
                with suppress(FileNotFoundError):
                    index.rename_to(new_path) if index is not None else old_path.replace(new_path)

    def _check_writable(self, what: str) -> None:
        if not self.writable:
            raise io.UnsupportedOperation(f"cannot {what} {self.path}: it was opened for reading")

    def has_suffix(self, suffix: str) -> bool:
        """Return whether the names of the files end in `suffix`."""
        return self.path.name.endswith(suffix)

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
            self._offset_index = self._time_index = None

    def give_up_file(self) -> None:
        """Drop the file opened for reading, which can be reopened."""
        with self._lock:
            self._noted = False
            self._reader = None

    def _open_reader(self) -> FileMessageSet:
        with self._lock:
            log = self._writer or self._reader
            if log is None:
                log = self._reader = self.opened()
                self.recently_used = False
            noted, self._noted = self._noted, True
        if not noted:
            SEALED_SEGMENTS.add(self)
        return log

    def open_writer(self) -> FileMessageSet:
        """Return the `.log` file opened for writing, which reads use from now on too; create it if it is missing.

        Raises:
            OSError: The file cannot be opened or created.
        """
        with self._lock:
            self._check_open()
            if not self.writable:
                raise ValueError(f"{self.path} was opened for reading")
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

    def _open_index(self, kind: type[_Index], suffix: str) -> _Index:
        self._check_open()
        path = self.index_path(suffix)
        # No index is created for a segment that is sealed or retired.
        writable = self.writable and (not (self.sealed or self._retired) or path.exists())
        return kind(path, self.base_offset, max_size=self.config.max_index_size, writable=writable)

    def _indexes(self) -> tuple[OffsetIndex | None, TimeIndex | None, TransactionIndex | None]:
        return self._offset_index, self._time_index, self._txn_index

    def _moved_to(self, path: Path) -> None:
        self.path = path
        for file in (self._writer, self._reader):
            if file is not None:
                file.moved_to(path)

    def _forget(self) -> None:
        self._writer = self._reader = self._offset_index = self._time_index = self._txn_index = None

    def _check_open(self) -> None:
        if self._deleted:
            raise FileNotFoundError(ENOENT, "the segment has been deleted", str(self.path))
        if self._closed:
            raise closed(self.path)

    def __getstate__(self) -> dict[str, object]:
        # A copy, possibly in another process, opens the files itself.
        if self.writable:
            raise TypeError(f"{self.path} is written to: one object alone may do that")
        state: dict[str, object] = {name: value for name, value in self.__dict__.items() if name not in _OPEN}
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()
        self._noted = False
        self._forget()


_OPEN = {"_lock", "_noted", "_writer", "_reader", "_offset_index", "_time_index", "_txn_index"}
