"""`ByteSource`: the bytes of one file, wherever it lies.

    LocalFile    ReadableFile   a file of this machine that somebody else may be writing: read
                 MappedFile     one that nobody writes to any more: mapped, a window at a time
    in a store   RemoteFile     read by ranges, the last ones kept

Everything that reads a log reads through it: message sets, `fsck`, Spark's tasks.
"""

import os
from abc import ABC, abstractmethod
from pathlib import Path

from kafkalog.errors import CorruptRecordError, LogStateError


class ShorterFileError(CorruptRecordError):
    """Bytes of a file that were there are not there any more."""


class ByteSource(ABC):
    """An open file, by pieces. Views stay valid when it is closed, replaced or deleted. Any thread may use it.

    path: as errors name it.
    """

    path: Path

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of the file: now, or of one in a store, when it was opened."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether it has been closed."""

    @abstractmethod
    def view(self, position: int, length: int) -> memoryview:
        """Return bytes [position, position + length).

        Raises:
            ShorterFileError: The file has become shorter than that.
            LogStateError: It has been closed.
            OSError: It cannot be read.
        """

    @property
    def scanned(self) -> "int | ByteSource":
        """What the kernels that scan a file read from: a descriptor is faster than views."""
        return self

    def ensure_there(self, position: int, length: int) -> None:  # noqa: B027 # what is in memory stays
        """Raise ShorterFileError if a view that was taken may not be touched any more."""

    @abstractmethod
    def close(self) -> None:
        """Close the file. Closing twice does nothing."""


def closed(path: str | os.PathLike[str]) -> LogStateError:
    """Return the error of a file, or a log, that is asked for something after it was closed."""
    return LogStateError("has been closed", os.fspath(path))


def became_shorter(path: str, position: int, length: int, read: int) -> ShorterFileError:
    """Return the error where of `length` bytes at a position, which had been there, only `read` could be read."""
    what = "the file became shorter while it was read"
    return ShorterFileError(what, path, position, f"{position + length} bytes", position + read)
