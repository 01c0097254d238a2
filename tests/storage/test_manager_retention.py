"""Retention by a manager: it deletes only records of topics whose settings it was given."""

from pathlib import Path

import pytest

from kafkalog import LogConfig, LogManager, Record
from kafkalog.storage.scheduler import ScheduledTask, Task

SHORT = LogConfig(retention_ms=1000, segment_bytes=200)


class ByHand:
    """A scheduler whose periodic tasks are run by the test."""

    def __init__(self) -> None:
        self.tasks: dict[str, ScheduledTask] = {}

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        scheduled = ScheduledTask(name, task, period_ms)
        if period_ms > 0:
            self.tasks[name] = scheduled
        else:
            scheduled.run()
        return scheduled

    def shutdown(self) -> None:
        self.tasks.clear()


@pytest.fixture
def brokers(tmp_path: Path) -> Path:
    with LogManager(tmp_path, "a") as manager:
        for name in ("orders-0", "other-0", "__consumer_offsets-0"):
            log = manager.create(name, SHORT)
            for _ in range(5):
                log.append([Record(b"v" * 100, b"k", timestamp=1000)])
    return tmp_path


def after_retention(
    directory: Path, config: LogConfig | None = None, topic_configs: dict[str, LogConfig] | None = None
) -> dict[str, int]:
    scheduler = ByHand()
    with LogManager(directory, "a", config, topic_configs=topic_configs, scheduler=scheduler) as manager:
        scheduler.tasks["retention"].run()
        return {name: log.count() for name, log in manager.items()}


def test_without_settings_nothing_is_deleted(brokers: Path) -> None:
    assert after_retention(brokers) == {"__consumer_offsets-0": 5, "orders-0": 5, "other-0": 5}


def test_settings_for_all_topics_are_not_for_kafkas_own(brokers: Path) -> None:
    assert after_retention(brokers, SHORT) == {"__consumer_offsets-0": 5, "orders-0": 0, "other-0": 0}


def test_topic_configs_decide_the_retention_of_a_topic(brokers: Path) -> None:
    configs = {"other": SHORT, "__consumer_offsets": SHORT}
    assert after_retention(brokers, topic_configs=configs) == {"__consumer_offsets-0": 0, "orders-0": 5, "other-0": 0}
