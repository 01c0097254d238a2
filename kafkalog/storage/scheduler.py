"""Delayed and periodic tasks: flushing, deleting files, retention, checkpoints.

    heap by due time:  flush (now)   delete (in 60 s)   retention (in 5 min, then every 5 min)
                         └─ one thread runs each task when it is due

Tasks run one after another, so two of them never conflict.

Source: server-common/.../KafkaScheduler.java.
"""

import atexit
import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)

Task = Callable[[], object]


class ScheduledTask:
    """A task that was passed to a scheduler."""

    def __init__(self, name: str, task: Task, period_ms: int = -1) -> None:
        self.name = name
        self.period_ms = period_ms
        self._task: Task | None = task

    @property
    def is_pending(self) -> bool:
        """Whether the task will run, or run again: it was not cancelled, and is periodic or has not begun."""
        return self._task is not None

    def cancel(self) -> bool:
        """Prevent further runs and return whether there would have been one. A run that has begun continues."""
        was_pending, self._task = self.is_pending, None
        return was_pending

    def run(self) -> None:
        """Run the task unless it was cancelled. Its exceptions propagate to the caller."""
        task = self._task
        if self.period_ms <= 0:
            self._task = None
        if task is not None:
            task()


class Scheduler(Protocol):
    """Runs the tasks of a log that may be done later."""

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        """Run a task after a delay, once or periodically.

        Args:
            name: The name for messages.
            task: The task.
            delay_ms: The delay of the first run.
            period_ms: The interval between runs; 0 or less: run once.
        """

    def shutdown(self) -> None:
        """Stop. Tasks scheduled afterwards do not run."""


class BackgroundScheduler:
    """Runs tasks in a thread of its own, which starts with the first task and ends with `shutdown`.

    Exceptions of a task are logged, and the other tasks continue. A program may exit without `shutdown`: it is called
    at exit, so that no task is interrupted half-way. In a forked child no task runs.
    """

    def __init__(self, name: str = "kafkalog-scheduler") -> None:
        self.name = name
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, ScheduledTask]] = []  # (due time in monotonic s, sequence number, task)
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._is_down = False
        self._process = os.getpid()

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        """Run `task` once after `delay_ms`, and then every `period_ms` if that is above 0.

        Tasks that are due at the same time run in the order of scheduling. The next run is due one period after the due
        time of the last run, or at the end of that run if that is later. After `shutdown` and in a forked child, the
        task is cancelled.
        """
        scheduled = ScheduledTask(name, task, period_ms)
        # In a forked child the lock may be held forever, by a thread that does not exist there.
        if self._process != os.getpid() or not self._accept(delay_ms, scheduled):
            logger.info("the scheduler is not running: task %s is ignored", name)
            scheduled.cancel()
        return scheduled

    def shutdown(self, *, run_pending: bool = True, wait: bool = True) -> None:
        """Stop the thread. Tasks scheduled afterwards are ignored.

        May be called more than once, and from a task: then it does not wait for its own thread.

        Args:
            run_pending: Run non-periodic tasks that are already due. All other tasks are dropped.
            wait: Return after the thread has ended.
        """
        if self._process != os.getpid():
            return
        with self._changed:
            if not self._is_down:
                self._is_down = True
                self._keep_due(run_pending)
                self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            if wait:
                self._thread.join()
            atexit.unregister(self.shutdown)

    def _accept(self, delay_ms: int, scheduled: ScheduledTask) -> bool:
        """Add a task. Return False after `shutdown`."""
        with self._changed:
            if self._is_down:
                return False
            if self._thread is None:
                # A daemon thread: the interpreter joins other threads before it runs the atexit handlers.
                thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                thread.start()
                self._thread = thread
                atexit.register(self.shutdown)
            self._push(time.monotonic() + max(delay_ms, 0) / 1000, scheduled)
            self._changed.notify()
        return True

    def _push(self, due: float, scheduled: ScheduledTask) -> None:
        heapq.heappush(self._heap, (due, next(self._numbers), scheduled))

    def _keep_due(self, run_pending: bool) -> None:
        """Cancel all tasks except, if `run_pending`, the non-periodic ones that are due."""
        now, all_tasks, self._heap = time.monotonic(), sorted(self._heap), []
        for due, number, scheduled in all_tasks:
            if run_pending and due <= now and scheduled.period_ms <= 0:
                self._heap.append((due, number, scheduled))
            else:
                scheduled.cancel()

    def _run(self) -> None:
        """Run tasks until `shutdown`, in the scheduler's thread."""
        while (taken := self._take()) is not None:
            due, scheduled = taken
            try:
                scheduled.run()
            except BaseException:  # SystemExit, too: the other tasks must still run
                logger.exception("task %s failed", scheduled.name)
            with self._changed:
                if self._is_down:
                    scheduled.cancel()
                elif scheduled.is_pending:
                    self._push(max(due + scheduled.period_ms / 1000, time.monotonic()), scheduled)

    def _take(self) -> tuple[float, ScheduledTask] | None:
        """Wait for the next task and return it with its due time; None after `shutdown` when no task is left."""
        with self._changed:
            while True:
                if not self._heap and self._is_down:
                    return None
                wait = self._heap[0][0] - time.monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    due, _, scheduled = heapq.heappop(self._heap)
                    return due, scheduled
                self._changed.wait(None if wait is None else min(wait, threading.TIMEOUT_MAX))
