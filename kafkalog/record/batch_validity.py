"""Checks of log entries: framing, format, codec and checksum.

    rule                                              error
    the magic is 0, 1 or 2                            CorruptRecordError
    a v2 batch is at least 61 bytes long              CorruptRecordError
    the stored checksum equals the computed one       CorruptRecordError
    the codec exists                                  InvalidRecordError
    a size field is at least the smallest message's   CorruptRecordError

Nothing is decompressed. Only recovery checks less (`MessageSet.sound_runs`): as in Kafka, it checks only checksums.
Source: clients/.../common/record/{DefaultRecordBatch,LegacyRecord,ByteBufferLogInputStream}.java.
"""

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.checksum import first_unsound
from kafkalog._speedups.header_table import first_unreadable
from kafkalog.attributes import CompressionType
from kafkalog.errors import CorruptRecordError, InvalidRecordError, KafkaLogError
from kafkalog.record.layout import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD, RECORD_OVERHEAD_V0, SIZE_AT

# A plain int, which numpy compares faster.
_LARGEST_CODEC = int(CompressionType.ZSTD)


def check_entries(
    rows: NDArray[np.void], view: memoryview, position: int = 0, *, check_crcs: bool = True
) -> tuple[int, KafkaLogError | None, bool, bool]:
    """Find the first entry of an unknown format, shorter than its header, or with a wrong checksum.

    Args:
        rows: Rows of the header table.
        view: The bytes of the entries.
        position: The position in the file of `view[0]`.
        check_crcs: Whether to check checksums.

    Returns:
        The number of valid rows before it; its error, None if all rows are valid; whether any of the valid rows is
        compressed; whether any is a control batch.
    """
    bad, computed, compressed, control = first_unsound(view, rows, position, check_crcs)
    if bad == len(rows):
        return bad, None, compressed, control
    is_readable = first_unreadable(rows[bad : bad + 1])
    error = wrong_checksum(rows[bad], computed) if is_readable else unreadable(rows[bad])
    return bad, error, compressed, control


def ensure_valid(rows: NDArray[np.void], view: memoryview, position: int = 0, *, path: str | None = None) -> None:
    """Raise the error of the first entry that is not valid.

    Args:
        rows: Rows of the header table.
        view: The bytes of the entries.
        position: The position in the file of `view[0]`.
        path: Named in the error.

    Raises:
        CorruptRecordError: An unknown format, an entry shorter than its header, or a wrong checksum.
    """
    error = check_entries(rows, view, position)[1]
    if error is not None:
        raise error.at(path)


def ensure_readable(rows: NDArray[np.void]) -> None:
    """Check format, size and codec of the headers, as Kafka does when it iterates over batches.

    Raises:
        CorruptRecordError: An unknown format, or an entry shorter than its header.
        InvalidRecordError: An unknown codec in an entry before that one.
    """
    bad = first_unreadable(rows)
    unknown = rows["compression_type"][:bad] > _LARGEST_CODEC
    if unknown.any():
        row = rows[unknown.argmax()]
        codec_of(int(row["compression_type"]), None, int(row["position"]))
    if bad < len(rows):
        raise unreadable(rows[bad])


def ensure_end(view: memoryview, at: int) -> None:
    """Check the size field of the incomplete entry at `at`, if there is one; zeros are an invalid size.

    Raises:
        CorruptRecordError: The size field is less than that of the smallest message.
    """
    size = int.from_bytes(view[at + SIZE_AT : at + LOG_OVERHEAD], "big", signed=True)
    if len(view) - at >= LOG_OVERHEAD and size < RECORD_OVERHEAD_V0:
        message = "the size field is less than the smallest record's"
        raise CorruptRecordError(message, None, at, RECORD_OVERHEAD_V0, size)


def codec_of(number: int, path: str | None = None, position: int | None = None) -> CompressionType:
    """Return the codec with a number.

    Raises:
        InvalidRecordError: There is no such codec.
    """
    if number > _LARGEST_CODEC:
        raise InvalidRecordError("unknown codec", path, position, "0..4", number)
    return CompressionType(number)


def wrong_checksum(row: np.void, computed: int) -> CorruptRecordError:
    """Return the error for an entry whose stored checksum differs from the computed one."""
    return CorruptRecordError(
        f"the checksum of the batch with last offset {int(row['last_offset'])} does not hold",
        None,
        int(row["position"]),
        f"{int(row['checksum']):#010x}",
        f"{computed:#010x}",
    )


def unreadable(row: np.void) -> KafkaLogError:
    """Return the error for an entry of an unknown format, or shorter than its header."""
    position, magic, size = int(row["position"]), int(row["magic"]), int(row["size_in_bytes"])
    if not 0 <= magic <= 2:
        return CorruptRecordError("the magic is none of 0, 1, 2", None, position, "0..2", magic)
    return CorruptRecordError(
        "the batch is shorter than its header", None, position, f"at least {RECORD_BATCH_OVERHEAD}", size
    )
