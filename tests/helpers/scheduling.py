"""A scheduler for tests that does not wait."""

from __future__ import annotations

from kafkalog.storage.scheduler import ScheduledTask, Task


class ImmediateScheduler:
    """Runs single tasks at once, in the caller's thread, whatever their delay, and periodic ones never.

    So a log does all its work before a call returns. What a task raises goes to the caller.
    """

    def __init__(self) -> None:
        self._is_down = False

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        """Run `task` if it is not periodic."""
        scheduled = ScheduledTask(name, task, period_ms)
        if self._is_down or period_ms > 0:
            scheduled.cancel()
        scheduled.run()
        return scheduled

    def shutdown(self) -> None:
        """Run nothing from now on."""
        self._is_down = True
