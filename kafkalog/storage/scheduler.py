"""Work that is done later, or again and again: flushing, deleting files, retention, checkpoints.

    heap by due time:  flush (now)   delete (in 60 s)   retention (in 5 min, then every 5 min)
                         └─ one thread takes the first that is due, runs it, takes the next

Tasks run one after another, so two of them never work against each other.

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
    """A task that was handed to a scheduler."""

    def __init__(self, name: str, task: Task, period_ms: int = -1) -> None:
        self.name = name
        self.period_ms = period_ms
        self._task: Task | None = task
        self._lock = threading.Lock()  # to be cancelled and to begin exclude each other

    @property
    def is_pending(self) -> bool:
        """Whether it will still run, or run again: not cancelled, and not a single task that has begun."""
        return self._task is not None

    def cancel(self) -> bool:
        """Do not run it, or not again; a run that has begun goes on. True if that kept it from a run."""
        with self._lock:
            was_pending, self._task = self.is_pending, None
        return was_pending

    def run(self) -> None:
        """Run it if it was not cancelled. Whatever it raises goes to the caller."""
        with self._lock:
            task = self._task
            if self.period_ms <= 0:
                self._task = None
        if task is not None:
            task()


class Scheduler(Protocol):
    """Where the parts of a log hand in what need not be done at once."""

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        """Run `task` once after `delay_ms`, and then every `period_ms` if that is above 0. `name` is for messages."""

    def shutdown(self) -> None:
        """Stop. What is handed in afterwards does not run."""


class BackgroundScheduler:
    """Runs tasks in one thread of its own, which starts with the first task and ends with `shutdown`.

    What a task raises is logged, and the others go on. A program that ends without `shutdown` is not kept from ending,
    and no task is cut short: the thread is stopped as by `shutdown`. In a forked child nothing runs.
    """

    def __init__(self, name: str = "kafkalog-scheduler") -> None:
        self.name = name
        # Taken itself, not by way of the condition: its `with` is the interpreter's own, which no signal ends half-way.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._heap: list[tuple[float, int, ScheduledTask]] = []  # due (s, monotonic), number, task
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._runner: threading.Thread | None = None
        self._is_down = False
        self._process = os.getpid()

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        """Run `task` once after `delay_ms`, and then every `period_ms` if that is above 0.

        Tasks that are due at the same time run in the order in which they came. A period begins when the last one
        ended or, if the task was still running then, with its end.
        """
        scheduled = ScheduledTask(name, task, period_ms)
        # In a forked child the lock may be held for good, by a thread that is not there.
        if self._process != os.getpid() or not self._accept(delay_ms, scheduled):
            logger.info("the scheduler is not running: task %s is ignored", name)
            scheduled.cancel()
        return scheduled

    def shutdown(self, *, run_pending: bool = True, wait: bool = True) -> None:
        """Stop, and return when the thread has ended. Single tasks that are due still run if `run_pending`.

        Others are dropped, and what is handed in from now on is ignored. May be called again, and from a task: then it
        does not wait for itself. wait: False = return at once.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            if not self._is_down:
                self._is_down = True
                self._keep_due(run_pending)
                self._changed.notify()
            if self._heap and not self._is_started():
                self._start()
        if wait:
            self._join(self._thread)
            self._join(self._runner)
        if threading.current_thread() not in (self._thread, self._runner):
            atexit.unregister(self.shutdown)

    @staticmethod
    def _join(thread: threading.Thread | None) -> None:
        """Wait for its end; a signal may have kept it from its start."""
        if thread is not None and thread.ident is not None and thread is not threading.current_thread():
            thread.join()

    def _is_started(self) -> bool:
        return self._runner is not None or (self._thread is not None and self._thread.ident is not None)

    def _accept(self, delay_ms: int, scheduled: ScheduledTask) -> bool:
        with self._lock:
            if self._is_down:
                return False
            self._push(time.monotonic() + max(delay_ms, 0) / 1000, scheduled)
            if not self._is_started():
                self._start()
            self._changed.notify()
        return True

    def _start(self) -> None:
        # A daemon, because the interpreter waits for other threads before it calls what is registered here.
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()
        atexit.register(self.shutdown)

    def _push(self, due: float, scheduled: ScheduledTask) -> None:
        heapq.heappush(self._heap, (due, next(self._numbers), scheduled))

    def _keep_due(self, run_pending: bool) -> None:
        now, all_tasks, self._heap = time.monotonic(), sorted(self._heap), []
        for due, number, scheduled in all_tasks:
            if run_pending and due <= now and scheduled.period_ms <= 0:
                self._heap.append((due, number, scheduled))
            else:
                scheduled.cancel()

    def _run(self) -> None:
        with self._lock:
            # The start of another was interrupted, and it runs all the same.
            if self._runner is not None:
                return
            self._runner = threading.current_thread()
        while (taken := self._take()) is not None:
            due, scheduled = taken
            self._run_one(scheduled)
            self._again(due, scheduled)

    def _take(self) -> tuple[float, ScheduledTask] | None:
        """The next task, once it is due; None when there will be no more."""
        with self._lock:
            while True:
                if not self._heap and self._is_down:
                    return None
                wait = self._heap[0][0] - time.monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    due, _, scheduled = heapq.heappop(self._heap)
                    return due, scheduled
                self._changed.wait(None if wait is None else min(wait, threading.TIMEOUT_MAX))

    def _run_one(self, scheduled: ScheduledTask) -> None:
        try:
            scheduled.run()
        except BaseException:  # SystemExit too: the other tasks must go on
            logger.exception("task %s failed", scheduled.name)

    def _again(self, due: float, scheduled: ScheduledTask) -> None:
        with self._lock:
            if self._is_down:
                scheduled.cancel()
            elif scheduled.is_pending:
                self._push(max(due + scheduled.period_ms / 1000, time.monotonic()), scheduled)
