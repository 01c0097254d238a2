"""`SegmentFiles`: the files of a segment, each opened when it is first needed.

    00000000000000000040.log        to be written to: from the first append or truncation until it is sealed and flushed
                                    to be read: as long as not too many segments have theirs open, see `open_file_limit`
    00000000000000000040.index      \
    00000000000000000040.timeindex   > need no descriptor but while they are appended to
    00000000000000000040.txnindex   /

Dropping an open file closes it once nobody reads it any more; only `close` and `release` take it from readers, too.
"""

import io
import threading
from contextlib import ExitStack, suppress
from errno import ENOENT
from pathlib import Path
from typing import Protocol

from kafkalog.record import decompress
from kafkalog.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from kafkalog.storage.files.appendable_file import open_for_sync, sync_and_close
from kafkalog.storage.files.byte_source import closed
from kafkalog.storage.files.open_file_limit import SEALED_SEGMENTS
from kafkalog.storage.index.offset_index import OffsetIndex
from kafkalog.storage.index.time_index import TimeIndex
from kafkalog.storage.index.transaction_index import TransactionIndex
from kafkalog.storage.segment.file_message_set import FileMessageSet


class _Index(Protocol):
    def rename_to(self, path: Path) -> None: ...
    def update_parent_dir(self, directory: Path) -> None: ...


class SegmentFiles:
    """The files of one segment.

    base_offset: from the file's name. path: of the `.log` file. sealed: a later segment follows it, so that nothing is
    appended to it any more. writable: they are this process's alone; else nothing is written or created.
    """

    def __init__(
        self,
        base_offset: int,
        path: Path,
        *,
        sealed: bool,
        writable: bool = False,
        max_index_size: int = -1,
        preallocate_bytes: int = 0,
        decompression_limit: int = decompress.DEFAULT_LIMIT,
    ) -> None:
        self.base_offset = base_offset
        self.path = path
        self.sealed = sealed
        self.writable = writable
        self.recently_used = False
        self._max_index_size = max_index_size
        self._preallocate_bytes = preallocate_bytes
        self._decompression_limit = decompression_limit
        # For opening, dropping and renaming; those who use a file hold a reference of their own.
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
    def decompression_limit(self) -> int:
        """Bytes that one batch may decompress to."""
        return self._decompression_limit

    @property
    def log(self) -> FileMessageSet:
        """The entries of the `.log` file. OSError: it cannot be opened. LogStateError: the segment has been closed."""
        log = self._writer or self._reader
        if log is None:
            return self._open_reader()
        # Again: a segment that is opened once, as by who reads a log from end to end, does not drive out others.
        self.recently_used = True
        return log

    def opened(self) -> FileMessageSet:
        """The same in a file opened for the caller, who closes it. OSError, LogStateError: as `log`."""
        sealed, limit = self.sealed and not self.writable, self._decompression_limit
        # Under the lock, as the file may be about to get another name.
        with self._lock:
            self._check_open()
            # Not mapped: a follower cuts sealed segments too, and this process may be the one that has to.
            return FileMessageSet(self.path, sealed=sealed, mapped=False, decompression_limit=limit)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the `.log` file, a torn or zeroed tail included, a preallocated one not. OSError: it has gone."""
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
        """When the `.log` file was last written to, ms. OSError: it is not there any more."""
        return self.path.stat().st_mtime_ns // 1_000_000

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index. OSError, LogStateError: as `log`."""
        index = self._offset_index
        return index if index is not None else self._open_offset_index()

    @property
    def time_index(self) -> TimeIndex:
        """The time index. OSError, LogStateError: as `log`."""
        index = self._time_index
        return index if index is not None else self._open_time_index()

    @property
    def txn_index(self) -> TransactionIndex:
        """The index of aborted transactions. OSError, LogStateError: as `log`."""
        with self._lock:
            self._check_open()
            if self._txn_index is None:
                path = self.index_path(TXN_INDEX_SUFFIX)
                self._txn_index = TransactionIndex(path, self.base_offset, writable=self.writable)
            return self._txn_index

    def index_path(self, kind: str) -> Path:
        """The path of an index: `kind` is `.index`, `.timeindex` or `.txnindex`."""
        stem, _, suffix = self.path.name.partition(LOG_SUFFIX)
        return self.path.with_name(stem + kind + suffix)

    def seal(self) -> None:
        """Another segment follows: nothing is appended any more."""
        with self._lock:
            self.sealed = True
            if not self.writable:
                # Of a sealed file the tail is looked at.
                self._reader = None

    def unseal(self) -> None:
        """The segment is the last one again."""
        with self._lock:
            self.sealed = False
            self._reader = None
            if self.writable:
                self._drop_read_only_indexes()

    def _drop_read_only_indexes(self) -> None:
        if self._offset_index is not None and not self._offset_index.writable:
            self._offset_index = None
        if self._time_index is not None and not self._time_index.writable:
            self._time_index = None

    def flush(self) -> None:
        """Have the system put all files on the disk, indexes of the last segment created if they are missing.

        A sealed segment then needs no file to write to any more. Nothing is done for one that is only read. OSError:
        it failed.
        """
        if not self.writable:
            return
        writer = self._writer
        if writer is not None:
            self._check_open()
            writer.flush()
        else:
            # To open it takes the lock, as the file may be about to get another name; to flush it takes long.
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
        """Close the files, for good; those that were written to are trimmed and flushed.

        What was read from them stays valid. Closing twice does nothing.
        """
        with self._lock, ExitStack() as last:
            self._closed = True
            for file in (self._writer, self._reader, self._offset_index, self._time_index, self._txn_index):
                if file is not None:
                    last.callback(file.close)
            self._forget()

    def release(self) -> None:
        """Close the files as they are, neither trimmed nor flushed, as if the process had died."""
        with self._lock, ExitStack() as last:
            self._closed = True
            for file in (self._writer, self._reader, self._offset_index, self._time_index):
                if file is not None:
                    last.callback(file.release)
            self._forget()

    def change_file_suffixes(self, old: str, new: str) -> None:
        """Rename all files that are there: what ends in `old` ends in `new` then.

        ValueError: they do not. OSError: one cannot be renamed, or there is no `.log` file.
        io.UnsupportedOperation: the segment is only read.
        """
        self._check_writable("rename")
        if not self.has_suffix(old):
            raise ValueError(f"{self.path} does not end in {old!r}")
        with self._lock:
            path = self.path.with_name(self.path.name.removesuffix(old) + new)
            before = [self.index_path(kind) for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)]
            self.path.replace(path)
            self._moved_to(path)
            after = [self.index_path(kind) for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)]
            for index, old_path, new_path in zip(self._indexes(), before, after, strict=True):
                with suppress(FileNotFoundError):
                    index.rename_to(new_path) if index is not None else old_path.replace(new_path)

    def _check_writable(self, what: str) -> None:
        if not self.writable:
            raise io.UnsupportedOperation(f"cannot {what} {self.path}: it was opened for reading")

    def has_suffix(self, suffix: str) -> bool:
        """Whether the files' names end in `suffix`."""
        return self.path.name.endswith(suffix)

    def update_parent_dir(self, directory: Path) -> None:
        """Find the files in another directory from here on: their own has been renamed."""
        with self._lock:
            self._moved_to(directory / self.path.name)
            for index in self._indexes():
                if index is not None:
                    index.update_parent_dir(directory)

    def delete_if_exists(self) -> None:
        """Delete all files that are there; who reads them reads on. OSError: one cannot be deleted.

        io.UnsupportedOperation: the segment is only read.
        """
        self._check_writable("delete")
        with self._lock, ExitStack() as last:
            if self._writer is not None:
                self._writer.retire()
            self._closed = self._deleted = True
            self._forget()
            for path in (self.path, *map(self.index_path, (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX))):
                last.callback(path.unlink, missing_ok=True)

    def retire(self) -> None:
        """Nothing is written any more: files are closed, as they are, once nobody reads them."""
        with self._lock:
            self._retired = True
            if self._writer is not None:
                self._put_down(self._writer)
            self._offset_index = self._time_index = None

    def give_up_file(self) -> None:
        """Drop the file that is read from, which can be opened again."""
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

    def _open_writer(self) -> FileMessageSet:
        """The `.log` file to be written to, and from now on to be read from; created if it is missing."""
        with self._lock:
            self._check_open()
            if not self.writable:
                raise ValueError(f"{self.path} was opened for reading")
            if self._writer is None:
                self._writer = FileMessageSet(
                    self.path,
                    read_only=False,
                    preallocate_bytes=self._preallocate_bytes,
                    decompression_limit=self._decompression_limit,
                )
                self._reader = None
            return self._writer

    def _put_down(self, writer: FileMessageSet) -> None:
        self._size = writer.size_in_bytes
        self._writer = None
        writer.retire()

    def _open_offset_index(self) -> OffsetIndex:
        with self._lock:
            if self._offset_index is None:
                path = self._index_to_open(INDEX_SUFFIX)
                self._offset_index = OffsetIndex(
                    path, self.base_offset, max_size=self._max_index_size, writable=self._writes(path)
                )
            return self._offset_index

    def _open_time_index(self) -> TimeIndex:
        with self._lock:
            if self._time_index is None:
                path = self._index_to_open(TIME_INDEX_SUFFIX)
                self._time_index = TimeIndex(
                    path, self.base_offset, max_size=self._max_index_size, writable=self._writes(path)
                )
            return self._time_index

    def _index_to_open(self, kind: str) -> Path:
        self._check_open()
        return self.index_path(kind)

    def _writes(self, path: Path) -> bool:
        """Whether an index is opened to be written to; a segment that is sealed, or goes, and has none gets none."""
        return self.writable and (not (self.sealed or self._retired) or path.exists())

    def _indexes(self) -> tuple[_Index | None, _Index | None, _Index | None]:
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
        # A copy, perhaps in another process, opens the files for itself.
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
