"""One thread in which everything is read that belongs together, a step at a time, in the order it was asked for.

Whoever reads much (indexing, searching) asks for one small step after another, so that a screen that wants its rows
waits for one step at most. What has been asked for and is no longer wanted (its task was cancelled) is never begun.
The thread is a daemon: a disk that does not answer keeps nobody from quitting.
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
    """`await desk(function, *arguments)`: its result, or what it raised, once the thread has come to it."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._closed = False
        Thread(target=self._work, name=name, daemon=True).start()

    async def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """CancelledError: the desk was closed."""
        if self._closed:
            raise asyncio.CancelledError
        future: Future[T] = Future()
        self._jobs.put((future, partial(function, *args, **kwargs)))
        return await asyncio.wrap_future(future)

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Nothing more is begun but `last`; does not wait."""
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
