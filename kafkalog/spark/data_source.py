"""`format("kafkalog")`: the data source as Spark's Python Data Source API wants it.

    load()         driver     KafkaLogDataSource(options), schema()      options are held against what there is
    first action   driver     reader(schema), partitions()               splits are planned
    each task      executor   read(partition)                            Arrow batches of one split

Everything here is called in Python processes without a session. What is planned stays: later actions on one DataFrame
read the same splits (Spark 4.1 and later; 4.0 plans for each action).

There is no `pushFilters`: Spark then refuses every read with its default settings, and with the feature turned on it
mixes up the filters of queries over one DataFrame. Offsets and times are options; columns are chosen by `.schema(...)`.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
except ImportError as error:
    raise ImportError("format('kafkalog') needs pyspark 4.0 or later: pip install 'kafkalog[spark]'") from error

from kafkalog.spark.read.discover import local_path
from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.read.planner import plan_splits
from kafkalog.spark.read.tasks import SplitPartition, columns_of_struct, read_partition
from kafkalog.spark.schema import Column, ddl
from kafkalog.spark.write.options import WRITE_ONLY
from kafkalog.storage.remote_path import is_remote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

NAME = "kafkalog"


def register(spark: "SparkSession") -> None:
    """Make `format("kafkalog")` known to a session, whether or not it has found it by itself."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(KafkaLogDataSource)
    except AnalysisException as error:
        # Spark registers nothing over what it has found.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


class KafkaLogDataSource(DataSource):
    """Directories of Kafka partitions as DataFrames, read and written without a broker."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return NAME

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """ValueError: no read, stream or write takes these options."""
        super().__init__(options)
        if not _is_write(self.options):
            _read_options(self.options)

    def schema(self) -> str:
        """The columns when none are chosen. FileNotFoundError: a path is not there."""
        options = _read_options(self.options)
        _ensure_there(options)
        return ddl(options)

    def reader(self, schema: "StructType") -> "KafkaLogReader":
        """ValueError: an option does not suit a batch read; a column does not exist or has another type."""
        return KafkaLogReader(ReadOptions.parse(self.options), columns_of_struct(schema))

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802 - Spark's name
        """Return the reader of a stream; it raises on first use if options or columns are invalid for one."""
        from kafkalog.spark.stream_reader import KafkaLogStreamReader, RefusedStreamReader

        try:
            return KafkaLogStreamReader(ReadOptions.parse(self.options, streaming=True), columns_of_struct(schema))
        except ValueError as error:
            return RefusedStreamReader(error)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802 - Spark's name
        """NotImplementedError: a log is written by batches."""
        raise NotImplementedError(
            "kafkalog is no sink of streams: write each micro-batch, by foreachBatch and df.write"
        )

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """What writes partition directories. ValueError: options or columns that a write does not take."""
        from kafkalog.spark.write.data_source_writer import KafkaLogArrowWriter

        return KafkaLogArrowWriter(self.options, schema, overwrite)


class KafkaLogReader(DataSourceReader):
    """A batch read. Picklable; holds no file."""

    def __init__(self, options: ReadOptions, columns: tuple[Column, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """A task each. OSError, ValueError, KafkaLogError: as `plan_splits`."""
        return [SplitPartition(split) for split in plan_splits(self._options)]

    def read(self, partition: InputPartition | None) -> "Iterator[pa.RecordBatch]":
        """The rows of one; Spark gives one without a split where there is none. Raises what `read_split` does."""
        return read_partition(partition, self._columns, self._options)


def _is_write(options: Mapping[str, Any]) -> bool:
    """Spark does not say what it makes a source for; some options only a write has."""
    return any(name.lower() in WRITE_ONLY for name in options)


def _read_options(options: Mapping[str, Any]) -> ReadOptions:
    """As a stream's or as a batch's, for what is the same in both."""
    try:
        return ReadOptions.parse(options, streaming=True)
    except ValueError:
        return ReadOptions.parse(options)


def _ensure_there(options: ReadOptions) -> None:
    """Already at load(), as other sources of files do; globs are looked at when the read is planned."""
    for path in options.paths:
        if not is_remote(path) and not Path(local_path(path)).exists() and not _is_glob(path):
            raise FileNotFoundError(f"option path: there is no {path!r}")


def _is_glob(path: str) -> bool:
    return any(character in path for character in "*?[")
