"""A driver of Spark that stops at one point of what it does, and waits there to be killed.

    python stopping_driver.py '{"do": "write", "point": "in a task", "path": ..., "reached": ..., "config": {...}}'

`reached` is written when it has stopped: the process that waits, which may be one of Spark's Python workers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from kafkalog.spark.source import KafkaLogDataSource
from kafkalog.spark.writer_source import KafkaLogArrowWriter

PATIENCE_S = 600.0


def say_so(reached: str) -> None:
    """Which process is there."""
    unfinished = Path(f"{reached}.tmp")
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(reached)


def stop(reached: str) -> None:
    """Say so, and wait."""
    say_so(reached)
    time.sleep(PATIENCE_S)
    raise TimeoutError(f"nobody has killed process {os.getpid()}")


# --- a write


class StoppingSource(KafkaLogDataSource):
    """What this program defines travels to Spark's workers by value."""

    asked: ClassVar[dict[str, str]] = {}

    @classmethod
    def name(cls) -> str:
        return "stopping"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return StoppingWriter(self.options, schema, overwrite, self.asked)


class StoppingWriter(KafkaLogArrowWriter):
    """Stops in its commit."""

    def __init__(self, options: Any, schema: Any, overwrite: bool, asked: dict[str, str]) -> None:
        super().__init__(options, schema, overwrite)
        self._asked = asked

    def commit(self, messages: Any) -> None:
        from kafkalog.spark import exchange

        real, calls, reached = exchange._put, iter(range(100)), self._asked["reached"]

        def put(*arguments: Path) -> None:
            if next(calls) == 1:
                stop(reached)
            real(*arguments)

        def instead(*_: object) -> None:
            stop(reached)

        replaced: dict[str, dict[str, Any]] = {
            "before it is committed": {"write_atomically": instead},
            "between two directories": {"_put": put},
            "before the job is removed": {"_remove_job": instead},
        }
        point = self._asked["point"]
        if point == "while it waits for others":
            say_so(reached)
        for name, stopping in replaced.get(point, {}).items():
            setattr(exchange, name, stopping)
        super().commit(messages)


def write(spark: Any, asked: dict[str, str]) -> None:
    """1,000 rows in two tasks, to two partitions."""
    StoppingSource.asked = asked
    spark.dataSource.register(StoppingSource)
    frame = spark.range(0, 1000, 1, 2)
    if asked["point"] == "in a task":
        frame = frame.select(udf(stopping_at(900, asked["reached"]), "long")("id").alias("id"))
    rows = frame.selectExpr("'t' as topic", "int(id % 2) as partition", "cast(id as string) as value")
    rows.write.format("stopping").mode(asked["mode"]).save(asked["path"])


# --- a stream


def follow(spark: Any, asked: dict[str, str]) -> None:
    """Offsets to files of Parquet, of which Spark makes each micro-batch visible once."""
    reader = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").schema("offset long")
    frame = reader.option("maxOffsetsPerTrigger", asked["limit"]).load(asked["path"])
    frame = frame.select(udf(stopping_at(int(asked["point"]), asked["reached"]), "long")("offset").alias("offset"))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", asked["checkpoint"])
    writer.trigger(availableNow=True).start(asked["out"]).awaitTermination()


def stopping_at(figure: int, reached: str) -> Callable[[int], int]:
    """Gives what it is given, until that is this figure."""

    def same(found: int) -> int:
        if found == figure:
            stop(reached)
        return found

    return same


def main(text: str) -> None:
    """Do what is asked for."""
    asked = json.loads(text)
    builder = SparkSession.builder.master("local[2]").appName("stopping")
    for name, value in asked.pop("config").items():
        builder = builder.config(name, value)
    {"write": write, "stream": follow}[asked["do"]](builder.getOrCreate(), asked)


if __name__ == "__main__":
    main(sys.argv[1])
