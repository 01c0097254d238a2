"""A process that does one job: the job on its stdin, frames on its stdout, killed to cancel.

    application  ── stdin ──  the job, pickled; nothing follows: the end of the pipe is the end of the application
                 <─ stdout ─  Frame, Frame ... pickled

The process ends with the application, however that ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from select import select
from typing import Any, BinaryIO

from kafkalog.fsck import Finding
from kafkalog.scan.search import Match

from .jobs import Ended, Job

COMMAND = (sys.executable, "-P", "-c", f"from {__name__} import main; main()")
# The screen goes first, and whatever else the machine has to do.
NICENESS = 5
# How often a process looks whether the application is still there.
LOOK_SECONDS = 0.25
# Events are gathered into frames, so that the screen has little to do: for so long, and so many at most.
FRAME_SECONDS = 0.1
FRAME_ITEMS = 500
FRAME_OFFSETS = 50_000


class Process:
    """A job in a process of its own, from the application's side.

    Raises:
        OSError: The process was not started.
    """

    def __init__(self, job: Job) -> None:
        # It finds the same modules as this process.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._popen = subprocess.Popen(  # noqa: S603 - this very interpreter
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):
            self._popen.stdin.write(pickle.dumps(job))
            self._popen.stdin.flush()

    def frames(self) -> Iterator[Frame]:
        """Yield what the process reports, until it ends."""
        assert self._popen.stdout is not None
        with suppress(EOFError, pickle.UnpicklingError):
            while True:
                yield pickle.load(self._popen.stdout)  # noqa: S301 - our own process

    def kill(self) -> None:
        """End it now."""
        self._popen.kill()

    def close(self) -> int:
        """End it, and return its exit code."""
        with self._popen:
            self.kill()
        return self._popen.returncode


@dataclass(slots=True)
class Frame:
    """Events of a job.

    Attributes:
        items: Matches or findings.
        offsets: The offsets of all matches.
        latest: The last progress or state.
        ended: Set in the last frame.
    """

    items: list[Any] = field(default_factory=list)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    latest: Any = None
    ended: Ended | None = None

    def add(self, event: Any) -> None:
        """Add an event."""
        if isinstance(event, int):
            self.offsets.append(event)
        elif isinstance(event, (Match, Finding)):
            self.items.append(event)
            if isinstance(event, Match):
                self.offsets.append(event.offset)
        elif isinstance(event, Ended):
            self.ended = event
        else:
            self.latest = event

    @property
    def is_full(self) -> bool:
        """Whether it should be sent without waiting for more."""
        return len(self.items) >= FRAME_ITEMS or len(self.offsets) >= FRAME_OFFSETS or self.ended is not None


def work(job: Job, out: BinaryIO) -> None:
    """Do a job and write its events in frames; the last has `Ended`, with the problem if an error ended the job.

    Raises:
        SystemExit: Nobody reads.
    """
    frame, written = Frame(), 0.0

    def emit(event: object) -> None:
        nonlocal frame, written
        frame.add(event)
        if frame.is_full or time.monotonic() - written >= FRAME_SECONDS:
            try:
                data = memoryview(pickle.dumps(frame))
                while data:
                    data = data[out.write(data) :]
            except OSError:
                # Nobody reads. An OSError would be taken for one of the log's files.
                sys.exit(1)
            frame, written = Frame(), time.monotonic()

    try:
        job.run(emit)
    except Exception as error:  # noqa: BLE001 - reported where the job was begun
        emit(Ended(f"{type(error).__name__}: {error}"))
    else:
        emit(Ended())


def main() -> None:
    """Do the job on stdin."""
    os.nice(NICENESS)
    # EOFError, OSError: the application has ended.
    with suppress(EOFError, OSError):
        job = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the application that started this process
        # By a signal, as a regular expression that backtracks for ever lets no thread run.
        signal.signal(signal.SIGALRM, _end_with_application)
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
        # Without a buffer, which loses bytes where the signal interrupts it at a full pipe.
        work(job, open(sys.stdout.fileno(), "wb", buffering=0))  # noqa: SIM115 - the process ends with it


def _end_with_application(*_: object) -> None:
    if select([sys.stdin], [], [], 0)[0]:
        os._exit(1)
