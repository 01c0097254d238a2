from typing import Protocol

import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

LIMIT: int
END: int
ZEROED: int
TORN: int
SIZE_TOO_SMALL: int
BAD_MAGIC: int
SIZE_TOO_LARGE: int
HEADER_DTYPE: np.dtype[np.void]

class _ByteSource(Protocol):
    def view(self, position: int, length: int, /) -> memoryview: ...

def scan_headers(
    buffer: ReadableBuffer,
    position: int = 0,
    start: int = 0,
    limit: int = -1,
    strict_magic: bool = False,
    max_size: int = -1,
    span: int = -1,
) -> tuple[NDArray[np.void], int, int, int, int]: ...
def scan_file_headers(
    file: int | _ByteSource,
    start: int,
    end: int,
    limit: int = -1,
    span: int = -1,
    max_size: int = -1,
) -> tuple[NDArray[np.void], int, int, int, int]: ...
def find_file_entry(
    file: int | _ByteSource,
    start: int,
    end: int,
    offset: int,
    timestamp: int = ...,
    hint: int = -1,
) -> tuple[tuple[int, int, int, int, int, int] | None, int, int, int, int]: ...
def load_file_entry(
    file: int | _ByteSource,
    start: int,
    end: int,
    offset: int,
    timestamp: int = ...,
    hint: int = -1,
) -> tuple[tuple[NDArray[np.void], memoryview, int, int] | None, int, int, int, int]: ...
