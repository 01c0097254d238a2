"""SIGTERM and SIGHUP as exceptions, so that a command ends as after Ctrl-C: logs are closed cleanly, workers are ended.

The exit code is 128 plus the signal's number, as shells report a process that a signal ended.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(BaseException):
    """A signal ended the process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number

    def __str__(self) -> str:
        return f"ended by {signal.Signals(self.exit_code - 128).name}"


@contextmanager
def raised() -> Iterator[None]:
    """Within the context, raise `Terminated` on SIGTERM and SIGHUP.

    Later signals are ignored, so that cleanup is not interrupted. A signal that is already ignored (nohup) stays
    ignored.
    """
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
