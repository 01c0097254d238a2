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
) -> bytes | None: ...
