"""The bytes of a file in a store, read in ranges; each range is one request.

    requested     [64 KiB]                      [ 64 KiB][   256 KiB   ][     1 MiB      ...        8 MiB
                  random access: no read-ahead   ^ sequential: each range is larger than the one before

The last two ranges are cached, because a scan of headers goes back a little to read what it has found. Nothing is
copied to disk.
"""

import stat

from kafkalog.errors import NotALogError
from kafkalog.storage.files.byte_source import ByteSource, became_shorter, closed
from kafkalog.storage.remote_path import RemotePath

FIRST_BYTES = 64 << 10
MOST_BYTES = 8 << 20
_GROWTH = 4


class RemoteFile(ByteSource):
    """A file in a store, with the size it had when it was listed or opened."""

    def __init__(self, path: RemotePath, until: int | None = None) -> None:
        """Request the size of the file.

        Args:
            path: The file; a path from a listing knows its size.
            until: The position (bytes) up to which everything will be read, and nothing after it: the first range is
                long already. None: unknown.

        Raises:
            FileNotFoundError: The file does not exist.
            NotALogError: The path is a directory.
            OSError: The request failed.
        """
        self.path: RemotePath = path
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise NotALogError("not a regular file", str(path))
        self._size = found.st_size
        self._until = self._size if until is None else min(until, self._size)
        self._ahead = self._first = min(FIRST_BYTES, MOST_BYTES) if until is None else MOST_BYTES
        self._ranges: tuple[tuple[int, memoryview], ...] = ()
        self._closed = False

    @property
    def size(self) -> int:
        """The size in bytes when the file was opened."""
        return self._size

    @property
    def closed(self) -> bool:
        return self._closed

    def view(self, position: int, length: int) -> memoryview:
        """Return bytes [position, position + length). Raises: as `ByteSource.view`."""
        if self._closed:
            raise closed(self.path)
        for start, data in self._ranges:
            if start <= position and position + length <= start + len(data):
                return data[position - start : position - start + length]
        end = position + length
        if end > self._size:
            raise became_shorter(str(self.path), position, length, max(0, self._size - position))
        data = memoryview(self._fetched(position, max(end, min(position + self._wanted(position), self._until))))
        if len(data) < length:
            raise became_shorter(str(self.path), position, length, len(data))
        # A single batch that is longer is not cached.
        if len(data) <= MOST_BYTES:
            self._ranges = (position, data), *self._ranges[:1]
        return data[:length]

    def _wanted(self, position: int) -> int:
        """Return how many bytes to request: more with each sequential read."""
        if self._ranges:
            start, data = self._ranges[0]
            goes_on = start <= position <= start + len(data) + self._first
            self._ahead = min(MOST_BYTES, self._ahead * _GROWTH) if goes_on else self._first
        return self._ahead

    def _fetched(self, start: int, end: int) -> bytes:
        if start == end:
            return b""
        try:
            return self.path.read_range(start, end)
        except FileNotFoundError:
            raise
        except OSError:
            # Some stores reject a range after the end of a file that has become shorter.
            if (self.path.parent / self.path.name).stat().st_size <= start:
                return b""
            raise

    def close(self) -> None:
        """Close the file and drop the cached ranges."""
        self._closed = True
        self._ranges = ()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"an open file cannot be copied: {self.path}")
