"""`format("kafkalog")`: the data source for Spark's Python Data Source API.

    load()         driver     KafkaLogDataSource(options), schema()      options and paths are checked
    first action   driver     reader(schema), partitions()               splits are planned
    each task      executor   read(partition)                            Arrow batches of one split

All methods are called in Python processes without a session. Splits are planned once: later actions on one DataFrame
read the same splits (Spark 4.1 and later; 4.0 plans for each action).

There is no `pushFilters`: if a source has it, Spark refuses every read with its default settings, and with the feature
enabled it mixes up the filters of queries over one DataFrame. Offsets and times are options; `.schema(...)` chooses the
columns.
"""

import glob
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
except ImportError as error:
    raise ImportError("format('kafkalog') needs pyspark 4.0 or later: pip install 'kafkalog[spark]'") from error

from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.read.planner import plan_splits
from kafkalog.spark.read.split_reader import read_split
from kafkalog.spark.schema import Column, columns_of_struct, ddl
from kafkalog.spark.write.options import WRITE_ONLY
from kafkalog.storage.remote_path import is_remote, to_path

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

NAME = "kafkalog"


def register(spark: "SparkSession") -> None:
    """Register `format("kafkalog")` in a session; do nothing if Spark has discovered it by itself."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(KafkaLogDataSource)
    except AnalysisException as error:
        # Spark does not register a name again that it has discovered.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


class KafkaLogDataSource(DataSource):
    """Directories of Kafka partitions as DataFrames, read and written without a broker."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return NAME

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Check the options.

        Raises:
            ValueError: The options are invalid for reads, streams and writes.
        """
        super().__init__(options)
        # Spark does not tell the purpose of a source, but some options are only of writes.
        if not any(name.lower() in WRITE_ONLY for name in self.options):
            _read_options(self.options)

    def schema(self) -> str:
        """Return the columns of a read without `.schema(...)`.

        Raises:
            FileNotFoundError: A path does not exist.
        """
        options = _read_options(self.options)
        _ensure_there(options)
        return ddl(options)

    def reader(self, schema: "StructType") -> "KafkaLogReader":
        """Return the reader of a batch read.

        Raises:
            ValueError: An option is invalid for a batch read, or a column does not exist or has another type.
        """
        return KafkaLogReader(ReadOptions.parse(self.options), columns_of_struct(schema))

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802 - Spark's name
        """Return the reader of a stream; it raises on first use if options or columns are invalid for one."""
        from kafkalog.spark.stream_reader import KafkaLogStreamReader, RefusedStreamReader

        try:
            return KafkaLogStreamReader(ReadOptions.parse(self.options, streaming=True), columns_of_struct(schema))
        except ValueError as error:
            return RefusedStreamReader(error)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802 - Spark's name
        """Refuse to write a stream.

        Raises:
            NotImplementedError: Always; kafkalog writes batches only.
        """
        raise NotImplementedError(
            "kafkalog does not write streams: write each micro-batch with foreachBatch and df.write"
        )

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """Return the writer of partition directories.

        Raises:
            ValueError: An option or a column is invalid for a write.
        """
        from kafkalog.spark.write.data_source_writer import KafkaLogArrowWriter

        return KafkaLogArrowWriter(self.options, schema, overwrite)


class KafkaLogReader(DataSourceReader):
    """A batch read. Picklable; keeps no file open."""

    def __init__(self, options: ReadOptions, columns: tuple[Column, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Plan the splits, one for each task.

        Raises:
            OSError, ValueError, KafkaLogError: As `plan_splits`.
        """
        return [InputPartition(split) for split in plan_splits(self._options)]

    def read(self, partition: InputPartition | None) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one split; none for a partition without a split. Raise errors as `read_split`."""
        return read_split(getattr(partition, "value", None), self._columns, self._options)


def _read_options(options: Mapping[str, Any]) -> ReadOptions:
    """Parse the options of a stream or a batch read, for use by both."""
    try:
        return ReadOptions.parse(options, streaming=True)
    except ValueError:
        return ReadOptions.parse(options)


def _ensure_there(options: ReadOptions) -> None:
    """Check at load() that paths exist, as other file sources do. Globs are expanded when the read is planned."""
    for path in options.paths:
        if not is_remote(path) and not to_path(path).exists() and not glob.has_magic(path):
            raise FileNotFoundError(f"option path: there is no {path!r}")
