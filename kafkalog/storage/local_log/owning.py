"""What is open to be written to belongs to the process and to the object that opened it.

log = kafkalog.open(path, "a")
os.fork()     the child has a copy of it: it may read, and leaves files, locks and checkpoints to its parent
del log       nobody can close it any more: it is given up as it is, so that others can open what it had open
"""

import os
import warnings
import weakref
from collections.abc import Callable
from typing import Protocol


class Owner(Protocol):
    """An object that has something open to be written to."""

    def _disown(self) -> None:
        """This is a forked child, alone in it: nothing is written any more, no lock of another thread waited for."""


# By their ids: a mapping cannot be hashed.
_owners: weakref.WeakValueDictionary[int, Owner] = weakref.WeakValueDictionary()


def own(
    owner: Owner, what: str, give_up: Callable[[], object]
) -> "weakref.finalize[[int, str, Callable[[], object]], Owner]":
    """Have `give_up` called, and a warning given, should `owner` be forgotten before the result is detached.

    what: is open. give_up: must not hold `owner`, nor wait for any other thread, as it is called wherever garbage is
    collected.
    """
    _owners[id(owner)] = owner
    lost = weakref.finalize(owner, _lose, os.getpid(), what, give_up)
    # A process that ends leaves all as a crash would, without this.
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
