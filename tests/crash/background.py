"""A scheduler whose tasks run when a test says so: a test chooses which background work a crash interrupts."""

from __future__ import annotations

from contextlib import suppress

from kafkalog.errors import KafkaLogError
from kafkalog.storage.scheduler import ScheduledTask, Task


class HeldScheduler:
    def __init__(self) -> None:
        self.tasks: list[ScheduledTask] = []

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        scheduled = ScheduledTask(name, task, period_ms)
        if period_ms <= 0:
            self.tasks.append(scheduled)
        return scheduled

    def run(self) -> None:
        """Do what is due; a task that fails does not keep others from running."""
        while self.tasks:
            with suppress(KafkaLogError, OSError):
                self.tasks.pop(0).run()

    def shutdown(self) -> None:
        self.tasks.clear()
