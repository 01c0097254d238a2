"""The bytes of a file on this machine: `ReadableFile`, which somebody else may be writing, and `MappedFile`.

read     piece by piece: an active segment is cut when it is rolled or recovered, a sealed one when a follower
         truncates, and touching a mapped page that has been cut off kills the process (SIGBUS)
mapped   a file that nobody writes to or cuts any more, as in a backup: views of the map are lent out

An executor's memory limit counts maps, so that no more than a window is mapped at once, however long the file is.
A file may be closed while another thread reads it: `Descriptor`.
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
# A number that no file has.
CLOSED = -1
WINDOW_BYTES = 16 << 20
_PAGE = mmap.ALLOCATIONGRANULARITY
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


class ReadableFile(ByteSource):
    """An open file, read by pieces."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """OSError: the path cannot be opened for reading. NotALogError: it is a directory, a pipe or a device."""
        self.path = Path(path)
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
    def scanned(self) -> int:
        return self.fileno()

    @property
    def size(self) -> int:
        """Bytes, now."""
        return os.fstat(self.fileno()).st_size

    def view(self, position: int, length: int) -> memoryview:
        """Return bytes [position, position + length), read. Raises: as `ByteSource.view`."""
        data = memoryview(Block(length))
        filled = 0
        while filled < length and (count := os.preadv(self.fileno(), [data[filled:]], position + filled)):
            filled += count
        if filled < length:
            raise became_shorter(str(self.path), position, length, filled)
        return data.toreadonly()

    def close(self) -> None:
        """Give up the file descriptor, which is closed once no other thread is reading from it."""
        self._fd = CLOSED

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"an open file cannot be copied: {self.path}")


class MappedFile(ReadableFile):
    """An open file that nobody cuts, mapped a window at a time. A map lives on as long as views of it do."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """OSError, NotALogError: as `ReadableFile`."""
        super().__init__(path)
        # Where the window begins, and its bytes.
        self._window: tuple[int, memoryview] = 0, memoryview(b"")

    def view(self, position: int, length: int) -> memoryview:
        """Return bytes [position, position + length) of the map. Raises: as `ByteSource.view`."""
        size = self.size
        if position + length > size:
            # Cut since it was scanned: touching the map would kill the process.
            raise became_shorter(str(self.path), position, length, max(0, size - position))
        start, window = self._window
        if not start <= position <= position + length <= start + len(window):
            # The old window goes before the new one comes: memory is counted.
            self._window, window = (0, memoryview(b"")), memoryview(b"")
            start = position // _PAGE * _PAGE
            window = self._mapped(start, min(size, max(position + length, start + WINDOW_BYTES)))
            self._window = start, window
        return window[position - start : position - start + length]

    def _mapped(self, start: int, end: int) -> memoryview:
        if start == end:
            return memoryview(b"")
        return memoryview(mmap.mmap(self.fileno(), end - start, prot=mmap.PROT_READ, offset=start))

    def ensure_there(self, position: int, length: int) -> None:
        """Raise ShorterFileError if the file has been cut: touching a view of the map would kill the process."""
        size = self.size
        if size < position + length:
            raise became_shorter(str(self.path), position, length, max(0, size - position))

    def close(self) -> None:
        """Close the file, and let go of the window."""
        super().close()
        self._window = 0, memoryview(b"")
