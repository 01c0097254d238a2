"""An RDD of `Record`s or Arrow batches, made with `mapPartitions` over splits.

Creating `Record`s in Python takes about twenty times as long as the Arrow batches of the data source.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalog.scan.records import LeftOut
from kafkalog.spark.read.corrupt_report import log_left_out
from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.read.planner import plan_splits
from kafkalog.spark.read.split import AnySplit
from kafkalog.spark.read.split_reader import read_records, read_split

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, SparkContext
    from pyspark.sql import SparkSession


_INSTEAD = "read a DataFrame, spark.read.format('kafkalog')"


def read_rdd(
    sc: "SparkContext | SparkSession",
    path: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]",
    *,
    as_arrow: bool = False,
    **options: Any,
) -> "RDD[Any]":
    """Return an RDD of the `Record`s of partition directories, with one task for each split.

    Splits are planned once, over the current files. A `Record` has no topic and partition: to read several partitions,
    use `as_arrow` or one RDD for each. Nor can a `Record` report damage: `onCorrupt="permissive"` has the effect of
    `skip`. What is left out because of damage is logged in the driver too, when a task has ended.

    Args:
        sc: A session or its context.
        path: One path or several.
        as_arrow: Return `pyarrow.RecordBatch`es instead of `Record`s.
        **options: Options of `format("kafkalog")`, such as `includeHeaders=True` or `**{"kafka.isolation.level":
            "read_committed"}`.

    Raises:
        TypeError: `sc` is a session of Spark Connect, which has no RDDs.
        ValueError, OSError, KafkaLogError: As `plan_splits`; in tasks, as `read_split`.
    """
    context: Any = getattr(sc, "sparkContext", sc)
    if not hasattr(context, "parallelize"):
        raise TypeError(f"read_rdd needs a SparkContext, which Spark Connect does not have: {_INSTEAD}")
    parsed = ReadOptions.parse({"paths": _paths(path), **options})
    splits = plan_splits(parsed)
    left_out = context.accumulator({}, _LeftOutByFile())
    read = partial(_read, options=parsed, as_arrow=as_arrow, left_out=left_out)
    rdd: RDD[Any] = context.parallelize(splits, max(1, len(splits))).mapPartitions(read)
    return rdd


def _paths(path: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]") -> list[str]:
    """Return one or several paths as a list of texts."""
    return [os.fspath(each) for each in ([path] if isinstance(path, (str, os.PathLike)) else path)]


class _LeftOutByFile:
    """The `AccumulatorParam` that sums up what is left out of each file, and logs it: in tasks, then in the driver."""

    def zero(self, value: Mapping[str, LeftOut]) -> Mapping[str, LeftOut]:
        return value

    def addInPlace(  # noqa: N802 - Spark's name
        self, known: Mapping[str, LeftOut], more: Mapping[str, LeftOut]
    ) -> Mapping[str, LeftOut]:
        total = dict(known)
        for path, left_out in more.items():
            log_left_out(path, left_out)
            total[path] = total.get(path, LeftOut()).plus(left_out)
        return total


def _read(
    splits: Iterable[AnySplit], options: ReadOptions, as_arrow: bool, left_out: "Accumulator[Any]"
) -> Iterator[Any]:
    """Yield the records or Arrow batches of a task's splits."""

    def report(path: str, counts: LeftOut) -> None:
        left_out.add({path: counts})

    for split in splits:
        yield from read_split(split, None, options, report) if as_arrow else read_records(split, options, report)
