import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

from kafkalog.errors import KafkaLogError

DEFAULT_LIMIT: int

def decompress(codec: int, data: ReadableBuffer, *, limit: int = ..., magic: int = 2) -> memoryview:
    """Decompress `data` as Kafka's reader of format `magic` does.

    Args:
        codec: The number of the codec.
        data: The compressed bytes.
        limit: The number of bytes that they may decompress to.
        magic: The format of the batch.

    Returns:
        The decompressed bytes, a read-only memoryview.

    Raises:
        InvalidRecordError: An incomplete or damaged stream, or an unknown codec.
        DecompressedSizeError: The data decompresses to more than `limit` bytes.
        MemoryError: There is too little memory.
        ValueError: `limit` is negative.
    """

def decompress_rows(
    buffer: ReadableBuffer, rows: NDArray[np.void], position: int, limit: int, enough: int
) -> tuple[memoryview, NDArray[np.int64], KafkaLogError | None]:
    """Decompress the regions of entries, one after the other, up to the first damage or until there are enough bytes.

    A region that is not compressed is copied. That of a v2 batch whose header counts no records is empty, as Kafka
    does not decompress it. That of a wrapper is its value.

    Args:
        buffer: The bytes of the entries.
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        position: The file position of the first byte of the buffer.
        limit: The number of bytes that one region may decompress to.
        enough: After at least so many decompressed bytes, no further region is decompressed.

    Returns:
        (data, bounds, error): the decompressed bytes, a read-only memoryview; where the regions begin and end in it,
        int64, shape (k + 1,), for the first k rows; the error of row k, an `InvalidRecordError` or
        `DecompressedSizeError` with the position of its entry, None if there is none.

    Raises:
        ValueError: A region is outside the buffer, or `limit` is negative.
        MemoryError: There is too little memory.
    """

def linked_lz4_rows(buffer: ReadableBuffer, rows: NDArray[np.void], position: int) -> list[int]:
    """Find the entries whose LZ4 blocks refer to earlier ones, which Kafka's Java clients do not read.

    Args:
        buffer: The bytes of the entries.
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        position: The file position of the first byte of the buffer.

    Returns:
        The indexes of their rows. Damaged wrappers, which no reader decompresses, are left out.

    Raises:
        ValueError: An entry is outside the buffer.
    """
