import numpy as np
from numpy.typing import NDArray

def count_rows(
    rows: NDArray[np.void], counts: NDArray[np.int64] | None = None, before: int = ...
) -> tuple[int, int, int, int, int, int, list[int], set[int]]:
    """Sum up the headers of consecutive entries.

    Args:
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        counts: The number of records of each entry, int64, shape (n,); None: use the counts in the headers, and 1 for
            a message or wrapper.
        before: The last offset of the entry before the first row; -2**63: unknown.

    Returns:
        (control_batches, control_records, records, more, first, last, codecs, magics):

        - control_batches: The number of control batches.
        - control_records: The number of records in control batches.
        - records: The number of other records.
        - more: The most records that all wrappers can have in addition to one each, according to the offsets since the
          entry before; -1: unknown.
        - first, last: The smallest and the largest timestamp of the records, ms; -1: none.
        - codecs: The number of entries of each codec from 0 to 7, a list.
        - magics: The magics of the entries, a set.

    Raises:
        ValueError: The length of `counts` is not that of `rows`.
    """
