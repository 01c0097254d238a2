"""A file that one writer appends to while any number of threads read it.

    written ...................... | zero bytes, where the file was preallocated
                                   ^ size: the position of the next append, and the end for readers of this object

An append takes effect once it is written completely: only then does `size` move. A failed append is cut off again.
Writes go to position `size`, whatever the offset of a descriptor shared with others. The file is never mapped, see
`readable_file`. While many other files are in use it is closed, see `open_file_limit`, and opened again when needed.
"""

import fcntl
import os
import threading
import time
import warnings
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from errno import EFBIG, EINVAL, EIO, ENOENT, EOPNOTSUPP
from pathlib import Path
from typing import TypeAlias

from kafkalog._speedups.arguments import BYTES, INT32_MAX, INT64_MAX, whole
from kafkalog.errors import CorruptRecordError, LogLockedError, NotALogError
from kafkalog.storage.files.byte_source import closed
from kafkalog.storage.files.durable import naming, sync_directory
from kafkalog.storage.files.open_file_limit import OPEN_FILES
from kafkalog.storage.files.readable_file import CLOSED, Descriptor, ReadableFile

# Positions in a segment are Java ints.
MAX_BYTES = INT32_MAX
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
# Without O_NONBLOCK, opening a pipe would wait for a reader.
_FLAGS = os.O_RDWR | os.O_NONBLOCK
# The descriptor of a file that is opened again when it is needed.
_GIVEN_UP = -2

Piece: TypeAlias = bytes | bytearray | memoryview


class AppendableFile(ReadableFile):
    """A file that is read at positions and written to at its end.

    Appending, truncating and trimming wait for one another; readers of an open file never wait.

    Attributes:
        lock: Held by callers of `append` and `truncate`; reentrant.
        recently_used: See `open_file_limit`.
    """

    def __init__(self, path: str | os.PathLike[str], *, preallocate_bytes: int = 0) -> None:
        """Open the file, or create it if it is missing.

        Args:
            path: The file.
            preallocate_bytes: The number of bytes to reserve on disk for a new file.

        Raises:
            OSError: The file cannot be opened for writing, it is larger than a segment may be, or the disk is full.
            NotALogError: The path is a directory, a pipe or a device.
            LogLockedError: The file is already open for writing.
        """
        preallocate_bytes = whole("preallocate_bytes", preallocate_bytes, 0, MAX_BYTES, BYTES)
        self.lock = threading.RLock()
        self.recently_used = True
        # Whether no bytes of a failed append follow `size`.
        self._whole = True
        # The time at which bytes were last cut off, ns.
        self._cut_ns = 0
        self._created = False
        self._retired = False
        # A forked child has a copy of this object and must not unlock the file.
        self._process = os.getpid()
        # Absolute, so that the process may change its working directory.
        self._place = Path(path).absolute()
        super().__init__(path)
        try:
            self._begin(preallocate_bytes)
        except BaseException:
            self._withdraw()
            raise
        OPEN_FILES.add(self)

    def _open(self) -> int:
        try:
            fd = os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            try:
                return self._regular(os.open(self.path, _FLAGS))
            except IsADirectoryError:
                raise NotALogError("not a regular file", str(self.path)) from None
            except FileNotFoundError:
                # A link to a missing file.
                fd = os.open(self.path, _FLAGS | os.O_CREAT, 0o666)
        self._created = True
        return fd

    def _begin(self, preallocate_bytes: int) -> None:
        self._lock_out_others(self._fd)
        with naming(self.path):
            found = os.fstat(self._fd)
            self._identity = found.st_dev, found.st_ino
            length = found.st_size
            if length > MAX_BYTES:
                raise OSError(EFBIG, f"{length} bytes, more than a segment's {MAX_BYTES}")
            # All bytes of an existing file count as written, zero bytes included.
            self._size = length
            if self._created and preallocate_bytes:
                lengthen(self._fd, preallocate_bytes)
                length = preallocate_bytes
            # The length of the file as far as this object knows, in bytes.
            self._length = length

    def fileno(self) -> int:
        """Return the file descriptor, a `Descriptor`; open the file again if it was given up.

        Raises:
            LogStateError: The file has been closed.
            LogLockedError: It is open for writing elsewhere by now.
            OSError: It cannot be opened, or another file is at its path.
        """
        self.recently_used = True
        fd = self._fd
        return fd if fd >= 0 else self._open_again()

    def _open_again(self) -> int:
        with self.lock:
            if self._fd == CLOSED:
                raise closed(self.path)
            if self._fd == _GIVEN_UP:
                fd = Descriptor.of(os.open(self._place, _FLAGS), self.path)
                found = os.fstat(fd)
                if (found.st_dev, found.st_ino) != self._identity:
                    raise FileNotFoundError(ENOENT, "another file is at the path of the one opened", str(self.path))
                if not self._retired and self._process == os.getpid():
                    self._lock_out_others(fd)
                self._fd = fd
            # Kept here, because another thread may make this file give up its own.
            opened = self._fd
            OPEN_FILES.add(self)
            return opened

    def give_up_file(self) -> bool:
        """Close the file until it is needed again, unless it is being written to or retired."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if self._fd >= 0 and not self._retired:
                self._let_others_write()
                self._fd = _GIVEN_UP
        finally:
            self.lock.release()
        return True

    def _lock_out_others(self, fd: int) -> None:
        """Lock the file against other writers, which would overwrite each other's data unnoticed.

        Forked children share the lock. File systems without locks are used without.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Another writer has opened the file, so this object must not delete it.
            self._created = False
            raise LogLockedError("somebody else writes to the file", str(self.path)) from None
        except OSError:
            return

    def _let_others_write(self) -> None:
        fd = self._fd
        if fd >= 0 and self._process == os.getpid():
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)

    def _withdraw(self) -> None:
        self.release()
        if self._created:
            self._place.resolve().unlink(missing_ok=True)

    @property
    def size(self) -> int:
        """The number of bytes written.

        Raises:
            LogStateError: The file has been closed.
        """
        if self._fd == CLOSED:
            raise closed(self.path)
        return self._size

    @property
    def modified_ns(self) -> int:
        """The time at which bytes were last cut off, ns since the epoch: appending changes none that are there."""
        return self._cut_ns

    def append(self, pieces: Iterable[Piece], length: int) -> int:
        """Write all of `pieces` at the end, or nothing, and return the new size.

        After any error the file is unchanged, or the error says that it could not be restored.

        Args:
            pieces: The bytes to write.
            length: Their total length.

        Raises:
            ValueError: The file would grow beyond 2**31 - 1 bytes.
            OSError: The disk is full, or the write failed.
            CorruptRecordError: Another process changed the length of the file.
        """
        at, fd = self.size, self.fileno()
        if length > MAX_BYTES - at:
            raise ValueError(f"{length} bytes more than the {at} of {self.path}: a segment has {MAX_BYTES}")
        # lseek instead of fstat: after fstat Linux takes a precise timestamp at the next write, which costs more
        # than the write itself.
        if not self._whole or os.lseek(fd, 0, os.SEEK_END) != self._length:
            self._check_length()
        self._whole = False
        try:
            for piece in pieces:
                at = write_at(fd, piece, at)
            # Set the length first: if a signal interrupts here, the excess is cut off later.
            self._length = max(self._length, at)
            self._size = at
        except BaseException as error:
            self._take_back(error, length)
            raise
        self._whole = True
        return at

    def _check_length(self) -> None:
        """Check that the file ends where this object's writes ended, so that the next append continues there."""
        if not self._whole:
            self._cut(self._size)
        found = os.lseek(self.fileno(), 0, os.SEEK_END)
        if found != self._length:
            raise CorruptRecordError(
                "somebody else has made the file longer or shorter",
                str(self.path),
                expected=f"{self._length} bytes",
                found=found,
            )

    def _take_back(self, error: BaseException, length: int) -> None:
        """Cut off the bytes of a failed append and report the outcome in `error`.

        Raises:
            OSError: In place of an `error` raised by os.pwrite, which does not name the file.
        """
        outcome, reserved = "the file is as it was before", self._length
        try:
            self._cut(self._size)
            if reserved > self._size:
                # If this fails, the preallocated space is lost, but the file is valid without it.
                with suppress(OSError):
                    lengthen(self.fileno(), reserved)
                self._length = os.fstat(self.fileno()).st_size
            if self._length < reserved:
                outcome += " but for what was preallocated"
        except OSError as second:
            outcome = f"what was written of them could not be cut off: {second}"
        what = f"appending {length} bytes to {self._size} failed, {outcome}"
        # Only the error of os.pwrite lacks a file name. All others come from the source of the bytes, or from a signal.
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, f"{error.strerror}; {what}", str(self.path)) from error
        error.add_note(f"{self.path}: {what}")

    def truncate(self, size: int) -> int:
        """Cut the file to `size` bytes, including a preallocated tail, and return the number of written bytes removed.

        A file of exactly that length is left untouched, so that its mtime stays.

        Raises:
            ValueError: `size` is negative or larger than the number of bytes written.
            OSError, CorruptRecordError: As `append`.
        """
        before = self.size
        size = whole("size", size, -INT64_MAX, INT64_MAX, BYTES)
        if not 0 <= size <= before:
            raise ValueError(f"{self.path} has {before} bytes and cannot be truncated to {size}")
        if size < self._length or not self._whole:
            self._check_length()
            self._cut(size)
        return before - size

    def _cut(self, size: int) -> None:
        fd, self._whole = self.fileno(), False
        # Set the size first, so that no reader requests bytes that are about to be removed.
        before, self._size = self._size, size
        # Set before and after: a reader that began before the file was cut may read bytes that are written there later.
        self._cut_ns = time.time_ns()
        try:
            with naming(self.path):
                os.ftruncate(fd, size)
        except BaseException:
            self._length = os.fstat(fd).st_size
            self._size = min(before, self._length)
            raise
        finally:
            self._cut_ns = time.time_ns()
        self._length = size
        self._whole = True

    def trim(self) -> None:
        """Cut off unused preallocated space.

        Raises:
            CorruptRecordError: As `append`.
        """
        with self.lock:
            self.truncate(self.size)

    def flush(self) -> None:
        """Sync the file to disk and, if it was created, its directory entry.

        Raises:
            OSError: The sync failed.
        """
        with naming(self.path):
            sync(self.fileno())
            if self._created:
                # The directory may be writable but not readable; then only the file is synced.
                with suppress(PermissionError):
                    sync_directory(self._place.parent)
                self._created = False

    def close(self) -> None:
        """Flush, trim and close; each step runs even if an earlier one fails. Closing twice does nothing."""
        with self.lock, ExitStack() as last:
            if not self.closed:
                last.callback(self.release)
                last.callback(self.trim)
                self.flush()

    def release(self) -> None:
        """Close without flushing or trimming."""
        with self.lock:
            # Closing alone does not unlock the file if a forked child has it open too.
            self._let_others_write()
            super().close()

    def moved_to(self, path: Path) -> None:
        """Record the new path of a renamed file."""
        super().moved_to(path)
        self._place = path.absolute()

    def unlink(self) -> bool:
        """Delete the file that was opened, and return whether it was at its path.

        Raises:
            OSError: The file cannot be deleted.
        """
        try:
            found = self._place.stat()
            if (found.st_dev, found.st_ino) != self._identity:
                return False
            self._place.unlink()
        except FileNotFoundError:
            return False
        return True

    def retire(self) -> None:
        """Stop writing: unlock the file now and close it, without flush or trim, once its last reader drops it."""
        self._retired = True
        # It stays open, because it may be deleted before its readers need it again.
        with suppress(OSError):
            self.fileno()
        self._let_others_write()

    def __del__(self) -> None:
        if getattr(self, "_fd", CLOSED) != CLOSED:
            if not self._retired and self._process == os.getpid():
                warnings.warn(f"{self.path} was written to and not closed", ResourceWarning, source=self, stacklevel=2)
            self._let_others_write()


def write_at(fd: int, piece: Piece, at: int) -> int:
    """Write all bytes at a position, and return the position after them."""
    while (taken := os.pwrite(fd, piece, at)) < len(piece):
        if not taken:
            raise OSError(EIO, "the system takes no bytes")
        at += taken
        piece = memoryview(piece)[taken:]
    return at + taken


def lengthen(fd: int, length: int) -> None:
    """Extend a file to `length` bytes and allocate their blocks if the file system supports it."""
    try:
        os.posix_fallocate(fd, 0, length)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in {EINVAL, EOPNOTSUPP}:
            raise
        os.ftruncate(fd, length)


def sync(fd: int) -> None:
    """Sync a file to disk; on macOS fsync alone leaves the bytes in the drive's cache."""
    if _FULL_SYNC is not None:
        with suppress(OSError):
            fcntl.fcntl(fd, _FULL_SYNC)
            return
    os.fsync(fd)


def sync_file(path: os.PathLike[str]) -> None:
    """Sync a file that is not open.

    Raises:
        OSError: The sync failed.
    """
    sync_and_close(os.open(path, os.O_RDONLY), path)


def sync_and_close(fd: int, path: os.PathLike[str]) -> None:
    """Sync a file to disk and close it.

    Raises:
        OSError: The sync failed.
    """
    try:
        with naming(path):
            sync(fd)
    finally:
        os.close(fd)
