"""A command that writes ends in order when it is told to end: SIGTERM, and SIGHUP when its terminal goes away.

Each is raised as an exception, as Ctrl-C is, so that what is open is closed. The exit code is 128 and the signal's
number, which is what a shell makes of a process that a signal ended.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(BaseException):
    """The process was told to end, by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number

    def __str__(self) -> str:
        return f"ended by {signal.Signals(self.exit_code - 128).name}"


@contextmanager
def raised() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise `Terminated`, once: the end may take its time. nohup stays in force."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    caught = [number for number, handler in before.items() if handler is not signal.SIG_IGN]

    def end(number: int, _: FrameType | None) -> None:
        for each in caught:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated(number)

    try:
        for number in caught:
            signal.signal(number, end)
        yield
    finally:
        for number in caught:
            signal.signal(number, before[number])
