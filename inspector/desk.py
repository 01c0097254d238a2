"""A worker thread that runs the calls of one partition one after the other, in the order in which they were submitted.

Long work (indexing, searching) is submitted in small steps, so that a screen waits for its rows for one step at most.
A call whose task was cancelled before it began is never run. The thread is a daemon, so that a disk that does not
respond does not keep the program from exiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Desk:
    """A worker thread: `await desk(function, *arguments)` calls a function in it.

    Args:
        name: The name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._closed = False
        Thread(target=self._work, name=name, daemon=True).start()

    async def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the thread; return its result or raise its error.

        Raises:
            CancelledError: The desk was closed before.
        """
        if self._closed:
            raise asyncio.CancelledError
        future: Future[T] = Future()
        self._jobs.put((future, partial(function, *args, **kwargs)))
        return await asyncio.wrap_future(future)

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Accept no more calls, and end the thread after those submitted so far. Does not wait.

        Args:
            last: The last call of the thread; None: no call.
        """
        self._closed = True
        if last is not None:
            self._jobs.put((Future(), last))
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function = job
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
                    future.set_exception(error)
