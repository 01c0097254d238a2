import numpy as np
from numpy.typing import NDArray

def index_entries(
    rows: NDArray[np.void],
    first_offset: int,
    last_offset: int,
    interval: int,
    indexed: int,
    timestamp: int,
    offset: int,
) -> tuple[int, NDArray[np.int64], int, int, int]:
    """Return the index entries for consecutive batches of a segment.

    A batch gets an index entry if it begins more than `interval` bytes after the last batch that has one. The function
    stops before the first batch whose last offset is not in first_offset..last_offset. To continue a segment, pass the
    last three results to the next call.

    Args:
        rows: The rows of the batches, `HEADER_DTYPE`, shape (m,), in the order of their positions.
        first_offset: The smallest last offset allowed.
        last_offset: The largest last offset allowed.
        interval: The distance between index entries, bytes.
        indexed: The file position of the last batch that has an index entry.
        timestamp: The largest timestamp before the first row, ms.
        offset: The last offset of the first batch with that timestamp.

    Returns:
        (count, entries, indexed, timestamp, offset):

        - count: The number of rows before the one at which the function stopped.
        - entries: One column per index entry, int64, shape (3, n): the index of the row, the largest timestamp so far,
          and its offset.
        - indexed, timestamp, offset: The values after the last of these rows.

    Raises:
        ValueError: `interval` is negative.
    """
