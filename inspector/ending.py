"""The end of the program from outside: by a signal, or because its terminal has gone.

A signal asks for an orderly end, which restores the terminal. Textual waits for ever where a terminal takes nothing
more, and reads in circles from one that has gone: both are noticed by a timer signal, whose handler runs even then.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import termios
import time
from collections.abc import Callable

# How often the terminal is looked at.
LOOK_SECONDS = 0.5
# How long an orderly end may take.
ORDERLY_SECONDS = 1.0


def end_from_outside(exit_with: Callable[[int], object]) -> None:
    """End the program on SIGTERM and SIGHUP, and when its terminal has gone. Call it in the event loop.

    Args:
        exit_with: Begins the orderly end, with an exit code.
    """
    loop = asyncio.get_running_loop()
    code, latest = 128 + signal.SIGHUP, math.inf

    def look(*_: object) -> None:
        if time.monotonic() > latest or _has_gone():
            os._exit(code)

    def end(number: int, _: object) -> None:
        nonlocal code, latest
        code, latest = 128 + number, time.monotonic() + ORDERLY_SECONDS
        loop.call_soon_threadsafe(exit_with, code)

    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup stays in force, as long as there is a terminal.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)


def stop_looking() -> None:
    """Stop the timer: the program has ended by itself, and Python is about to restore the default handlers."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def _has_gone() -> bool:
    try:
        termios.tcgetattr(sys.__stdin__)  # type: ignore[arg-type]
    except termios.error:
        return True
    return False
