"""The file of an offset or time index: entries of a fixed size, followed by empty slots.

    entry | entry | entry | zero bytes ............................. |
                          ^ position of the next entry               ^ length: whole slots, until it is trimmed

A file that is being appended to is mapped: appending needs no system call, and lookups see the entry at once. Disk
blocks are allocated in chunks before the map is written to, so that a full disk makes the append fail instead of
killing the process.

Any other file is opened, read and closed at each lookup, so that a log with any number of segments needs no
descriptors for its indexes. Copies of short files are cached, up to a total size, if only this process writes them.
Indexes in a store are read whole and cached likewise. A file that another process writes must never be mapped, because
access to a page that was cut off kills the process.

Source: storage/.../log/AbstractIndex.java (which always maps, and leaves allocation to the file system).
"""

import io
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, ENOSPC, EOPNOTSUPP
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kafkalog._speedups.index_search import search_entries, search_index
from kafkalog.errors import CorruptIndexError
from kafkalog.storage.files.byte_source import closed
from kafkalog.storage.files.durable import naming
from kafkalog.storage.files.open_file_limit import OpenFiles
from kafkalog.storage.files.readable_file import CLOSE_ON_EXEC
from kafkalog.storage.remote_path import RemotePath

RESERVED_BYTES = 1 << 16
# The largest file that is cached (reading it takes little longer than one search in it), and the total of all copies.
KEPT_BYTES = 1 << 14
ALL_KEPT_BYTES = 1 << 24
# The map needs no descriptor of its own, but has one before Python 3.13.
_MAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}

KEPT_INDEXES = OpenFiles(ALL_KEPT_BYTES)
# A generous limit for indexes: Kafka's default for `segment.index.bytes` is 10 MiB.
LONGEST_REMOTE_BYTES = 1 << 28

Read = TypeVar("Read")


class Field(NamedTuple):
    """One integer of each entry: its offset within the `stride` bytes, and whether it has 8 bytes or 4."""

    at: int
    stride: int
    wide: bool = False


class IndexFile:
    """Access to the bytes of an index. Not thread-safe: the index calls it with its lock held.

    Attributes:
        length: The size of the file in bytes; 0 if a read-only file is missing.
        created: Whether the file was missing before.
    """

    def __init__(self, path: Path, *, writable: bool, new_length: int) -> None:
        """Open the file; a missing writable file is created with `new_length` zero bytes.

        Raises:
            OSError: The path cannot be opened or created, or the disk is full; then no file is created.
            CorruptIndexError: The path is not a regular file.
        """
        self.path = path
        self.writable = writable
        self._map: mmap.mmap | None = None
        # The cached content of a short file that is not mapped.
        self._kept: bytes | None = None
        self.recently_used = False
        # The end of the allocated blocks, up to which the map may be written.
        self._reserved = 0
        self._closed = False
        self.length = 0
        self.created = writable and self._create(new_length)
        if not self.created:
            self.measure()

    def _create(self, length: int) -> bool:
        if self.path.exists():
            return False
        if length <= 0:
            raise ValueError(f"{self.path} is to be created with {length} bytes, which holds no entry")
        with naming(self.path):
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC, 0o666)
            try:
                os.ftruncate(fd, length)
                reserve(fd, 0, min(length, RESERVED_BYTES))
            except BaseException:
                self.path.unlink(missing_ok=True)
                raise
            finally:
                os.close(fd)
        self.length = length
        return True

    def measure(self) -> None:
        """Update `length` to the current size of the file, or 0 if it is missing.

        Raises:
            CorruptIndexError: The path is not a regular file.
        """
        if isinstance(self.path, RemotePath):
            self.length = len(self._kept_or_fetched(self.path))
            return
        with self.opened() as fd:
            status = None if fd is None else os.fstat(fd)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise CorruptIndexError("not a regular file", str(self.path))
        self.length = 0 if status is None else status.st_size

    @contextmanager
    def opened(self, flags: int = os.O_RDONLY) -> Iterator[int | None]:
        """Open the file and yield its descriptor, or None if a read-only file is missing.

        Raises:
            LogStateError: The index has been closed.
        """
        self.check_open()
        try:
            # Without O_NONBLOCK, opening a pipe would wait for a writer.
            fd = os.open(self.path, flags | CLOSE_ON_EXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            if self.writable:
                raise
            yield None
            return
        try:
            with naming(self.path):
                yield fd
        finally:
            os.close(fd)

    def check_open(self) -> None:
        """Raise LogStateError if the index has been closed."""
        if self._closed:
            raise closed(self.path)

    def check_writable(self, what: str) -> None:
        """Check that the index can be changed; `what` names the operation.

        Raises:
            io.UnsupportedOperation: The index is read-only.
            LogStateError: It has been closed.
        """
        if not self.writable:
            raise io.UnsupportedOperation(f"cannot {what} read-only: {self.path}")
        self.check_open()

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes at a position, fewer if the file ends before."""
        if self._map is not None:
            return self._map[position : position + length]
        if isinstance(self.path, RemotePath):
            return self._kept_or_fetched(self.path)[position : position + length]
        return self._with_descriptor(os.pread, length, position) or b""

    def count(self, field: Field, target: int, entries: int) -> int:
        """Return how many of the first `entries` entries have a field of at most `target`; the field must rise."""
        return self._search(field, target, entries)[0]

    def floor(self, field: Field, target: int, entries: int) -> bytes:
        """Return the last of the first `entries` entries whose field is at most `target`; empty if there is none."""
        return self._search(field, target, entries)[1]

    def _search(self, field: Field, target: int, entries: int) -> tuple[int, bytes]:
        held: mmap.mmap | bytes | None = self._map
        if held is None:
            held = self._kept if self._kept is not None else self._keep()
        if held is not None:
            self.recently_used = True
            return search_entries(held, field.stride, field.at, field.wide, target, entries)
        if self._closed:
            self.check_open()
        try:
            return search_index(str(self.path), field.stride, field.at, field.wide, target, entries)
        except FileNotFoundError:
            if self.writable:
                raise
            return 0, b""

    def _keep(self) -> bytes | None:
        """Return a cached copy of a short file that no other process changes; None if the file is not cached."""
        if isinstance(self.path, RemotePath):
            return self._kept_or_fetched(self.path)
        if not self.writable or self.length > KEPT_BYTES or self._closed:
            return None
        kept = self._with_descriptor(os.pread, self.length, 0)
        self._kept = kept
        KEPT_INDEXES.add(self, self.length)
        return kept

    def _kept_or_fetched(self, path: RemotePath) -> bytes:
        """Return all bytes of a file in a store; empty if it is missing.

        Raises:
            LogStateError: The index has been closed.
        """
        self.check_open()
        kept = self._kept
        if kept is None:
            try:
                kept = path.read_bytes() if path.stat().st_size <= LONGEST_REMOTE_BYTES else b""
            except FileNotFoundError:
                kept = b""
            self._kept = kept
            KEPT_INDEXES.add(self, len(kept))
        return kept

    def give_up_file(self) -> None:
        """Drop the cached copy, which can be read again. Thread-safe."""
        self._kept = None

    def _with_descriptor(self, read: Callable[..., Read], *arguments: object) -> Read | None:
        """Call `read` with a descriptor of the file; a faster form of `opened`."""
        if self._closed:
            self.check_open()
        try:
            fd = os.open(self.path, os.O_RDONLY | CLOSE_ON_EXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            if self.writable:
                raise
            return None
        try:
            return read(fd, *arguments)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        finally:
            os.close(fd)

    def write(self, position: int, entry: bytes) -> None:
        """Write an entry at a position before `length`.

        Raises:
            OSError: The disk is full, or the file has been deleted.
        """
        end = position + len(entry)
        if end > self._reserved:
            self._reserve(end)
        assert self._map is not None
        self._map[position:end] = entry

    def _reserve(self, end: int) -> None:
        self.check_writable("append to")
        reserved = min(self.length, -(-end // RESERVED_BYTES) * RESERVED_BYTES)
        with self.opened(os.O_RDWR) as fd:
            assert fd is not None
            # Existing bytes may be holes as well, if another program made the file: RandomAccessFile.setLength.
            reserve(fd, self._reserved, reserved - self._reserved)
            if self._map is None:
                self._map = mmap.mmap(fd, self.length, **_MAP_OPTIONS)
                self._kept = None
        self._reserved = reserved

    def resize(self, length: int) -> None:
        """Resize the file to `length` bytes; added bytes are zero.

        Raises:
            OSError: The file cannot be resized; it is unchanged.
        """
        self._unmap()
        with self.opened(os.O_RDWR) as fd:
            assert fd is not None
            os.ftruncate(fd, length)
        self.length = length

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
        self._map = self._kept = None
        self._reserved = 0

    def open_for_sync(self) -> int | None:
        """Return a descriptor to sync and close without the lock, so that readers can go on; None if not needed."""
        if self._closed or not self.writable:
            return None
        if self._map is not None and sys.platform != "linux":
            self._map.flush()
        with naming(self.path):
            return os.open(self.path, os.O_RDWR | CLOSE_ON_EXEC)

    def rename_to(self, path: Path) -> None:
        """Rename the file, replacing an existing file.

        Raises:
            OSError: The rename failed; the file keeps its old name.
        """
        if not self.writable:
            raise io.UnsupportedOperation(f"cannot rename read-only: {self.path}")
        self.path.replace(path)
        self.path = path

    def delete_if_exists(self) -> bool:
        """Close and delete the file; return whether it existed.

        Raises:
            OSError: The file cannot be deleted.
        """
        if not self.writable:
            raise io.UnsupportedOperation(f"cannot delete read-only: {self.path}")
        self.release()
        with suppress(FileNotFoundError):
            self.path.unlink()
            return True
        return False

    @property
    def closed(self) -> bool:
        """Whether the index has been closed, released or deleted."""
        return self._closed

    def release(self) -> None:
        """Drop the map; the file is left as it is."""
        self._closed = True
        self._unmap()


def reserve(fd: int, start: int, length: int) -> None:
    """Allocate disk blocks for existing bytes of a file without changing the bytes.

    Raises:
        OSError: The disk is full.
    """
    try:
        os.posix_fallocate(fd, start, length)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in {EINVAL, EOPNOTSUPP}:
            raise
        for at in range(start, start + length, RESERVED_BYTES):
            piece = os.pread(fd, min(RESERVED_BYTES, start + length - at), at)
            if os.pwrite(fd, piece, at) < len(piece):
                raise OSError(ENOSPC, os.strerror(ENOSPC)) from None
