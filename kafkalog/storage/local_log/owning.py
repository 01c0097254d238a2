"""Ownership of writable logs across fork and garbage collection.

log = kafkalog.open(path, "a")
os.fork()     the child has a copy of the log: it may read, but leaves files, locks and checkpoints to its parent
del log       the log can no longer be closed: its files are released unflushed, so that others can open them
"""

import os
import warnings
import weakref
from collections.abc import Callable
from typing import Protocol


class Owner(Protocol):
    """An object with files open for writing."""

    def _disown(self) -> None:
        """Stop writing, in a forked child: no other threads exist here, so that their locks are not waited for."""


# Keyed by id, because owners that are mappings are not hashable.
_owners: weakref.WeakValueDictionary[int, Owner] = weakref.WeakValueDictionary()


def own(
    owner: Owner, what: str, give_up: Callable[[], object]
) -> "weakref.finalize[[int, str, Callable[[], object]], Owner]":
    """Call `give_up` and warn if `owner` is garbage collected before the returned finalizer is detached.

    Args:
        owner: The object with files open for writing.
        what: What is open, for the warning.
        give_up: Releases the files. It must not reference `owner` or wait for another thread, since it runs wherever
            garbage is collected.
    """
    _owners[id(owner)] = owner
    lost = weakref.finalize(owner, _lose, os.getpid(), what, give_up)
    # At exit this is not needed: the process leaves the files as a crash would.
    lost.atexit = False
    return lost


def _lose(process: int, what: str, give_up: Callable[[], object]) -> None:
    if process != os.getpid():
        return
    try:
        give_up()
    finally:
        warnings.warn(f"{what} was opened to be written to, and not closed", ResourceWarning, stacklevel=2)


def _disown_all() -> None:
    for owner in list(_owners.values()):
        owner._disown()
    _owners.clear()


os.register_at_fork(after_in_child=_disown_all)
