"""kafkalog: Apache Kafka's log on disk, read from Python with no broker and no JVM.

    import kafkalog

    with kafkalog.open("data/orders-0") as log:
        for record in log:
            print(record.offset, record.key, record.value)

The public names are imported when they are first used, so that `import kafkalog` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from kafkalog import errors
    from kafkalog._speedups.output_stream import BufferingOutputStream, ReservedOutput
    from kafkalog._speedups.record import Record
    from kafkalog.attributes import CompressionType, TimestampType
    from kafkalog.record.batch import RecordBatch
    from kafkalog.record.builder import BatchSettings, RecordsBuilder
    from kafkalog.record.columns import RecordColumns
    from kafkalog.record.framing import EndKind, EndOfData
    from kafkalog.record.message_set import ByteBufferMessageSet, MessageSet, batches_of_records
    from kafkalog.record.message_writer import MessageWriter
    from kafkalog.record.validation import AppendOrigin, ValidationResult, validate_messages_and_assign_offsets
    from kafkalog.storage.file_message_set import FileMessageSet, OffsetPosition, TimestampAndOffset
    from kafkalog.storage.log import Log
    from kafkalog.storage.paths import TopicPartition

__version__ = "0.1.0"

__all__ = [
    "AppendOrigin",
    "BatchSettings",
    "BufferingOutputStream",
    "ByteBufferMessageSet",
    "CompressionType",
    "EndKind",
    "EndOfData",
    "FileMessageSet",
    "Log",
    "MessageSet",
    "MessageWriter",
    "OffsetPosition",
    "Record",
    "RecordBatch",
    "RecordColumns",
    "RecordsBuilder",
    "ReservedOutput",
    "TimestampAndOffset",
    "TimestampType",
    "TopicPartition",
    "ValidationResult",
    "batches_of_records",
    "errors",
    "validate_messages_and_assign_offsets",
]
# `open` is public too; left out, so that `from kafkalog import *` does not take the place of the built-in one.

_HOMES = {
    "AppendOrigin": "kafkalog.record.validation",
    "BatchSettings": "kafkalog.record.builder",
    "BufferingOutputStream": "kafkalog._speedups.output_stream",
    "ByteBufferMessageSet": "kafkalog.record.message_set",
    "CompressionType": "kafkalog.attributes",
    "EndKind": "kafkalog.record.framing",
    "EndOfData": "kafkalog.record.framing",
    "FileMessageSet": "kafkalog.storage.file_message_set",
    "Log": "kafkalog.storage.log",
    "MessageSet": "kafkalog.record.message_set",
    "MessageWriter": "kafkalog.record.message_writer",
    "OffsetPosition": "kafkalog.storage.file_message_set",
    "Record": "kafkalog._speedups.record",
    "RecordBatch": "kafkalog.record.batch",
    "RecordColumns": "kafkalog.record.columns",
    "RecordsBuilder": "kafkalog.record.builder",
    "ReservedOutput": "kafkalog._speedups.output_stream",
    "TimestampAndOffset": "kafkalog.storage.file_message_set",
    "TimestampType": "kafkalog.attributes",
    "TopicPartition": "kafkalog.storage.paths",
    "ValidationResult": "kafkalog.record.validation",
    "batches_of_records": "kafkalog.record.message_set",
    "validate_messages_and_assign_offsets": "kafkalog.record.validation",
}


def open(  # noqa: A001 - as gzip.open, beside the built-in one
    path: "str | os.PathLike[str]", mode: str = "r", *, decompression_limit: int | None = None
) -> "Log":
    """The `Log` of a partition directory. mode "r": reads only; never writes, creates or locks anything.

    decompression_limit: bytes that one batch may decompress to (None: 256 MiB).

    NotADirectoryError, FileNotFoundError: no such directory. NotALogError: it holds no log. ValueError: another mode.
    """
    from kafkalog.storage.log import open_log

    return open_log(path, mode, decompression_limit=decompression_limit)


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("kafkalog.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'kafkalog' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open", "__version__"])
