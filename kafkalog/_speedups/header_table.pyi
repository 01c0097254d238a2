import numpy as np
from numpy.typing import NDArray

HEADER_DTYPE: np.dtype[np.void]

def first_unreadable(rows: NDArray[np.void]) -> int:
    """Find the first entry that has no known format or is shorter than the header of its format.

    Args:
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).

    Returns:
        The index of the row; n if there is none.
    """

def cut_rows(rows: NDArray[np.void], records: int) -> list[int]:
    """Divide rows into groups of at most `records` records each.

    A row with more records is a group of its own. Compressed records count twice, because decompressing them needs
    further memory. A wrapper is assumed to have one message per 64 bytes, because only decompressing it shows their
    number. For a v2 batch, the count in its header is used, which may be wrong.

    Args:
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        records: The maximum number of records per group.

    Returns:
        The end of each group: the index of the row after its last one.
    """

def stored_regions(rows: NDArray[np.void], position: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the regions of entries in a buffer, for records that are not compressed.

    The region of a v2 batch is the bytes after its 61-byte header; that of a v0/v1 message is the complete entry.

    Args:
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        position: The file position of the first byte of the buffer.

    Returns:
        (starts, ends): the start and the end of each region, as indexes in the buffer, int64, shape (n,).
    """
