from _typeshed import ReadableBuffer

def search_entries(
    source: ReadableBuffer | int, stride: int, at: int, wide: bool, target: int, entries: int
) -> tuple[int, bytes]:
    """Count the entries whose field is at most `target`, and return the last of them.

    The field is a signed big-endian integer, and is in ascending order. The GIL is released while a file is read.

    Args:
        source: A buffer, or the descriptor of a file, that begins with the entries.
        stride: The size of an entry, bytes; at most 2048.
        at: The position of the field in an entry, bytes.
        wide: Whether the field has 8 bytes; if not, it has 4.
        target: The value to compare with.
        entries: The number of entries to search. If the source has fewer, those are searched.

    Returns:
        (count, entry): `entry` is the bytes of the last entry that is counted; b"" if there is none.

    Raises:
        TypeError: `source` is neither a buffer nor a descriptor.
        ValueError: The field is not inside an entry, an entry is too large, or `entries` is negative.
        OSError: The file cannot be read.
    """
