"""The bytes of a local file: `ReadableFile`, which another process may be writing, and `MappedFile`.

read     at positions: an active segment is truncated when it is rolled or recovered, a sealed one when a follower
         truncates, and access to a mapped page that was cut off kills the process (SIGBUS)
mapped   a file that no process writes to or truncates any more, as in a backup: `view` returns views of the map

Maps count towards an executor's memory limit; hence at most one window is mapped at a time, however long the file is.
A file may be closed while another thread reads it, see `Descriptor`.
"""

import logging
import mmap
import os
import stat
from pathlib import Path

from kafkalog._speedups.buffer_pool import Block
from kafkalog.errors import NotALogError
from kafkalog.storage.files.byte_source import ByteSource, became_shorter, closed

CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
# The descriptor of a closed file.
CLOSED = -1
WINDOW_BYTES = 16 << 20
_PAGE = mmap.ALLOCATIONGRANULARITY
_log = logging.getLogger(__name__)


class Descriptor(int):
    """The number of an open file, which is closed when this object is no longer referenced.

    Python holds a reference to the arguments of a call until it returns. A read or write that is passed this object,
    rather than a copy of its number, therefore always reaches this file: the number cannot be reused meanwhile.
    """

    path: Path

    @classmethod
    def of(cls, number: int, path: Path) -> "Descriptor":
        """Return a descriptor that owns `number`, an open file at `path`."""
        made = cls(number)
        made.path = path
        return made

    def __del__(self) -> None:
        try:
            os.close(self)
        except OSError:
            # The number is released even if closing fails.
            _log.warning("%s cannot be closed", self.path, exc_info=True)

    def __reduce_ex__(self, _: object) -> tuple[object, ...]:
        raise TypeError(f"an open file cannot be copied: {self.path}")


class ReadableFile(ByteSource):
    """An open local file that is read at positions."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file.

        Raises:
            OSError: The file cannot be opened for reading.
            NotALogError: The path is a directory, a pipe or a device.
        """
        self.path = path if isinstance(path, Path) else Path(path)
        self._fd: int = Descriptor.of(self._open(), self.path)

    def _open(self) -> int:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        return self._regular(os.open(self.path, os.O_RDONLY | CLOSE_ON_EXEC | os.O_NONBLOCK))

    def _regular(self, fd: int) -> int:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotALogError("not a regular file", str(self.path))
        return fd

    def moved_to(self, path: Path) -> None:
        """Record the new path of a renamed file."""
        self.path = path

    @property
    def closed(self) -> bool:
        return self._fd == CLOSED

    def fileno(self) -> int:
        """Return the file descriptor, a `Descriptor`.

        Raises:
            LogStateError: The file has been closed.
        """
        fd = self._fd
        if fd < 0:
            raise closed(self.path)
        return fd

    @property
    def scanned(self) -> int:
        return self.fileno()

    @property
    def size(self) -> int:
        """The current size in bytes."""
        # The file is read at positions only, so that the descriptor's own does not matter. `fstat` takes four times as
        # long.
        return os.lseek(self.fileno(), 0, os.SEEK_END)

    @property
    def modified_ns(self) -> int:
        """The mtime, ns since the epoch."""
        return os.fstat(self.fileno()).st_mtime_ns

    def view(self, position: int, length: int) -> memoryview:
        """Return bytes [position, position + length), read from the file. Raises: as `ByteSource.view`."""
        data = memoryview(Block(length))
        filled = 0
        while filled < length and (count := os.preadv(self.fileno(), [data[filled:]], position + filled)):
            filled += count
        if filled < length:
            raise became_shorter(str(self.path), position, length, filled)
        return data.toreadonly()

    def close(self) -> None:
        """Drop the descriptor, which is closed once no other thread is reading from it."""
        self._fd = CLOSED

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"an open file cannot be copied: {self.path}")


class MappedFile(ReadableFile):
    """An open file that no process truncates, mapped one window at a time. A map lives as long as views of it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file.

        Raises:
            OSError, NotALogError: As `ReadableFile`.
        """
        super().__init__(path)
        # The position and the bytes of the mapped window.
        self._window: tuple[int, memoryview] = 0, memoryview(b"")

    def view(self, position: int, length: int) -> memoryview:
        """Return bytes [position, position + length) of the map. Raises: as `ByteSource.view`."""
        self.ensure_there(position, length)
        start, window = self._window
        if not start <= position <= position + length <= start + len(window):
            # Drop the old window before the new one is mapped, to stay within the memory limit.
            self._window, window = (0, memoryview(b"")), memoryview(b"")
            start = position // _PAGE * _PAGE
            window = self._mapped(start, min(self.size, max(position + length, start + WINDOW_BYTES)))
            self._window = start, window
        return window[position - start : position - start + length]

    def _mapped(self, start: int, end: int) -> memoryview:
        if start == end:
            return memoryview(b"")
        return memoryview(mmap.mmap(self.fileno(), end - start, prot=mmap.PROT_READ, offset=start))

    def ensure_there(self, position: int, length: int) -> None:
        """Raise ChangedWhileReading if the file has been truncated: access to the map would kill the process."""
        size = self.size
        if size < position + length:
            raise became_shorter(str(self.path), position, length, max(0, size - position))

    def close(self) -> None:
        """Close the file and drop the window."""
        super().close()
        self._window = 0, memoryview(b"")
