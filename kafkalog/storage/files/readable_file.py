"""The bytes of a file that somebody else may be writing.

mapped   a file that nobody writes to or cuts any more, as in a backup: mapped once, views of it lent out
read     any other, piece by piece: an active segment is cut when it is rolled or recovered, a sealed one when a
         follower truncates, and touching a mapped page that has been cut off kills the process (SIGBUS)

A file may be closed while another thread reads it: `Descriptor`.
"""

import logging
import mmap
import os
import stat
from pathlib import Path

from kafkalog._speedups.buffer_pool import Block
from kafkalog.errors import CorruptRecordError, LogStateError, NotALogError

CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
# A number that no file has.
CLOSED = -1
_log = logging.getLogger(__name__)


class Descriptor(int):
    """The number of an open file, which is closed once nobody has this object any more.

    Python holds the arguments of a call until it returns. So whoever hands this object, not a copy of its number, to
    what reads or writes, does so in this very file: its number becomes no other file's meanwhile.
    """

    path: Path

    @classmethod
    def of(cls, number: int, path: Path) -> "Descriptor":
        """The descriptor `number` of the file at `path`, which belongs to this object from now on."""
        made = cls(number)
        made.path = path
        return made

    def __del__(self) -> None:
        try:
            os.close(self)
        except OSError:
            # The number is free all the same.
            _log.warning("%s cannot be closed", self.path, exc_info=True)

    def __reduce_ex__(self, _: object) -> tuple[object, ...]:
        raise TypeError(f"an open file cannot be copied: {self.path}")


class ReadableFile:
    """An open file, by pieces. Views stay valid when the file is closed, replaced or deleted."""

    def __init__(self, path: str | os.PathLike[str], *, mapped: bool = False) -> None:
        """OSError: the path cannot be opened for reading. NotALogError: it is a directory, a pipe or a device."""
        self.path = Path(path)
        self.mapped = mapped
        self._map: memoryview | None = None
        self._fd: int = Descriptor.of(self._open(), self.path)

    def _open(self) -> int:
        # Without waiting: opening a pipe would wait for somebody to write into it.
        return self._regular(os.open(self.path, os.O_RDONLY | CLOSE_ON_EXEC | os.O_NONBLOCK))

    def _regular(self, fd: int) -> int:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotALogError("not a regular file", str(self.path))
        return fd

    def moved_to(self, path: Path) -> None:
        """Somebody has renamed the file."""
        self.path = path

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def fileno(self) -> int:
        """The file descriptor, a `Descriptor`. LogStateError: the file has been closed."""
        fd = self._fd
        if fd < 0:
            raise closed(self.path)
        return fd

    @property
    def size(self) -> int:
        """Bytes, now."""
        return os.fstat(self.fileno()).st_size

    def view(self, position: int, length: int) -> memoryview:
        """Bytes [position, position + length). CorruptRecordError: the file has become shorter than that."""
        piece = self._mapped_view(position, length) if self.mapped else self._read(position, length)
        if len(piece) < length:
            raise became_shorter(str(self.path), position, length, len(piece))
        return piece

    def _read(self, position: int, length: int) -> memoryview:
        data = memoryview(Block(length))
        filled = 0
        while filled < length and (count := os.preadv(self.fileno(), [data[filled:]], position + filled)):
            filled += count
        return data[:filled].toreadonly()

    def _mapped_view(self, position: int, length: int) -> memoryview:
        if position + length > self.size:
            # Cut since it was scanned: reading tells how far, touching the map would kill the process.
            return self._read(position, length)
        if self._map is None or position + length > len(self._map):
            size = self.size
            self._map = memoryview(mmap.mmap(self.fileno(), size, prot=mmap.PROT_READ) if size else b"")
        return self._map[position : position + length]

    def close(self) -> None:
        """Give up the file descriptor, which is closed once no other thread is reading from it.

        A map lives on as long as views of it do.
        """
        self._map = None
        self._fd = CLOSED

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"an open file cannot be copied: {self.path}")


def closed(path: str | os.PathLike[str]) -> LogStateError:
    """A file, or a log, that has been closed is asked for something."""
    return LogStateError("has been closed", os.fspath(path))


def became_shorter(path: str, position: int, length: int, read: int) -> CorruptRecordError:
    """Of `length` bytes at a position, which had been there, only so many could be read."""
    what = "the file became shorter while it was read"
    return CorruptRecordError(what, path, position, f"{position + length} bytes", position + read)
