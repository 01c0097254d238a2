import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

NO_FAULT: int
UNDERRUN: int
VARINT_TOO_LONG: int
NEGATIVE_LENGTH: int
RECORD_LENGTH: int
HEADER_COUNT: int
HEADER_KEY_LENGTH: int
RECORDS_COUNT: int
MESSAGE_SIZE: int
NESTED_WRAPPER: int
MESSAGE_MAGIC: int
EMPTY_WRAPPER: int
WRAPPER_OFFSET: int
TRAILING_BYTES: int
TOO_MANY_HEADERS: int
NO_LIMIT: tuple[int, int]

def decode_batches(
    buffer: ReadableBuffer,
    rows: NDArray[np.void],
    starts: NDArray[np.int64] | None = None,
    ends: NDArray[np.int64] | None = None,
    position: int = 0,
    part: tuple[int, int] | None = None,
    after: tuple[int, int, int, int, int] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], int, tuple[int, int, int, int, int] | None]: ...
def find_record(
    buffer: ReadableBuffer,
    rows: NDArray[np.void],
    starts: NDArray[np.int64] | None,
    ends: NDArray[np.int64] | None,
    position: int,
    offset: int,
    timestamp: int,
    part: tuple[int, int] | None = None,
) -> tuple[tuple[int, int, int] | None, tuple[int, int, int, int, int] | None]: ...
def span_of(offsets: NDArray[np.int64], start: int, end: int) -> tuple[int, int, int, int]: ...
def gather(
    buffer: ReadableBuffer,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]: ...
