from _typeshed import ReadableBuffer

def search_entries(
    held: ReadableBuffer | int, stride: int, at: int, wide: bool, target: int, entries: int
) -> tuple[int, bytes]: ...
