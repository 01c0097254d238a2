"""The bytes of a file that somebody else may be writing.

mapped   a file that nobody writes to or cuts any more, as in a backup: mapped once, views of it lent out
read     any other, piece by piece: an active segment is cut when it is rolled or recovered, a sealed one when a
         follower truncates, and touching a mapped page that has been cut off kills the process (SIGBUS)
"""

import mmap
import os
import stat
from pathlib import Path

from kafkalog._speedups.arena import Block
from kafkalog.errors import CorruptRecordError, NotALogError

CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)


class ReadableFile:
    """An open file, by pieces. Views stay valid when the file is closed, replaced or deleted."""

    def __init__(self, path: str | os.PathLike[str], *, mapped: bool = False) -> None:
        """OSError: the path cannot be opened for reading. NotALogError: it is a directory, a pipe or a device."""
        self.path = Path(path)
        self.mapped = mapped
        self._map: memoryview | None = None
        self._fd = self._open()

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
        """The file descriptor. ValueError: the file has been closed."""
        if self._fd < 0:
            raise ValueError(f"{self.path} has been closed")
        return self._fd

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
        """Give up the file descriptor; a map lives on as long as views of it do."""
        self._map = None
        # Forgotten first: a descriptor is gone even where closing it fails, and may be another file's the moment after.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"an open file cannot be copied: {self.path}")

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


def became_shorter(path: str, position: int, length: int, read: int) -> CorruptRecordError:
    """Of `length` bytes at a position, which had been there, only so many could be read."""
    what = "the file became shorter while it was read"
    return CorruptRecordError(what, path, position, f"{position + length} bytes", position + read)
