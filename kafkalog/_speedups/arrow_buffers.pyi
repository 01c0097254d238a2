import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

def gather_headers(
    buffer: ReadableBuffer,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> tuple[
    NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]
]: ...
