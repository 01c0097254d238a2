from typing import Protocol

import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

LIMIT: int
END: int
ZEROED: int
TORN: int
SIZE_TOO_SMALL: int
BAD_MAGIC: int
SIZE_TOO_LARGE: int
HEADER_DTYPE: np.dtype[np.void]

class _ByteSource(Protocol):
    def view(self, position: int, length: int, /) -> memoryview: ...

def scan_headers(
    buffer: ReadableBuffer,
    position: int = 0,
    start: int = 0,
    limit: int = -1,
    strict_magic: bool = False,
    max_size: int = -1,
    span: int = -1,
) -> tuple[NDArray[np.void], int, int, int, int]:
    """Scan the complete entries of buffer[start:] by their headers.

    The GIL is released.

    Args:
        buffer: The bytes of the log.
        position: The file position of buffer[0].
        start: The index in `buffer` of the first entry.
        limit: The maximum number of rows; -1: no limit.
        strict_magic: Whether to stop at an entry whose magic is not 0, 1 or 2, as Kafka does in memory.
        max_size: The maximum value of a size field; -1: no limit.
        span: Stop when this number of bytes has been scanned; -1: no limit.

    Returns:
        (rows, status, at, expected, found):

        - rows: One row per entry, `HEADER_DTYPE`, shape (n,).
        - status: Why the scan stopped: LIMIT, END, ZEROED, TORN, SIZE_TOO_SMALL, BAD_MAGIC or SIZE_TOO_LARGE.
        - at: The index in `buffer` where it stopped.
        - expected, found: Two numbers whose meaning depends on the status: a size or magic that was expected, and the
          one found. DESIGN.md lists them.

    Raises:
        ValueError: `start` is outside the buffer.
    """

def scan_file_headers(
    file: int | _ByteSource,
    start: int,
    end: int,
    limit: int = -1,
    span: int = -1,
    max_size: int = -1,
) -> tuple[NDArray[np.void], int, int, int, int]:
    """Scan the complete entries in bytes [start, end) of an open file by their headers.

    Little more than the headers is read. If the file ends before `end`, or becomes shorter during the scan, its last
    byte ends the scan. The GIL is released, except while `ByteSource.view` is called.

    Args:
        file: A file descriptor, or a `ByteSource`.
        start: The file position of the first entry.
        end: The file position after the last byte to scan.
        limit: See `scan_headers`.
        span: See `scan_headers`.
        max_size: See `scan_headers`.

    Returns:
        (rows, status, at, expected, found), see `scan_headers`; `at` is a file position.

    Raises:
        ValueError: `start` is negative, or greater than `end`.
        OSError: The file cannot be read. An exception of the `ByteSource` is raised as it is.
    """

def find_file_entry(
    file: int | _ByteSource,
    start: int,
    end: int,
    offset: int,
    timestamp: int = ...,
    hint: int = -1,
) -> tuple[tuple[int, int, int, int, int, int] | None, int, int, int, int]:
    """Find the first entry with a last offset and a largest timestamp of at least the given values.

    Bytes [start, end) of an open file are scanned. Without a timestamp, a damaged last offset must not hide the entries
    that follow. So the entry then either begins at `offset` or after it, or has a last offset of at least `offset` and
    is not followed by an entry that begins at `offset` or before it. For an entry of magic 0 or 1, the last offset is
    used as the offset at which it begins. The GIL is released, except while `ByteSource.view` is called.

    Args:
        file: A file descriptor, or a `ByteSource`.
        start: The file position of the first entry.
        end: The file position after the last byte to scan.
        offset: The smallest last offset of the entry.
        timestamp: The smallest value of its largest timestamp, ms; -2**63: search for the offset only.
        hint: The largest offset at which the entry at `start` may begin; -1: any. If that entry begins at another
            offset than 0..hint, or its magic is not 0, 1 or 2, the scan stops there with the status LIMIT.

    Returns:
        (row, status, at, expected, found):

        - row: (position, size, base offset, last offset, largest timestamp, magic) of the entry, or None if there is
          none. The base offset of a wrapper is -1.
        - status, at, expected, found: See `scan_file_headers`; the status is LIMIT if an entry was found.

    Raises:
        ValueError: `start` is negative, or greater than `end`.
        OSError: The file cannot be read. An exception of the `ByteSource` is raised as it is.
    """

def load_file_entry(
    file: int | _ByteSource,
    start: int,
    end: int,
    offset: int,
    timestamp: int = ...,
    hint: int = -1,
) -> tuple[tuple[NDArray[np.void], memoryview, int, int] | None, int, int, int, int]:
    """Find an entry as `find_file_entry` does, and read its bytes.

    Args:
        file: A file descriptor, or a `ByteSource`.
        start: See `find_file_entry`.
        end: See `find_file_entry`.
        offset: See `find_file_entry`.
        timestamp: See `find_file_entry`.
        hint: See `find_file_entry`.

    Returns:
        (entry, status, at, expected, found):

        - entry: (row, view, position, size), or None if there is none: the row of the entry, `HEADER_DTYPE`, shape
          (1,); a read-only memoryview of its bytes; its file position; its size in bytes. The view is shorter than the
          size if the file has become shorter since the header was read.
        - status, at, expected, found: See `find_file_entry`.

    Raises:
        ValueError: `start` is negative, or greater than `end`.
        OSError: The file cannot be read. An exception of the `ByteSource` is raised as it is.
    """
