"""The documented home of `recover`, which ends a write job that was cut off."""

from kafkalog.spark.write.job import recover

__all__ = ["recover"]
