from _typeshed import ReadableBuffer

def search_entries(
    source: ReadableBuffer | int, stride: int, at: int, wide: bool, target: int, entries: int
) -> tuple[int, bytes]: ...
