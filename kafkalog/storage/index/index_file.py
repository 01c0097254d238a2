"""The file of an offset or time index: entries of a fixed size, followed by empty slots.

    entry | entry | entry | zero bytes ............................. |
                          ^ position of the next entry               ^ length: whole slots, until it is trimmed

A file that is being appended to is mapped: appending needs no system call, and lookups see the entry at once. Disk
blocks are allocated in chunks before the map is written to, so that a full disk makes the append fail instead of
killing the process.

Any other file is opened, read and closed at each lookup, so that a log with any number of segments needs no
descriptors for its indexes. The last indexes read from a store are cached whole. A file that another process writes
must never be mapped, because access to a page that was cut off kills the process.

Source: storage/.../log/AbstractIndex.java (which always maps, and leaves allocation to the file system).
"""

import io
import mmap
import os
import stat
import sys
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from errno import EINVAL, ENOSPC, EOPNOTSUPP
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kafkalog._speedups.index_search import search_entries
from kafkalog.errors import CorruptIndexError
from kafkalog.storage.files.byte_source import closed
from kafkalog.storage.files.durable import naming
from kafkalog.storage.files.readable_file import CLOSE_ON_EXEC
from kafkalog.storage.remote_path import RemotePath

RESERVED_BYTES = 1 << 16
# The number of entries that a search reads at once.
BLOCK_ENTRIES = 2048
# The number of indexes in stores whose bytes are cached.
REMOTE_INDEXES = 16
# Without O_NONBLOCK, opening a pipe would wait for a writer.
_READING = os.O_RDONLY | CLOSE_ON_EXEC | os.O_NONBLOCK
# The map needs no descriptor of its own, but has one before Python 3.13.
_MAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}

# (length, position) -> the bytes there, fewer where the file ends.
Read = Callable[[int, int], bytes]
Found = TypeVar("Found")


class Field(NamedTuple):
    """One integer of each entry: its offset within the `stride` bytes, and whether it has 8 bytes or 4."""

    at: int
    stride: int
    wide: bool = False


class IndexFile:
    """Access to the bytes of an index. Not thread-safe: the index calls it with its lock held.

    Attributes:
        length: The size of the file in bytes; 0 if it is missing.
        closed: Whether the index has been closed, released or deleted.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        """Measure the file, which may be missing.

        Raises:
            CorruptIndexError: The path is not a regular file.
            OSError: The path is not accessible.
        """
        self.path = path
        self.writable = writable
        self.closed = False
        self._map: mmap.mmap | None = None
        # The end of the allocated blocks, up to which the map may be written.
        self._reserved = 0
        self.length = 0
        self._changed_ns = 0
        self.measure()

    def create(self, length: int) -> None:
        """Create the file with `length` zero bytes.

        Raises:
            ValueError: The length is 0.
            OSError: The file exists, cannot be created, or the disk is full; then no file is created.
        """
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

    def measure(self) -> None:
        """Update `length` to the current size of the file, or 0 if it is missing.

        Raises:
            CorruptIndexError: The path is not a regular file.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self.length = 0
            return
        if not stat.S_ISREG(status.st_mode):
            raise CorruptIndexError("not a regular file", str(self.path))
        self.length, self._changed_ns = status.st_size, status.st_mtime_ns

    def check_open(self) -> None:
        """Raise LogStateError if the index has been closed."""
        if self.closed:
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
        return self._reading(lambda read: read(length, position))

    def count(self, field: Field, target: int, entries: int) -> int:
        """Return how many of the first `entries` entries have a field of at most `target`; the field must rise."""
        return self._reading(lambda read: search(read, field, target, entries))[0]

    def floor(self, field: Field, target: int, entries: int) -> bytes:
        """Return the last of the first `entries` entries whose field is at most `target`; empty if there is none."""
        return self._reading(lambda read: search(read, field, target, entries))[1]

    def _reading(self, use: Callable[[Read], Found]) -> Found:
        """Call `use` with a function that reads the file. A missing read-only file has no bytes.

        Raises:
            LogStateError: The index has been closed.
        """
        self.check_open()
        held: mmap.mmap | bytes | None = self._map
        try:
            if isinstance(self.path, RemotePath):
                held = _bytes_in_store(self.path, self.length, self._changed_ns)
            elif held is None:
                fd = os.open(self.path, _READING)
        except FileNotFoundError:
            if self.writable:
                raise
            held = b""
        if held is not None:
            return use(lambda length, position: held[position : position + length])
        try:
            return use(partial(os.pread, fd))
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
        fd = os.open(self.path, os.O_RDWR | CLOSE_ON_EXEC)
        try:
            with naming(self.path):
                # Existing bytes may be holes as well, if another program made the file: RandomAccessFile.setLength.
                reserve(fd, self._reserved, reserved - self._reserved)
                if self._map is None:
                    self._map = mmap.mmap(fd, self.length, **_MAP_OPTIONS)
        finally:
            os.close(fd)
        self._reserved = reserved

    def resize(self, length: int) -> None:
        """Resize the file to `length` bytes; added bytes are zero.

        Raises:
            OSError: The file cannot be resized; it is unchanged.
        """
        self._unmap()
        os.truncate(self.path, length)
        self.length = length

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
        self._map = None
        self._reserved = 0

    def open_for_sync(self) -> int | None:
        """Return a descriptor to sync and close without the lock, so that readers can go on; None if not needed."""
        if self.closed or not self.writable:
            return None
        if self._map is not None and sys.platform != "linux":
            self._map.flush()
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

    def release(self) -> None:
        """Drop the map; the file is left as it is."""
        self.closed = True
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


@lru_cache(REMOTE_INDEXES)
def _bytes_in_store(path: RemotePath, length: int, changed_ns: int) -> bytes:  # noqa: ARG001 # another length, another file
    return path.read_bytes()


def search(read: Read, field: Field, target: int, entries: int) -> tuple[int, bytes]:
    """Search entries whose field rises, a block at a time; of a file that has been cut, what is left.

    Returns:
        How many of the first `entries` entries have a field of at most `target`, and the last one of them; empty if
        there is none.
    """
    first = 0
    if entries > BLOCK_ENTRIES:
        starts = range(0, entries, BLOCK_ENTRIES)
        behind = bisect_left(starts, 1, key=lambda start: not _searched(read, field, target, start, 1)[0])
        first = starts[max(0, behind - 1)]
    count, entry = _searched(read, field, target, first, min(BLOCK_ENTRIES, entries - first))
    return first + count, entry


def _searched(read: Read, field: Field, target: int, first: int, count: int) -> tuple[int, bytes]:
    at, stride, wide = field
    return search_entries(read(count * stride, first * stride), stride, at, wide, target, count)
