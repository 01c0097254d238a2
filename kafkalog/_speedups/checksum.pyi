import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

def first_invalid(buffer: ReadableBuffer, rows: NDArray[np.void], position: int = 0) -> tuple[int, int]: ...
