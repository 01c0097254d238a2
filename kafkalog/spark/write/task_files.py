"""The files of one task: for each partition the batches of its records.

    <path>/_kafkalog_tmp/<job>/tasks/<number>-<attempt>/orders-0/00000000000000000000.log

Offsets begin at 0, so that each file is a valid log. The driver joins the files of all tasks and writes the final
offsets into the batch headers. Nothing is flushed here: the commit flushes the joined files.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

from kafkalog._speedups.record import Record
from kafkalog.attributes import CompressionType
from kafkalog.errors import RecordBatchTooLargeError
from kafkalog.record.layout import RECORD_BATCH_OVERHEAD
from kafkalog.record.records_builder import COMPRESSION_RATE_ESTIMATION_FACTOR, BatchSettings, RecordsBuilder
from kafkalog.spark.write.options import WriteOptions
from kafkalog.storage.file_names import LOG_SUFFIX, TopicPartition, offset_file
from kafkalog.storage.files.durable import naming

# The most bytes before compression of a batch, however well they compress.
_MOST_UNCOMPRESSED = 16 << 20


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """A task's file for one partition: its size in bytes and number of records."""

    partition: TopicPartition
    size: int
    records: int


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The files of a task. Small and picklable: it is sent from the executor to the driver.

    Attributes:
        task: The number of the task, the order in which tasks are joined.
        name: The name of its directory.
        files: The files.
    """

    task: int
    name: str
    files: tuple[PartitionFile, ...]


class TaskWriter:
    """Writes the records of one attempt of a task to a directory of its own.

    A context manager: leaving it without `finish` removes the directory.

    Raises:
        FileNotFoundError: The job has ended, or this machine does not see the driver's file system.
    """

    def __init__(self, tasks: Path, task: int, options: WriteOptions) -> None:
        self._task = task
        self._options = options
        self._directory = tasks / f"{task}-{uuid4().hex}"
        self._partitions: dict[TopicPartition, _Batches] = {}
        self._finished = False
        try:
            self._directory.mkdir()
        except FileNotFoundError as error:
            message = "the job has ended, or its directory is not on a file system that driver and executors share"
            raise FileNotFoundError(error.errno, message, str(tasks)) from None

    def add(self, partition: TopicPartition, records: Iterable[Record]) -> None:
        """Append records to a partition.

        Raises:
            RecordBatchTooLargeError: A record is larger than a segment.
            OSError: A file was not written.
        """
        batches = self._partitions.get(partition)
        if batches is None:
            batches = self._partitions[partition] = _Batches(self._directory / str(partition), self._options)
        batches.add(records)

    def finish(self) -> TaskFiles:
        """Write the remaining records and return the files. Nothing may be added afterwards.

        Raises:
            OSError: A file was not written.
        """
        files = tuple(
            PartitionFile(partition, *batches.finish()) for partition, batches in sorted(self._partitions.items())
        )
        self._finished = True
        return TaskFiles(self._task, self._directory.name, files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._finished:
            shutil.rmtree(self._directory, ignore_errors=True)


class _Batches:
    """The batches of one partition. The file is open only during a write, because there may be many partitions."""

    def __init__(self, directory: Path, options: WriteOptions) -> None:
        directory.mkdir()
        self._path = offset_file(directory, 0, LOG_SUFFIX)
        self._options = options
        settings = BatchSettings(compression_type=options.compression, partition_leader_epoch=0)
        self._builder = RecordsBuilder(settings)
        self._room = options.batch_bytes - RECORD_BATCH_OVERHEAD
        self._lowest_ratio = self._room / min(_MOST_UNCOMPRESSED, 0.9 * options.segment_bytes)
        self._ratio = 1.0
        self._size = self._records = 0

    def add(self, records: Iterable[Record]) -> None:
        """Add records, and write the batches that become full."""
        waiting, left = iter(records), None
        while (left := self._builder.fill(waiting, self._room, first=left, ratio=self._expected_ratio())) is not None:
            self._write()

    def finish(self) -> tuple[int, int]:
        """Write the last batch and return the bytes and records of the file."""
        self._write()
        return self._size, self._records

    def _expected_ratio(self) -> float:
        """Return the estimated ratio of compressed to uncompressed size of the next batch."""
        if self._options.compression is CompressionType.NONE:
            return 1.0
        return max(self._ratio * COMPRESSION_RATE_ESTIMATION_FACTOR, self._lowest_ratio)

    def _write(self) -> None:
        """Write the collected records as a batch.

        Raises:
            RecordBatchTooLargeError: A record is larger than a segment.
            OSError: The file was not written.
        """
        builder, count = self._builder, self._builder.records_count
        if not count:
            return
        batch = builder.build()
        if len(batch) > self._options.segment_bytes:
            limit = self._options.segment_bytes
            raise RecordBatchTooLargeError(
                "a record is larger than segmentBytes", str(self._path), None, limit, len(batch)
            )
        with naming(self._path), open(self._path, "ab") as file:
            file.write(batch)
        found = builder.estimated_compression_ratio
        # A worse ratio counts fully, a better one half, so that batches do not become too large.
        self._ratio = max(found, (found + self._ratio) / 2)
        self._size += len(batch)
        self._records += count
        builder.follow(builder.last_offset + 1, -1)
