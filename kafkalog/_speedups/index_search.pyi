from _typeshed import ReadableBuffer

def search_entries(
    held: ReadableBuffer, stride: int, at: int, wide: bool, target: int, entries: int
) -> tuple[int, bytes]: ...
