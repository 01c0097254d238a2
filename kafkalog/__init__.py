"""kafkalog: read, check, repair and write Apache Kafka's log directories, without a broker or a JVM.

    import kafkalog

    with kafkalog.open("data/orders-0") as log:
        for record in log:
            print(record.offset, record.key, record.value)

The public names are imported on first use, so that `import kafkalog` is fast.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

from kafkalog.lazy_names import homes_of, imported

if TYPE_CHECKING:
    import os

    from kafkalog import errors
    from kafkalog._speedups.output_stream import BufferingOutputStream, ReservedOutput
    from kafkalog._speedups.record import Record
    from kafkalog.attributes import CompressionType, TimestampType
    from kafkalog.record.framing import EndKind, EndOfData
    from kafkalog.record.log_validator import AppendOrigin, ValidationResult, validate_messages_and_assign_offsets
    from kafkalog.record.message_set import ByteBufferMessageSet, MessageSet, batches_of_records
    from kafkalog.record.message_writer import MessageWriter
    from kafkalog.record.record_batch import RecordBatch
    from kafkalog.record.record_columns import RecordColumns
    from kafkalog.record.records_builder import BatchSettings, RecordsBuilder
    from kafkalog.storage.fetch_data_info import AbortedTransaction, FetchDataInfo, IsolationLevel, LogAppendInfo
    from kafkalog.storage.file_names import TopicPartition
    from kafkalog.storage.log import Log
    from kafkalog.storage.log_config import LogConfig
    from kafkalog.storage.log_manager import Intervals, LogManager
    from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
    from kafkalog.storage.read.consumer import Consumer
    from kafkalog.storage.read_only_log import ReadOnlyLog
    from kafkalog.storage.segment.file_message_set import FileMessageSet, OffsetPosition, TimestampAndOffset
    from kafkalog.storage.unified_log import Progress, WritableLog

__version__ = "0.1.0"

# A library prints nothing by itself: the program that uses it chooses where its messages go.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AbortedTransaction",
    "AppendOrigin",
    "BatchSettings",
    "BufferingOutputStream",
    "ByteBufferMessageSet",
    "CompressionType",
    "Consumer",
    "EndKind",
    "EndOfData",
    "FetchDataInfo",
    "FileMessageSet",
    "Intervals",
    "IsolationLevel",
    "Log",
    "LogAppendInfo",
    "LogConfig",
    "LogManager",
    "LogOffsetMetadata",
    "MessageSet",
    "MessageWriter",
    "OffsetPosition",
    "ReadOnlyLog",
    "Record",
    "RecordBatch",
    "RecordColumns",
    "RecordsBuilder",
    "ReservedOutput",
    "TimestampAndOffset",
    "TimestampType",
    "TopicPartition",
    "ValidationResult",
    "WritableLog",
    "batches_of_records",
    "errors",
    "validate_messages_and_assign_offsets",
]
# `open` is public, too. It is not in the list, so that `from kafkalog import *` does not replace the built-in one.

# The home of each name. `TYPE_CHECKING` and `__all__` say the same to type checkers, which need literals.
_HOMES = homes_of(
    {
        "kafkalog._speedups.output_stream": "BufferingOutputStream ReservedOutput",
        "kafkalog._speedups.record": "Record",
        "kafkalog.attributes": "CompressionType TimestampType",
        "kafkalog.record.framing": "EndKind EndOfData",
        "kafkalog.record.log_validator": "AppendOrigin ValidationResult validate_messages_and_assign_offsets",
        "kafkalog.record.message_set": "ByteBufferMessageSet MessageSet batches_of_records",
        "kafkalog.record.message_writer": "MessageWriter",
        "kafkalog.record.record_batch": "RecordBatch",
        "kafkalog.record.record_columns": "RecordColumns",
        "kafkalog.record.records_builder": "BatchSettings RecordsBuilder",
        "kafkalog.storage.fetch_data_info": "AbortedTransaction FetchDataInfo IsolationLevel LogAppendInfo",
        "kafkalog.storage.file_names": "TopicPartition",
        "kafkalog.storage.log": "Log",
        "kafkalog.storage.log_config": "LogConfig",
        "kafkalog.storage.log_manager": "Intervals LogManager",
        "kafkalog.storage.log_offset_metadata": "LogOffsetMetadata",
        "kafkalog.storage.read.consumer": "Consumer",
        "kafkalog.storage.read_only_log": "ReadOnlyLog",
        "kafkalog.storage.segment.file_message_set": "FileMessageSet OffsetPosition TimestampAndOffset",
        "kafkalog.storage.unified_log": "WritableLog",
    }
)


@overload
def open(  # noqa: A001 - a module's own open, like gzip.open
    path: "str | os.PathLike[str]",
    mode: Literal["r"] = "r",
    config: "LogConfig | None" = None,
    *,
    decompression_limit: int | None = None,
) -> "Log": ...
@overload
def open(  # noqa: A001 - a module's own open, like gzip.open
    path: "str | os.PathLike[str]",
    mode: Literal["a"],
    config: "LogConfig | None" = None,
    *,
    decompression_limit: int | None = None,
    progress: "Progress | None" = None,
) -> "WritableLog": ...
@overload
def open(  # noqa: A001 - a module's own open, like gzip.open
    path: "str | os.PathLike[str]",
    mode: Literal["r", "a"],
    config: "LogConfig | None" = None,
    *,
    decompression_limit: int | None = None,
    progress: "Progress | None" = None,
) -> "Log": ...
def open(  # noqa: A001 - as above
    path: "str | os.PathLike[str]",
    mode: Literal["r", "a"] = "r",
    config: "LogConfig | None" = None,
    *,
    decompression_limit: int | None = None,
    progress: "Progress | None" = None,
) -> "Log":
    """Open a partition directory, named <topic>-<number>, and return its `Log`.

    With mode "a", the parent directory is the broker's data directory: it has checkpoints, lock and clean shutdown
    file. Nothing runs in the background: call `delete_old_segments` to apply retention, and `flush` to flush by time.
    Deleted files stay on disk for `file_delete_delay_ms`, or until the log is opened again. `LogManager` does all this
    by itself.

    Args:
        path: The partition directory; with mode "r" also the URL of one in a store, such as "s3://backup/orders-0"
            (extra `remote`).
        mode: "r" reads; nothing is written, created or locked. "a" returns a `WritableLog`, to read and append: the
            directory is created if it is missing, locked, and recovered if its last writer did not close it cleanly.
        config: The settings of the topic; None: Kafka's defaults.
        decompression_limit: The most bytes that one batch may decompress to; None: 256 MiB.
        progress: Called during recovery with the bytes recovered and the bytes to recover.

    Raises:
        FileNotFoundError, NotADirectoryError: The directory is missing, or not a directory.
        NotALogError: The directory contains no log, or does not have the name of a partition.
        LogLockedError: A broker or another process writes to the partition.
        ValueError, TypeError: An argument is invalid.
        CorruptRecordError: The log is damaged at a position that checkpoints describe as flushed.
        CorruptCheckpointError: A checkpoint of the data directory does not follow its format. The message says what
            deleting it means.
        OSError: A file was not read or written.
        io.UnsupportedOperation: With mode "a", the log is in a store.
        ImportError: fsspec, or the package of this kind of store, is missing.
    """
    from kafkalog.storage.open_log import open_log

    return open_log(path, mode, config, decompression_limit=decompression_limit, progress=progress)


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("kafkalog.errors")
    return imported(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "open", "__version__"])
