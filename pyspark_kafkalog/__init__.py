"""Entry point for Spark, which imports all top-level modules `pyspark_*` and registers the `DefaultSource` of each.

If one such module raises, the session gets none of them. So this one does not: if pyspark is missing or too old, or
kafkalog is not compiled, there is no `DefaultSource`, and a warning gives the reason.
"""

import logging

try:
    from kafkalog.spark import KafkaLogDataSource as DefaultSource
except Exception as error:  # noqa: BLE001 - see above
    logging.getLogger(__name__).warning('Spark will not find format("kafkalog"): %s', error)

__all__ = ["DefaultSource"]
