"""Work in several processes: `each_result`.

Workers are started anew (spawn), so that they inherit no lock and no thread, and end with the process that started
them, however that ends. A program that calls this needs the guard `if __name__ == "__main__"`.
"""

import errno
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.sharedctypes import Synchronized
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
# Adds units of work that are done; returned by `counting`.
Advance = Callable[[int], object]

_POLL_SECONDS = 0.1
# In a worker, the units of work that all workers have done.
_done: "Synchronized[int] | None" = None


def each_result(
    work: Callable[[Task, Advance], Result], tasks: Sequence[Task], jobs: int, progress: Advance
) -> Generator[Result, None, None]:
    """Yield the results of `work` for all tasks, in the order in which they end.

    Args:
        work: A function of a module; it gets a task and a function that reports progress.
        tasks: The tasks, in the order in which they are begun.
        jobs: The number of processes; with 1, this process does the work.
        progress: Called with the units of work done since the last call.

    Raises:
        Exception: The first error of a task. The others are not finished then.
        ChildProcessError: A worker was killed.
    """
    if jobs == 1 or len(tasks) < 2:
        yield from (work(task, progress) for task in tasks)
        return
    context = multiprocessing.get_context("spawn")
    done: Synchronized[int] = context.Value("q", 0)
    others = set(multiprocessing.active_children())
    try:
        with ProcessPoolExecutor(min(jobs, len(tasks)), context, _begin, (done,)) as executor:
            try:
                # Not concurrent.futures.wait: a signal in it leaves futures locked, and the executor would never end.
                ended, left, known = SimpleQueue[Future[Result]](), len(tasks), 0
                for task in tasks:
                    executor.submit(_in_worker, work, task).add_done_callback(ended.put)
                while left:
                    future = _next(ended)
                    progress(done.value - known)
                    known = done.value
                    if future is not None:
                        left -= 1
                        yield future.result()
            except BaseException:
                # Otherwise the executor would wait for the tasks that have begun.
                executor.shutdown(wait=False, cancel_futures=True)
                for worker in set(multiprocessing.active_children()) - others:
                    worker.terminate()
                raise
    except BrokenProcessPool:
        raise ChildProcessError(errno.ECHILD, "a worker process was killed, perhaps for lack of memory") from None


def _next(ended: "SimpleQueue[Future[Result]]") -> "Future[Result] | None":
    try:
        return ended.get(timeout=_POLL_SECONDS)
    except Empty:
        return None


def _begin(done: "Synchronized[int]") -> None:
    """Prepare a worker."""
    global _done  # noqa: PLW0603 - set once in a worker, which has no other way to get it
    _done = done
    # Ctrl-C in a terminal reaches all processes of the group; the parent decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _in_worker(work: Callable[[Any, Advance], Result], task: Any) -> Result:
    return work(task, _advance)


def _advance(size: int) -> None:
    assert _done is not None
    with _done.get_lock():
        _done.value += size


def done_by_all() -> int:
    """Return, in a worker, the units of work that all workers have done."""
    assert _done is not None
    return _done.value
