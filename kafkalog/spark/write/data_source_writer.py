"""The writer for Spark: `df.write.format("kafkalog").mode("append").option("topic", "orders").save(path)`.

Spark creates it on the driver, sends it to the executors, runs `write` once for each attempt of a task, and calls
`commit` or `abort` on the driver with the messages of the successful attempts. `WriteJob` does the work.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafkalog.spark.write.job import WriteJob
from kafkalog.spark.write.options import WriteOptions
from kafkalog.spark.write.task_files import TaskFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class KafkaLogCommitMessage(WriterCommitMessage):  # type: ignore[misc, unused-ignore]
    """The files that an attempt of a task has written."""

    files: TaskFiles


class KafkaLogArrowWriter(DataSourceArrowWriter):  # type: ignore[misc, unused-ignore]
    """Writes Arrow batches. See `WriteOptions` for options and columns, and `WriteJob` for errors."""

    def __init__(self, options: Mapping[str, Any], schema: "StructType", overwrite: bool) -> None:
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        self._job = WriteJob.start(WriteOptions.parse(options), columns, overwrite=overwrite)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> KafkaLogCommitMessage:
        """Write the rows of an attempt of a task, on an executor."""
        context = TaskContext.get()
        return KafkaLogCommitMessage(self._job.write(iterator, 0 if context is None else context.partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the successful attempts, on the driver."""
        self._job.commit(message.files for message in messages if isinstance(message, KafkaLogCommitMessage))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - the job is removed as a whole
        """Remove all that the job has written, on the driver, after a task or `commit` has failed."""
        self._job.abort()
