"""Memory in front of an inaccessible page: a read one byte too far is a crash, not a lucky zero."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache

NO_ACCESS = 0


class GuardedMemory:
    """`size` bytes, the last of them right before an inaccessible page."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, self.size + mmap.PAGESIZE)
        guard = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + self.size
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        if protect(ctypes.c_void_p(guard), ctypes.c_size_t(mmap.PAGESIZE), NO_ACCESS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def lay(self, data: bytes) -> memoryview:
        """Return a copy of `data` whose last byte is the last accessible one; it lives until the next call."""
        start = self.size - len(data)
        self._map[start : self.size] = data
        return memoryview(self._map)[start : self.size].toreadonly()


@cache
def _shared(pages: int) -> GuardedMemory:
    return GuardedMemory(pages * mmap.PAGESIZE)


def guarded(data: bytes) -> memoryview:
    """Return a copy of `data` in front of an inaccessible page; it lives until the next call for as many pages."""
    return _shared(max(16, 1 << (len(data) // mmap.PAGESIZE).bit_length())).lay(data)
