import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

def first_invalid(buffer: ReadableBuffer, rows: NDArray[np.void], position: int = 0) -> tuple[int, int]:
    """Find the first entry whose stored checksum is not that of its bytes.

    An entry that is too short for the header of its format is invalid, too.

    Args:
        buffer: The bytes of the entries.
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        position: The file position of buffer[0].

    Returns:
        (index, computed): the index of the row, and the checksum of its bytes, 0 for an entry that is too short. If all
        entries are valid, (n, 0).

    Raises:
        ValueError: An entry is outside the buffer.
    """

def first_unsound(
    buffer: ReadableBuffer, rows: NDArray[np.void], position: int, check_crcs: bool
) -> tuple[int, int, bool, bool]:
    """Find the first entry that is unreadable or whose checksum is wrong.

    An entry is unreadable if its magic is not 0, 1 or 2, or if it is a v2 batch of less than 61 bytes.

    Args:
        buffer: The bytes of the entries.
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        position: The file position of buffer[0].
        check_crcs: Whether to check checksums.

    Returns:
        (index, computed, compressed, control):

        - index: The index of the row; n if all entries are sound.
        - computed: The checksum of its bytes; 0 for an unreadable entry, and if all entries are sound.
        - compressed: Whether any entry before it is compressed.
        - control: Whether any entry before it is a v2 control batch.

    Raises:
        ValueError: An entry is outside the buffer.
    """

def crc32(data: ReadableBuffer, value: int = 0, /) -> int:
    """Compute a CRC-32 checksum of data.

      value
        Starting value of the checksum.

    The returned checksum is an integer.
    """
