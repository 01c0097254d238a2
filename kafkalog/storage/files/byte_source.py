"""`ByteSource`: the bytes of one file, local or in a store.

    on a disk    ReadableFile   another process may be writing it: read at positions
                 MappedFile     no process writes to it any more: mapped, one window at a time
    in a store   RemoteFile     read in ranges, of which the last ones are cached

All readers of logs use it: message sets, `fsck`, Spark's tasks.
"""

import os
from abc import ABC, abstractmethod
from pathlib import Path

from kafkalog.errors import ChangedWhileReading, LogStateError


class ByteSource(ABC):
    """An open file, read at positions. Views stay valid when it is closed, replaced or deleted. Thread-safe.

    Attributes:
        path: The path shown in errors.
    """

    path: Path

    @property
    @abstractmethod
    def size(self) -> int:
        """The size in bytes: the current size, or for a file in a store the size when it was opened."""

    @property
    def modified_ns(self) -> int:
        """The time of the last change to bytes that were there before, ns since the epoch, or a later time.

        It is 0 for a file in a store, which is only replaced.
        """
        return 0

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the file has been closed."""

    @abstractmethod
    def view(self, position: int, length: int) -> memoryview:
        """Return bytes [position, position + length).

        Raises:
            ChangedWhileReading: The file has become too short for this range.
            LogStateError: The file has been closed.
            OSError: The file cannot be read.
        """

    @property
    def scanned(self) -> "int | ByteSource":
        """The object passed to the scan kernels; a descriptor is faster than views."""
        return self

    def ensure_there(self, position: int, length: int) -> None:  # noqa: B027 # what is in memory stays
        """Raise ChangedWhileReading if a view given out earlier must no longer be accessed."""

    @abstractmethod
    def close(self) -> None:
        """Close the file. Closing twice does nothing."""


def closed(path: str | os.PathLike[str]) -> LogStateError:
    """Return the error for access to a closed file or log."""
    return LogStateError("has been closed", os.fspath(path))


def became_shorter(path: str, position: int, length: int, read: int) -> ChangedWhileReading:
    """Return the error for a range of `length` bytes at a position of which only `read` bytes are left."""
    what = "the file became shorter while it was read"
    return ChangedWhileReading(what, path, position, f"{position + length} bytes", position + read)
