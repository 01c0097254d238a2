"""The exceptions of kafkalog: Kafka's names, with `Error`.

Each describes the problem and, if it is about bytes, names the file, the position, the expected and the found value.
Bad arguments raise `ValueError` or `TypeError` instead.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self


class KafkaLogError(Exception):
    """The base class of all errors that concern a log. The text contains all attributes.

    Attributes:
        message: The description of the problem.
        path: The file or directory; None for bytes in memory, or if it is unknown.
        position: The position in bytes from the start of the file or buffer; None if it is not about bytes.
        expected: The expected value; None if there is nothing to compare.
        found: The value found; None if there is nothing to compare.
    """

    def __init__(
        self,
        message: str,
        path: str | None = None,
        position: int | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        super().__init__(message, path, position, expected, found)
        self.message = message
        self.path = path
        self.position = position
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        where = [str(self.path)] if self.path is not None else []
        if self.position is not None:
            where.append(f"position {self.position}")
        details = [
            f"{name} {value}"
            for name, value in (("expected", self.expected), ("found", self.found))
            if value is not None
        ]
        return ": ".join([*where, self.message]) + (f" ({', '.join(details)})" if details else "")

    def at(self, path: str | None, position: int | None = None) -> Self:
        """Set path and position if they are still None; return the error.

        Code that finds an error in bytes mostly does not know their file: its callers add it.
        """
        if self.path is None:
            self.path = path
        if self.position is None:
            self.position = position
        self.args = self.message, self.path, self.position, self.expected, self.found
        return self


class CorruptRecordError(KafkaLogError):
    """Bytes that are not a batch: an invalid size, magic or checksum. Kafka: CorruptRecordException."""


class ChangedWhileReading(CorruptRecordError):
    """A file that was truncated or replaced while it was read: bytes found in it before are gone."""


class InvalidRecordError(KafkaLogError):
    """A batch whose content does not follow the format, or is not allowed. Kafka: InvalidRecordException."""


class DecompressedSizeError(InvalidRecordError):
    """A batch decompresses to more bytes than the limit."""


class NotALogError(KafkaLogError):
    """A path that exists, but is not a Kafka log."""


class OffsetOutOfRangeError(KafkaLogError):
    """An offset before the log's start or after its end. Kafka: OffsetOutOfRangeException."""


class LogTruncatedError(OffsetOutOfRangeError):
    """A log that was truncated while it was read. Kafka: LogTruncationException.

    Attributes:
        offset: The last offset that was read; it may have been cut off, and have another record now.
        log_end_offset: The log's end now.
    """

    offset: int = -1
    log_end_offset: int = -1

    @classmethod
    def of(cls, path: str, offset: int, log_end_offset: int) -> "LogTruncatedError":
        """Return the error for a log that was read up to an offset."""
        what = f"the log was truncated while it was read, up to offset {offset}; its end is {log_end_offset} now"
        error = cls(what, path)
        error.offset, error.log_end_offset = offset, log_end_offset
        return error


class OffsetsOutOfOrderError(KafkaLogError):
    """Batches to append whose offsets do not rise. Kafka: OffsetsOutOfOrderException."""


class UnexpectedAppendOffsetError(KafkaLogError):
    """Batches to append that begin before the log's end. Kafka: UnexpectedAppendOffsetException.

    Attributes:
        first_offset: The first offset of the batches.
        last_offset: The last offset of the batches.
    """

    first_offset: int = -1
    last_offset: int = -1

    @classmethod
    def of(cls, path: str, first_offset: int, last_offset: int, log_end_offset: int) -> "UnexpectedAppendOffsetError":
        """Return the error for batches with the offsets first_offset..last_offset, to append at log_end_offset."""
        what = "the first offset to append is before the log's end"
        error = cls(what, path, None, f"at least {log_end_offset}", first_offset)
        error.first_offset, error.last_offset = first_offset, last_offset
        return error


class RecordTooLargeError(KafkaLogError):
    """A batch larger than max.message.bytes. Kafka: RecordTooLargeException."""


class RecordBatchTooLargeError(KafkaLogError):
    """An append of more bytes than a segment may have. Kafka: RecordBatchTooLargeException."""


class SegmentOffsetOverflowError(KafkaLogError):
    """An offset too far from the base offset of its segment for the index. Kafka: LogSegmentOffsetOverflowException."""


class CorruptIndexError(KafkaLogError):
    """An index file with invalid content. Kafka: CorruptIndexException."""


class InvalidOffsetError(KafkaLogError):
    """An offset that does not follow the last one of an index. Kafka: InvalidOffsetException."""


class CorruptSnapshotError(KafkaLogError):
    """A snapshot of producer state that does not follow its format. Kafka: CorruptSnapshotException."""


class CorruptCheckpointError(KafkaLogError):
    """A checkpoint file that does not follow its format."""


class InconsistentTopicIdError(KafkaLogError):
    """A topic id that differs from the one in partition.metadata. Kafka: InconsistentTopicIdException."""


class OutOfOrderSequenceError(KafkaLogError):
    """A sequence that does not follow the last one of the producer. Kafka: OutOfOrderSequenceException."""


class DuplicateSequenceError(KafkaLogError):
    """A batch that has been appended already. Kafka: DuplicateSequenceException."""


class InvalidProducerEpochError(KafkaLogError):
    """A producer epoch older than the known one. Kafka: InvalidProducerEpochException."""


class TransactionCoordinatorFencedError(KafkaLogError):
    """A marker of a coordinator that was replaced. Kafka: TransactionCoordinatorFencedException."""


class InvalidTxnStateError(KafkaLogError):
    """A batch that does not belong to the open transaction of its producer. Kafka: InvalidTxnStateException."""


class LogLockedError(KafkaLogError):
    """A directory that is locked by another process, for example a broker."""


class LogStateError(KafkaLogError):
    """An operation that the state of the log does not allow. Kafka: KafkaException, KafkaStorageException."""


class UnsupportedForMessageFormatError(KafkaLogError):
    """Records that the requested format does not support. Kafka: UnsupportedForMessageFormatException."""


class UnsupportedCompressionError(KafkaLogError):
    """A codec that the requested format does not support. Kafka: UnsupportedCompressionTypeException."""


class InvalidTimestampError(KafkaLogError):
    """A timestamp too far from now, or of the wrong type. Kafka: InvalidTimestampException."""


@dataclass(frozen=True, slots=True)
class RecordError:
    """The error of one record.

    Attributes:
        index: Its index in the batch, or in the message set, that was checked.
        message: The description of the problem.
    """

    index: int
    message: str


class RecordValidationError(KafkaLogError):
    """A batch that is refused because of some of its records. Kafka: RecordValidationException.

    Attributes:
        reason: InvalidTimestampError if any record is refused for its timestamp, else InvalidRecordError.
        record_errors: The errors of the first 1,000 refused records; a small compressed batch may have tens of
            millions.
        refused_count: The number of refused records.
    """

    reason: InvalidTimestampError | InvalidRecordError
    record_errors: tuple[RecordError, ...] = ()
    refused_count: int = 0

    @classmethod
    def of(
        cls,
        reason: InvalidTimestampError | InvalidRecordError,
        record_errors: Iterable[RecordError],
        refused_count: int | None = None,
    ) -> "RecordValidationError":
        """Return the error for a batch; its text contains the first three record errors.

        Args:
            reason: The error with the reason for the refusal.
            record_errors: The errors of the records.
            refused_count: The number of refused records; None = the number of errors.
        """
        errors = tuple(record_errors)
        count = len(errors) if refused_count is None else refused_count
        first = "; ".join(f"record {each.index}: {each.message}" for each in errors[:3])
        error = cls(f"{reason.message}: {count} of the records are refused: {first}")
        error.reason, error.record_errors, error.refused_count = reason, errors, count
        return error


class SerializationError(KafkaLogError):
    """A key or value that its serializer or deserializer cannot convert. Kafka: SerializationException."""


def os_error_text(error: OSError) -> str:
    """Return path and reason; if a file of another user may not be accessed, also how to become that user."""
    reason = error.strerror or str(error)
    if error.filename is None:
        return reason
    path = os.fsdecode(error.filename)
    return f"{path}: {reason}{owner_hint(path, error)}"


def owner_hint(path: str | os.PathLike[str], error: OSError) -> str:
    """Return how to become the user who may access a file, if another user owns it; else an empty text."""
    if not isinstance(error, PermissionError):
        return ""
    # A file in a directory that may not be read has no owner that could be asked for; the directory has.
    for place in (Path(path), Path(path).parent):
        with suppress(OSError, KeyError):
            is_ours = place.stat().st_uid == os.geteuid()
            return "" if is_ours else f" (its owner may access it: sudo -u {place.owner()})"
    return ""
