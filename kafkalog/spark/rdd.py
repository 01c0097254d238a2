"""An RDD over splits: `mapPartitions` over mapped segments, for those who want `Record`s or Arrow batches themselves.

Records made one by one in Python cost about twenty times what the data source does with Arrow batches.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.read.planner import AnySplit, plan_splits
from kafkalog.spark.read.split_reader import read_records, read_split

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import SparkSession


_INSTEAD = "read a DataFrame, spark.read.format('kafkalog')"


def read_rdd(
    sc: "SparkContext | SparkSession",
    path: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]",
    *,
    as_arrow: bool = False,
    **options: Any,
) -> "RDD[Any]":
    """`Record`s of partition directories, a task a split; with `as_arrow`, `pyarrow.RecordBatch`es.

    sc: a session, or its context. path: one or several. options: those of `format("kafkalog")`, as
    `includeHeaders=True` or `**{"kafka.isolation.level": "read_committed"}`. What is there now is planned now. Python's
    `Record`s carry no topic and partition: read several partitions `as_arrow`, or one at a time. Nor can they tell of
    damage: `onCorrupt="permissive"` passes over it, as `skip` does.

    TypeError: a session of Spark Connect, which has no RDDs. ValueError, OSError, KafkaLogError: as `plan_splits`; in
    tasks, as `read_split`.
    """
    context: Any = getattr(sc, "sparkContext", sc)
    if not hasattr(context, "parallelize"):
        raise TypeError(f"read_rdd needs a SparkContext, which Spark Connect has not: {_INSTEAD}")
    parsed = ReadOptions.parse({"paths": _paths(path), **options})
    splits = plan_splits(parsed)
    read = partial(_read, options=parsed, as_arrow=as_arrow)
    rdd: RDD[Any] = context.parallelize(splits, max(1, len(splits))).mapPartitions(read)
    return rdd


def _paths(path: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]") -> list[str]:
    return [os.fspath(each) for each in ([path] if isinstance(path, (str, os.PathLike)) else path)]


def _read(splits: Iterable[AnySplit], options: ReadOptions, as_arrow: bool) -> Iterator[Any]:
    for split in splits:
        yield from read_split(split, None, options) if as_arrow else read_records(split, options)
