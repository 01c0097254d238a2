"""Limit the number of open log files: a process may have more segments and partitions than open files.

    ring   segment that is read | file that is appended to | ...      each can open its file again at any time
             ^ checked first: if used since the last check, it moves to the end, else it gives up its file

Readers that hold a file keep it open.
"""

import resource
import threading
from collections import OrderedDict
from typing import Protocol
from weakref import ref

# A quarter of the descriptors that a process may have, within these bounds.
_SHARE = 4
_FEWEST, _MOST = 16, 16_384


class HasFile(Protocol):
    """An object that opens a file on demand, and sets `recently_used` whenever it uses it again."""

    recently_used: bool

    def give_up_file(self) -> bool:
        """Close the file until it is needed again, and return True; return False if it is in use."""


class OpenFiles:
    """The objects that have a file open, at most `limit`. Thread-safe; uses weak references."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._ring: OrderedDict[ref[HasFile], None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, opener: HasFile) -> None:
        """Register an object that has opened its file; others may have to drop theirs."""
        surplus = []
        with self._lock:
            self._ring[ref(opener)] = None
            while len(self._ring) > self.limit:
                surplus.append(self._next())
        # Without the lock: an opener has its own lock and may call `add` while it holds that.
        for each in surplus:
            if each is not None and not each.give_up_file():
                with self._lock:
                    self._ring[ref(each)] = None

    def _next(self) -> HasFile | None:
        while True:
            oldest, _ = self._ring.popitem(last=False)
            opener = oldest()
            if opener is None or not opener.recently_used:
                return opener
            opener.recently_used = False
            self._ring[oldest] = None


def files_allowed() -> int:
    """Return how many files may be open, based on the process's limit on descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, max(_FEWEST, soft // _SHARE))


OPEN_FILES = OpenFiles(files_allowed())
