"""The file of an offset or time index: entries of a fixed size, followed by empty slots.

    entry | entry | entry | zero bytes ............................. |
                          ^ position of the next entry               ^ length: whole slots, until it is trimmed

The file of a writable index stays open until others need the descriptor, see `open_file_limit`. That of a read-only one
is opened at each lookup, because another process may replace it. It is never mapped: access to a page that another
process has cut off, or that does not fit on the disk, would kill the process. The last indexes read from a store are
cached whole.

Source: storage/.../log/AbstractIndex.java (which maps).
"""

import io
import os
import stat
import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from kafkalog._speedups.index_search import search_entries
from kafkalog.errors import CorruptIndexError
from kafkalog.storage.files.appendable_file import sync, write_at
from kafkalog.storage.files.byte_source import closed
from kafkalog.storage.files.durable import naming
from kafkalog.storage.files.open_file_limit import OPEN_FILES
from kafkalog.storage.files.readable_file import CLOSE_ON_EXEC, Descriptor
from kafkalog.storage.remote_path import RemotePath, to_path

# The number of indexes in stores whose bytes are cached.
REMOTE_INDEXES = 16


class Field(NamedTuple):
    """One integer of each entry: its offset within the `stride` bytes, and whether it has 8 bytes or 4."""

    at: int
    stride: int
    wide: bool = False


class IndexFile:
    """Access to the bytes of an index, which calls these methods with its lock held.

    Attributes:
        path: The path of the file.
        writable: Whether the index may be changed.
        length: The size of the file in bytes; 0 if it is missing.
        closed: Whether the index has been closed, released or deleted.
    """

    def __init__(self, path: str | os.PathLike[str], *, writable: bool) -> None:
        """Measure the file, which may be missing.

        Raises:
            CorruptIndexError: The path is not a regular file.
            OSError: The path is not accessible.
        """
        self.path = to_path(path)
        self.writable = writable
        self.closed = False
        self._lock = threading.RLock()
        self.length = 0
        self._changed_ns = 0
        self.recently_used = False
        self._fd: Descriptor | None = None
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
        held = self._held()
        if not isinstance(held, int):
            return held[position : position + length]
        with naming(self.path):
            return os.pread(held, length, position)

    def search(self, field: Field, target: int, entries: int) -> tuple[int, bytes]:
        """Search the first `entries` entries for those whose field is at most `target`; the field must rise.

        Returns:
            Their number, and the last of them; empty if there is none.
        """
        try:
            return search_entries(self._held(), field.stride, field.at, field.wide, target, entries)
        except OSError as error:
            raise error if error.filename else OSError(error.errno, error.strerror, str(self.path)) from None

    def _held(self) -> Descriptor | bytes:
        """Return the open file, or the bytes of one in a store. A missing read-only file has no bytes.

        Raises:
            LogStateError: The index has been closed.
            OSError: The file cannot be opened.
        """
        try:
            if self._fd is None:
                self.check_open()
                if isinstance(self.path, RemotePath):
                    return _bytes_in_store(self.path, self.length, self._changed_ns)
            return self._descriptor()
        except FileNotFoundError:
            if self.writable:
                raise
            return b""

    def _descriptor(self) -> Descriptor:
        """Return the open file."""
        # Read once: another thread may make this index give up its file.
        fd = self._fd
        if fd is not None:
            self.recently_used = True
            return fd
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        flags = (os.O_RDWR if self.writable else os.O_RDONLY) | CLOSE_ON_EXEC | os.O_NONBLOCK
        fd = Descriptor.of(os.open(self.path, flags), self.path)
        if self.writable:
            self._fd, self.recently_used = fd, False
            OPEN_FILES.add(self)
        return fd

    def give_up_file(self) -> bool:
        """Drop the descriptor; it is closed once no call uses it."""
        self._fd = None
        return True

    def write(self, position: int, entries: bytes) -> None:
        """Write entries at a position; they do not reach beyond `length`.

        Raises:
            OSError: The disk is full, or the file has been deleted.
        """
        self.check_writable("append to")
        with naming(self.path):
            write_at(self._descriptor(), entries, position)

    def _set_length(self, length: int) -> None:
        """Resize the file to `length` bytes; added bytes are zero. An error leaves it unchanged."""
        with naming(self.path):
            os.ftruncate(self._descriptor(), length)
        self.length = length

    def flush(self) -> None:
        """Sync the file to disk; this does nothing for an index that is read-only or closed.

        Raises:
            OSError: The sync failed.
        """
        with self._lock:
            if self.closed or not self.writable:
                return
            fd = self._descriptor()
        # Without the lock, so that readers can go on.
        with naming(self.path):
            sync(fd)

    def rename_to(self, path: Path) -> None:
        """Rename the file, if there is one, and use the new path from now on; allowed also after closing.

        Raises:
            OSError: The rename failed; the file keeps its old name.
        """
        with self._lock:
            if not self.writable:
                raise io.UnsupportedOperation(f"cannot rename read-only: {self.path}")
            with suppress(FileNotFoundError):
                self.path.replace(path)
            self.path = path

    def release(self) -> None:
        """Close the index; the file is left as it is."""
        with self._lock:
            self.closed = True
            self._fd = None


@lru_cache(REMOTE_INDEXES)
def _bytes_in_store(path: RemotePath, length: int, changed_ns: int) -> bytes:  # noqa: ARG001 # another length, another file
    return path.read_bytes()
