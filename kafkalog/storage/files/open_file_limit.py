"""Limit the number of open log files: a log may have more sealed segments than a process may have open files.

    ring   segment | segment | segment | ...      each has an open file that can be reopened at any time
             ^ checked first: if used since the last check, it moves to the end, else its file is dropped

A file is dropped by removing a reference: readers that hold it keep it open. The same class limits the total size of
the cached indexes.
"""

import resource
import threading
from collections import deque
from typing import Protocol
from weakref import ref

# A quarter of the descriptors that a process may have, within these bounds.
_SHARE = 4
_FEWEST, _MOST = 16, 1024


class HasFile(Protocol):
    """An object that opens or caches a file on demand, and sets `recently_used` whenever it uses it again."""

    recently_used: bool

    def give_up_file(self) -> None:
        """Drop the file, which can be reopened."""


class OpenFiles:
    """The objects that have a file open, limited by their total weight (`limit`). Thread-safe; uses weak references."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._weight = 0
        self._ring: deque[tuple[ref[HasFile], int]] = deque()
        self._lock = threading.Lock()

    def add(self, opener: HasFile, weight: int = 1) -> None:
        """Register an object, not registered yet, that has opened its file; others may have to drop theirs."""
        surplus = []
        with self._lock:
            self._ring.append((ref(opener), weight))
            self._weight += weight
            while self._weight > self.limit:
                surplus.append(self._next())
        # Without the lock: an opener has its own lock and may call `add` while it holds that.
        for each in surplus:
            if each is not None:
                each.give_up_file()

    def _next(self) -> HasFile | None:
        for _ in range(len(self._ring)):
            oldest, weight = self._ring.popleft()
            opener = oldest()
            if opener is None or not opener.recently_used:
                self._weight -= weight
                return opener
            opener.recently_used = False
            self._ring.append((oldest, weight))
        oldest, weight = self._ring.popleft()
        self._weight -= weight
        return oldest()


def files_allowed() -> int:
    """Return how many files may be open, based on the process's limit on descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, max(_FEWEST, soft // _SHARE))


SEALED_SEGMENTS = OpenFiles(files_allowed())
