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
) -> tuple[int, NDArray[np.int64], int, int, int]: ...
