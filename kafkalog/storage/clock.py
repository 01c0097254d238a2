"""The wall clock in milliseconds, the unit of Kafka's timestamps. Tests pass their own clocks."""

import time
from collections.abc import Callable

Clock = Callable[[], int]


def wall_clock_ms() -> int:
    """Return the milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000
