"""How many sealed segments have their log file open: a log may have more of them than a process may have open files.

    ring   segment | segment | segment | ...      each has a file open that can be opened again at any time
             ^ asked first: used since it was last asked? then it goes to the end, else its file is given up

Giving up is dropping a reference: what a reader still holds stays open until the reader lets go of it. The copies of
indexes are held to a number of bytes in the same way.
"""

import resource
import threading
from collections import deque
from typing import Protocol
from weakref import ref

# Of the descriptors that a process may have.
_SHARE = 4
_FEWEST, _MOST = 16, 1024


class HasFile(Protocol):
    """What opens a file, or reads all of it, when it needs it; `recently_used` is set when it uses it again."""

    recently_used: bool

    def give_up_file(self) -> None:
        """Drop the file, which can be opened again."""


class OpenFiles:
    """Those that have a file open, `limit` at most, or as many as weigh no more together. Any thread may call.

    Kept by weak references.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._weight = 0
        self._ring: deque[tuple[ref[HasFile], int]] = deque()
        self._lock = threading.Lock()

    def add(self, opener: HasFile, weight: int = 1) -> None:
        """Note that `opener`, which is not noted yet, has its file open; others may have to give up theirs."""
        surplus = []
        with self._lock:
            self._ring.append((ref(opener), weight))
            self._weight += weight
            while self._weight > self.limit:
                surplus.append(self._next())
        # Outside of the lock: an opener has one of its own, under which it may be about to come here.
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
    """How many may be open, as the process's limit on descriptors has it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, max(_FEWEST, soft // _SHARE))


SEALED_SEGMENTS = OpenFiles(files_allowed())
