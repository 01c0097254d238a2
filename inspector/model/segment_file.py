"""A segment file that somebody else may be writing, cutting, replacing or deleting.

Opened once: what was opened can be read on after it has been deleted, or another file has taken its name.
"""

from __future__ import annotations

from pathlib import Path

from kafkalog import FileMessageSet

# What one batch may decompress to: the inspector as a whole has a few hundred megabytes.
DECOMPRESSION_LIMIT = 64 << 20


class SegmentFile:
    """The bytes and entries of a segment file. OSError, NotALogError: it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries = FileMessageSet(path, decompression_limit=DECOMPRESSION_LIMIT)
        self.source = self.entries.source
        self._identity = self._identity_now()

    def _identity_now(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @property
    def size(self) -> int:
        """Bytes, now."""
        return self.source.size

    @property
    def is_replaced(self) -> bool:
        """Whether another file, or none, has its path."""
        return self._identity_now() != self._identity

    @property
    def is_gone(self) -> bool:
        """Whether no file has its path any more."""
        return self._identity_now() is None

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer if the file ends before."""
        size = self.size
        if position >= size or length <= 0:
            return b""
        return bytes(self.source.view(position, min(length, size - position)))

    def part(self, position: int, end: int) -> FileMessageSet:
        """Return the entries of [position, end); an entry begins at `position`. They count from the file's start."""
        position = min(position, self.size)
        return self.entries.read(position, max(0, end - position))

    def close(self) -> None:
        """Give up the file."""
        self.entries.close()
