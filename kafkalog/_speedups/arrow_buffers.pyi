import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

def gather_headers(
    buffer: ReadableBuffer,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> tuple[
    NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]
]:
    """Convert the headers of n records to the buffers of an Arrow list<struct<key, value>>.

    Args:
        buffer: The bytes that `starts` refers to.
        starts: The index in `buffer` of the headers of each record, int64, shape (n,).
        lengths: The length in bytes of the headers of each record, int64, shape (n,); 0 or less: no headers.

    Returns:
        (ends, key_ends, keys, value_ends, values, present), for m headers:

        - ends: The number of headers up to the end of each record, from 0 on, int32, shape (n + 1,).
        - key_ends: The total length in bytes of the keys up to each header, from 0 on, int32, shape (m + 1,).
        - keys: The bytes of all keys, uint8; they may be invalid UTF-8.
        - value_ends: The same as key_ends, for the values.
        - values: The bytes of all values, uint8.
        - present: 0 where a value is null, else 1, uint8, shape (m,).

    Raises:
        OverflowError: The headers have more than 2**31 - 1 bytes.
        ValueError: A range is outside the buffer, the arrays differ in length, or the bytes are not valid headers,
            because they have changed since they were decoded.
    """
