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

    A row with more records is a group of its own. A wrapper is assumed to have one message per 64 bytes, because only
    decompressing it shows their number. For a v2 batch, the count in its header is used, which may be wrong.

    Args:
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        records: The maximum number of records per group.

    Returns:
        The end of each group: the index of the row after its last one.
    """
