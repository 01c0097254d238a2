"""What Spark looks for: it imports all top-level modules named `pyspark_*` and registers each one's `DefaultSource`.

One such module that raises hides all of them from a session, those of others too, so this one never raises: where
pyspark is missing or too old, or kafkalog not compiled, it has no `DefaultSource`, and a warning says why.
"""

import logging

try:
    from kafkalog.spark import KafkaLogDataSource as DefaultSource
except Exception as error:  # noqa: BLE001 - whatever it is
    logging.getLogger(__name__).warning('Spark will not find format("kafkalog"): %s', error)

__all__ = ["DefaultSource"]
