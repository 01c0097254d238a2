import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

def json_lines(
    buffer: ReadableBuffer,
    offset: NDArray[np.int64],
    timestamp: NDArray[np.int64],
    key_start: NDArray[np.int64],
    key_length: NDArray[np.int64],
    value_start: NDArray[np.int64],
    value_length: NDArray[np.int64],
    headers_start: NDArray[np.int64],
    headers_length: NDArray[np.int64],
    head: bytes,
    label: bytes,
    producer_id: NDArray[np.int64],
    producer_epoch: NDArray[np.int64],
    sequence: NDArray[np.int64],
    state: NDArray[np.uint8],
) -> bytes | None:
    """Encode records as lines of JSON. The GIL is released.

    Args:
        buffer: The bytes that starts refer to.
        offset: The offsets, int64, shape (n,), as all arrays up to headers_length.
        timestamp: The timestamps, ms.
        key_start: The index in `buffer` of each key.
        key_length: The length in bytes of each key; -1 = null.
        value_start: The index in `buffer` of each value.
        value_length: The length in bytes of each value; -1 = null.
        headers_start: The index in `buffer` of the headers of each record.
        headers_length: Their length in bytes; 0 = no headers.
        head: "{" and the fields that are the same in every line.
        label: The timestamp type.
        producer_id: The producer ids, int64, shape (n,); a record with -1 has no field of a producer. If no record has
            a producer id, the shape of this array and the following ones may be (0,).
        producer_epoch: The producer epochs; -1 becomes null.
        sequence: The sequences; -1 becomes null.
        state: The index of the transaction state in `transaction_states.STATES`, uint8; 0 = no field.

    Returns:
        The lines as bytes; None if a key, a value or a header is not UTF-8.

    Raises:
        ValueError: A key, value or header is outside the buffer, or the arrays differ in length.
    """
