"""The bytes of a file that somebody else may be writing.

sealed   a segment that has a successor is not written to any more: mapped once, views of it lent out
active   still appended to, and cut when it is rolled or recovered: read piece by piece, because touching a
         mapped page that has been cut off kills the process (SIGBUS)
"""

import mmap
import os
from pathlib import Path

from kafkalog.errors import CorruptRecordError


class ReadableFile:
    """An open file, by pieces. Views stay valid when the file is closed, replaced or deleted."""

    def __init__(self, path: str | os.PathLike[str], *, mapped: bool = False) -> None:
        """OSError: the path cannot be opened for reading."""
        self.path = Path(path)
        self.mapped = mapped
        self._map: memoryview | None = None
        self._fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

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
            raise CorruptRecordError(
                "the file became shorter while it was read",
                str(self.path),
                position,
                f"{position + length} bytes",
                position + len(piece),
            )
        return piece

    def _read(self, position: int, length: int) -> memoryview:
        fd = self.fileno()
        data = os.pread(fd, length, position)
        if len(data) == length:
            return memoryview(data)
        pieces = [data]
        while pieces[-1]:
            position += len(pieces[-1])
            length -= len(pieces[-1])
            pieces.append(os.pread(fd, length, position))
        return memoryview(b"".join(pieces))

    def _mapped_view(self, position: int, length: int) -> memoryview:
        if self._map is None or position + length > len(self._map):
            size = self.size
            self._map = memoryview(mmap.mmap(self.fileno(), size, prot=mmap.PROT_READ) if size else b"")
        return self._map[position : position + length]

    def close(self) -> None:
        """Give up the file descriptor; a map lives on as long as views of it do."""
        self._map = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()
