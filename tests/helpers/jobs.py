"""Runs of the inspector's jobs: in an event loop of their own, in threads, silent ones and ones that die.

Tests do jobs in threads, which start at once; those about the processes themselves take `Process`. Each class here
stands in for `kafkalog.inspector.jobs.process.Process`.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Thread
from typing import BinaryIO, cast

from kafkalog.inspector.jobs.jobs import Job
from kafkalog.inspector.jobs.process import Frame, work
from kafkalog.inspector.jobs.runs import Runs

PATIENCE_SECONDS = 60.0
KILLED = -9


def within(steps: Callable[[Runs], Awaitable[None]]) -> None:
    """Do the steps in an event loop, and close the runs after them."""

    async def do() -> None:
        runs = Runs()
        try:
            await asyncio.wait_for(steps(runs), PATIENCE_SECONDS)
        finally:
            runs.close()

    asyncio.run(do())


class SilentProcess:
    """A process that says nothing until it is killed."""

    def __init__(self, job: Job) -> None:
        # None: there is no more to come.
        self._written: SimpleQueue[bytes | None] = SimpleQueue()
        self._killed = Event()

    def frames(self) -> Iterator[Frame]:
        while (data := self._written.get()) is not None:
            yield pickle.loads(data)

    def kill(self) -> None:
        self._killed.set()
        self._written.put(None)

    def close(self) -> int:
        self.kill()
        return KILLED


class ThreadProcess(SilentProcess):
    """A job done in a thread, which ends when it next says something after it was killed."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        Thread(target=self._work, args=(job,), name="job", daemon=True).start()

    def _work(self, job: Job) -> None:
        with suppress(SystemExit):
            work(job, cast("BinaryIO", self))
        self._written.put(None)

    def write(self, data: memoryview) -> int:
        if self._killed.is_set():
            raise BrokenPipeError
        self._written.put(bytes(data))
        return len(data)


class DeadProcess(SilentProcess):
    """A process that has ended with exit code 1 before it said anything."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.kill()

    def close(self) -> int:
        return 1
