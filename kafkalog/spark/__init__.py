"""Parallel reads of segments by Spark, with the schema and the options of Spark's own Kafka source.

    options -> planner (driver: names, indexes, a few headers) -> splits -> split_reader (a task each) -> Arrow batches

`plan_splits` and `read_split` need no Spark; the data source and `read_rdd` are built on them. The public names are
imported on first use, so that importing this package is fast and needs neither pyspark nor pyarrow.
"""

import logging
from typing import TYPE_CHECKING, Any

from kafkalog.lazy_names import homes_of, imported

if TYPE_CHECKING:
    from kafkalog.spark.read.options import ReadOptions
    from kafkalog.spark.read.planner import plan_splits
    from kafkalog.spark.read.split import Split, SplitGroup
    from kafkalog.spark.read.split_reader import read_records, read_split

__all__ = ["ReadOptions", "Split", "SplitGroup", "plan_splits", "read_records", "read_split"]

_HOMES = homes_of(
    {
        "kafkalog.spark.data_source": "KafkaLogDataSource register",
        "kafkalog.spark.rdd": "read_rdd",
        "kafkalog.spark.read.options": "ReadOptions",
        "kafkalog.spark.read.planner": "plan_splits",
        "kafkalog.spark.read.split": "Split SplitGroup",
        "kafkalog.spark.read.split_reader": "read_records read_split",
    }
)

# Nobody sets up logging in Spark's Python processes: there Python writes warnings to stderr, the log of the executor,
# if no handler is found.
_logger = logging.getLogger("kafkalog")
_logger.handlers[:] = [handler for handler in _logger.handlers if not isinstance(handler, logging.NullHandler)]


def __getattr__(name: str) -> Any:
    return imported(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES})
