"""What Spark looks for: it imports all top-level modules named `pyspark_*` and registers each one's `DefaultSource`.

One such module that raises hides all of them from a session, those of others too, so this one never raises: where
pyspark is missing or too old, it has no `DefaultSource`.
"""

import contextlib

with contextlib.suppress(Exception):
    from kafkalog.spark import KafkaLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
