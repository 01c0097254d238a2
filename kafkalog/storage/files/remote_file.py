"""The bytes of a file in a store, by ranges, each of which is a request.

    asked for     [64 KiB]                      [ 64 KiB][   256 KiB   ][     1 MiB      ...        8 MiB
                  somewhere: no more than that   ^ and on from there: more each time

The last two ranges are kept: a scan of headers goes back a little for what it has found. Nothing is copied to a disk.
"""

import stat

from kafkalog.errors import NotALogError
from kafkalog.storage.files.byte_source import ByteSource, became_shorter, closed
from kafkalog.storage.remote_path import RemotePath

FIRST_BYTES = 64 << 10
MOST_BYTES = 8 << 20
_GROWTH = 4


class RemoteFile(ByteSource):
    """A file in a store, as long as it was when it was listed or opened."""

    def __init__(self, path: RemotePath, until: int | None = None) -> None:
        """Ask for the size of the file.

        Args:
            path: The file; one out of a listing knows its size.
            until: All up to this position (bytes) is going to be read, and nothing behind it: ranges are long from the
                first on. None: nobody knows.

        Raises:
            FileNotFoundError: There is no such file.
            NotALogError: It is a directory.
            OSError: The store refuses.
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
        """Bytes, when it was opened."""
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
        # A single batch that is longer is given out, and not kept.
        if len(data) <= MOST_BYTES:
            self._ranges = (position, data), *self._ranges[:1]
        return data[:length]

    def _wanted(self, position: int) -> int:
        """Return how many bytes to ask for: more each time for who reads on from the last range."""
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
            # Some stores refuse a range behind the end of a file that has become shorter.
            if (self.path.parent / self.path.name).stat().st_size <= start:
                return b""
            raise

    def close(self) -> None:
        """Let go of what is kept."""
        self._closed = True
        self._ranges = ()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"an open file cannot be copied: {self.path}")
