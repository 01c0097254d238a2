"""A file that one writer appends to while any number of threads read what is there.

    written ...................... | zero bytes, where the file was preallocated
                                   ^ size: where the next append goes, and where readers of this object end

An append counts once the whole of it has been written: only then does `size` move. One that fails is cut off again.
What is written is written at `size`, wherever a descriptor that others share stands. The file is never mapped, see
`readable_file`.
"""

import fcntl
import os
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from errno import EFBIG, EINVAL, EIO, EOPNOTSUPP
from pathlib import Path
from typing import TypeAlias

from kafkalog._speedups.arguments import BYTES, INT32_MAX, INT64_MAX, whole
from kafkalog.errors import CorruptRecordError, LogLockedError, NotALogError
from kafkalog.storage.files.durable import naming, sync_directory
from kafkalog.storage.files.readable_file import CLOSE_ON_EXEC, ReadableFile

# Positions in a segment are Java ints.
MAX_BYTES = INT32_MAX
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)

Piece: TypeAlias = bytes | bytearray | memoryview


class AppendableFile(ReadableFile):
    """An open file that is read by pieces and written to at its end; created if it is missing.

    preallocate_bytes: as many bytes on disk are reserved for a file that is created. Appending, truncating and closing
    wait for one another; readers never wait.
    """

    def __init__(self, path: str | os.PathLike[str], *, preallocate_bytes: int = 0) -> None:
        """OSError: the path cannot be opened for writing, is larger than a segment may be, or the disk is full.

        NotALogError: it is a directory, a pipe or a device. LogLockedError: it is open for writing already.
        """
        preallocate_bytes = whole("preallocate_bytes", preallocate_bytes, 0, MAX_BYTES, BYTES)
        self._lock = threading.RLock()
        # Whether nothing lies behind `size` that an append left there.
        self._whole = True
        self._created = False
        self._retired = False
        # Whether the last byte written is known to end an entry.
        self._end_is_sound = False
        # A forked child, who has a copy, must not unlock it.
        self._process = os.getpid()
        # Where the file is, wherever the process goes.
        self._place = Path(path).absolute()
        super().__init__(path)
        try:
            self._begin(preallocate_bytes)
        except BaseException:
            self._withdraw()
            raise

    def _open(self) -> int:
        # Without waiting: opening a pipe would wait for somebody to read from it.
        flags = os.O_RDWR | CLOSE_ON_EXEC | os.O_NONBLOCK
        try:
            fd = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            try:
                return self._regular(os.open(self.path, flags))
            except IsADirectoryError:
                raise NotALogError("not a regular file", str(self.path)) from None
            except FileNotFoundError:
                # A link to a file that is not there.
                fd = os.open(self.path, flags | os.O_CREAT, 0o666)
        self._created = True
        return fd

    def _begin(self, preallocate_bytes: int) -> None:
        self._lock_out_others()
        with naming(self.path):
            found = os.fstat(self._fd)
            self._identity = found.st_dev, found.st_ino
            length = found.st_size
            self._end_is_sound = not length
            if length > MAX_BYTES:
                raise OSError(EFBIG, f"{length} bytes, more than a segment's {MAX_BYTES}")
            # What there is in a file that is not new has been written, zero bytes too.
            self._size = length
            if self._created and preallocate_bytes:
                lengthen(self._fd, preallocate_bytes)
                length = preallocate_bytes
            # Bytes of the file itself, as far as this object has made or met them.
            self._length = length

    def _lock_out_others(self) -> None:
        """Two who append would write over each other, and neither would see it.

        Forked children share the lock. A file system that knows no locks is done without.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Whoever has it, the file is no longer this object's to withdraw.
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
        """Bytes written. LogStateError: the file has been closed."""
        if self._fd < 0:
            self.fileno()
        return self._size

    def append(self, pieces: Iterable[Piece], length: int, ends_entry: bool, ensure_end: Callable[[], object]) -> int:
        """Write `pieces`, `length` bytes together, at the end: all of them, or none. Returns how many.

        ends_entry: whether an entry can follow. `ensure_end` raises where none can follow what is there; it is asked
        where that is not known.
        ValueError: the file would grow beyond 2**31 - 1 bytes. OSError: the disk is full, or refuses.
        CorruptRecordError: somebody else has made it longer or shorter. Whatever is raised, the file has been left as
        it was, or the error says that it could not be.
        """
        with self._lock:
            at = self._size if self._fd >= 0 else self.size
            if length > MAX_BYTES - at:
                raise ValueError(f"{length} bytes more than the {at} of {self.path}: a segment has {MAX_BYTES}")
            # Not by fstat: it makes Linux note the time of the next write exactly, which takes longer than to write.
            if not self._whole or os.lseek(self._fd, 0, os.SEEK_END) != self._length:
                self._check_length()
            if not self._end_is_sound and length:
                ensure_end()
            self._whole = False
            try:
                for piece in pieces:
                    taken = os.pwrite(self._fd, piece, at)
                    at += taken
                    if taken < len(piece):
                        at = self._write(memoryview(piece)[taken:], at)
                # The length first: should a signal end this in between, what is too long is cut off.
                self._length = max(self._length, at)
                self._size = at
            except BaseException as error:
                self._take_back(error, length)
                raise
            if length:
                self._end_is_sound = ends_entry
            self._whole = True
            return length

    def _write(self, rest: memoryview, at: int) -> int:
        """Write the rest of a piece, of which the system took not all at once, at a position; returns where it ends."""
        while rest:
            taken = os.pwrite(self._fd, rest, at)
            if not taken:
                raise OSError(EIO, "the system takes no bytes")
            at += taken
            rest = rest[taken:]
        return at

    def _is_at_path(self) -> bool:
        try:
            found = self._place.stat()
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def _check_length(self) -> None:
        """See that the next byte goes to the end of what this object has written."""
        if not self._whole:
            with naming(self.path):
                self._cut_back()
        found = os.lseek(self._fd, 0, os.SEEK_END)
        if found != self._length:
            raise CorruptRecordError(
                "somebody else has made the file longer or shorter",
                str(self.path),
                expected=f"{self._length} bytes",
                found=found,
            )

    def _take_back(self, error: BaseException, length: int) -> None:
        """Cut off what a failed append has written, and tell of it in `error`.

        OSError: in its place, if that is os.pwrite's.
        """
        outcome, reserved = "the file is as it was before", self._length
        try:
            self._cut_back()
            if self._length < reserved:
                outcome += " but for what was preallocated"
        except OSError as second:
            outcome = f"what was written of them could not be cut off: {second}"
        what = f"appending {length} bytes to {self._size} failed, {outcome}"
        # os.pwrite names no file. Anything else comes from where the bytes come from, or from a signal.
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, f"{error.strerror}; {what}", str(self.path)) from error
        error.add_note(f"{self.path}: {what}")

    def _cut_back(self) -> None:
        os.ftruncate(self._fd, self._size)
        self._length = max(self._length, self._size)
        if self._length > self._size:
            try:
                lengthen(self._fd, self._length)
            except OSError:
                # What was preallocated is lost; the file is sound without.
                self._length = os.fstat(self._fd).st_size
        self._whole = True

    def truncate(self, size: int) -> int:
        """Cut the file to `size` bytes, a preallocated tail too. Returns how many of the written ones went.

        A file of that very length is not touched, so that its mtime stays. ValueError: `size` negative or more than
        has been written. OSError, CorruptRecordError: as `append`.
        """
        with self._lock:
            before = self.size
            size = whole("size", size, -INT64_MAX, INT64_MAX, BYTES)
            if not 0 <= size <= before:
                raise ValueError(f"{self.path} has {before} bytes and cannot be truncated to {size}")
            if size < before:
                self._end_is_sound = not size
            if size < self._length or not self._whole:
                self._check_length()
                self._cut(size)
            return before - size

    def _cut(self, size: int) -> None:
        self._whole = False
        # First of all, so that no reader looks for bytes that are about to go.
        before, self._size = self._size, size
        try:
            with naming(self.path):
                os.ftruncate(self._fd, size)
        except BaseException:
            self._length = os.fstat(self._fd).st_size
            self._size = min(before, self._length)
            raise
        self._length = size
        self._whole = True

    def trim(self) -> None:
        """Cut off what was preallocated and not used. CorruptRecordError: as `append`."""
        with self._lock:
            if self.size < self._length or not self._whole:
                self._check_length()
                self._cut(self._size)

    def flush(self) -> None:
        """Have the system put all bytes on the disk, and the name of a file that was created. OSError: it failed."""
        with naming(self.path):
            sync(self.fileno())
            if self._created:
                # A directory that may be written and not read: its own flushing has to do.
                with suppress(PermissionError):
                    sync_directory(self._place.parent)
                self._created = False

    def close(self) -> None:
        """Flush, trim, close; each also where the one before fails. Closing twice does nothing."""
        with self._lock, ExitStack() as last:
            if self._fd >= 0:
                last.callback(self.release)
                last.callback(self.trim)
                self.flush()

    def release(self) -> None:
        """Close without flushing or trimming."""
        # Closing alone would not unlock it where a forked child has the file open too.
        self._let_others_write()
        super().close()

    def moved_to(self, path: Path) -> None:
        """Somebody has renamed the file."""
        super().moved_to(path)
        self._place = path.absolute()

    def unlink(self) -> bool:
        """Delete the file that was opened. Returns whether it was at its path. OSError: it cannot be deleted."""
        try:
            if self._is_at_path():
                self._place.unlink()
                return True
        except FileNotFoundError:
            pass
        return False

    def retire(self) -> None:
        """Nobody is going to write to it any more: it is closed, as it is, once the last who reads it lets go of it."""
        self._retired = True
        self._let_others_write()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0 and (getattr(self, "_retired", False) or self._process != os.getpid()):
            self.release()
        elif getattr(self, "_fd", -1) >= 0:
            warnings.warn(f"{self.path} was written to and not closed", ResourceWarning, source=self, stacklevel=2)
            self.release()


def lengthen(fd: int, length: int) -> None:
    """Make a file `length` bytes long, and have the blocks for them, where the file system can reserve any."""
    try:
        os.posix_fallocate(fd, 0, length)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in {EINVAL, EOPNOTSUPP}:
            raise
        os.ftruncate(fd, length)


def sync(fd: int) -> None:
    """fsync; on macOS that leaves the bytes in the drive's cache, and another call gets them out."""
    if _FULL_SYNC is not None:
        with suppress(OSError):
            fcntl.fcntl(fd, _FULL_SYNC)
            return
    os.fsync(fd)


def sync_file(path: os.PathLike[str]) -> None:
    """Flush a file that is not open. OSError: it failed."""
    sync_and_close(open_for_sync(path), path)


def open_for_sync(path: os.PathLike[str]) -> int:
    """A descriptor for `sync_and_close`. OSError: the file cannot be opened."""
    return os.open(path, os.O_RDONLY | CLOSE_ON_EXEC)


def sync_and_close(fd: int, path: os.PathLike[str]) -> None:
    """Put a file's bytes on the disk, and close it. OSError: it failed."""
    try:
        with naming(path):
            sync(fd)
    finally:
        os.close(fd)
