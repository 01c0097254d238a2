from collections.abc import Sized
from typing import final

@final
class Block(Sized):
    """A writable buffer with undefined content, whose memory comes from the pool and returns to it.

    Args:
        size: The size in bytes.

    Attributes:
        size: The size in bytes.

    Raises:
        ValueError: `size` is negative.
        MemoryError: There is not enough memory.
    """

    def __new__(cls, size: int) -> Block: ...
    @property
    def size(self) -> int: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
