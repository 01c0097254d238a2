"""The exceptions of kafkalog: Kafka's names, with `Error`.

Each says what is wrong and, where the matter lies in bytes, which file, which position, what was expected and what
was found. Bad arguments raise `ValueError` or `TypeError` instead.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


class KafkaLogError(Exception):
    """Base of every error that concerns a log. The details are attributes as well as text.

    Attributes: message (str); path (str or None: bytes in memory); position (int, bytes from the start of the file or
    buffer, or None); expected, found (values of any kind, or None).
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
        """Name the file (and position), where the code that found the error did not know them; return the error."""
        if self.path is None:
            self.path = path
        if self.position is None:
            self.position = position
        self.args = self.message, self.path, self.position, self.expected, self.found
        return self


class CorruptRecordError(KafkaLogError):
    """Bytes that are no batch: a size, a magic or a checksum that cannot be. Kafka: CorruptRecordException."""


class InvalidRecordError(KafkaLogError):
    """A batch whose checksum holds and whose content does not follow the format. Kafka: InvalidRecordException."""


class DecompressedSizeError(InvalidRecordError):
    """A batch would decompress to more than the stated limit."""


class NotALogError(KafkaLogError):
    """The path is there and holds no Kafka log."""


class OffsetOutOfRangeError(KafkaLogError):
    """An offset before the log's start or after its end. Kafka: OffsetOutOfRangeException."""


class OffsetsOutOfOrderError(KafkaLogError):
    """Batches to append whose offsets do not rise. Kafka: OffsetsOutOfOrderException."""


class UnexpectedAppendOffsetError(KafkaLogError):
    """Batches to append that begin before the log's end. Kafka: UnexpectedAppendOffsetException.

    Attributes: first_offset, last_offset (int) of what was to be appended.
    """

    first_offset: int = -1
    last_offset: int = -1

    @classmethod
    def of(cls, path: str, first_offset: int, last_offset: int, log_end_offset: int) -> "UnexpectedAppendOffsetError":
        """The error for offsets first_offset..last_offset, which log_end_offset is already behind."""
        what = "the first offset to append is before the log's end"
        error = cls(what, path, None, f"at least {log_end_offset}", first_offset)
        error.first_offset, error.last_offset = first_offset, last_offset
        return error


class RecordTooLargeError(KafkaLogError):
    """A batch larger than max.message.bytes. Kafka: RecordTooLargeException."""


class RecordBatchTooLargeError(KafkaLogError):
    """More bytes in one append than a segment may have. Kafka: RecordBatchTooLargeException."""


class SegmentOffsetOverflowError(KafkaLogError):
    """An offset too far from its segment's base for the index. Kafka: LogSegmentOffsetOverflowException."""


class CorruptIndexError(KafkaLogError):
    """An index file whose content cannot be. Kafka: CorruptIndexException."""


class InvalidOffsetError(KafkaLogError):
    """An offset that an index cannot take after the one before. Kafka: InvalidOffsetException."""


class CorruptSnapshotError(KafkaLogError):
    """A snapshot of producer state that does not follow its format. Kafka: CorruptSnapshotException."""


class CorruptCheckpointError(KafkaLogError):
    """A checkpoint file that does not follow its format."""


class InconsistentTopicIdError(KafkaLogError):
    """A topic id that is not the one in partition.metadata. Kafka: InconsistentTopicIdException."""


class OutOfOrderSequenceError(KafkaLogError):
    """A sequence that does not follow the producer's last one. Kafka: OutOfOrderSequenceException."""


class DuplicateSequenceError(KafkaLogError):
    """A batch that has been appended already. Kafka: DuplicateSequenceException."""


class InvalidProducerEpochError(KafkaLogError):
    """A producer epoch older than the one that is known. Kafka: InvalidProducerEpochException."""


class TransactionCoordinatorFencedError(KafkaLogError):
    """A marker of a coordinator that has been replaced. Kafka: TransactionCoordinatorFencedException."""


class InvalidTxnStateError(KafkaLogError):
    """A batch that does not fit the producer's transaction. Kafka: InvalidTxnStateException."""


class LogLockedError(KafkaLogError):
    """Another process, a broker perhaps, has the directory locked."""


class LogStateError(KafkaLogError):
    """What is asked for cannot be done in the state the log is in. Kafka: KafkaException, KafkaStorageException."""


class UnsupportedForMessageFormatError(KafkaLogError):
    """Records that the asked format cannot hold. Kafka: UnsupportedForMessageFormatException."""


class UnsupportedCompressionError(KafkaLogError):
    """A codec that the asked format does not know. Kafka: UnsupportedCompressionTypeException."""


class InvalidTimestampError(KafkaLogError):
    """A timestamp too far from now, or of the wrong type. Kafka: InvalidTimestampException."""


@dataclass(frozen=True, slots=True)
class RecordError:
    """What is wrong with one record; index counts from the first of the batch, or of the set, that was looked at."""

    index: int
    message: str


class RecordValidationError(KafkaLogError):
    """A batch refused for some of its records. Kafka: RecordValidationException.

    Attributes: reason (InvalidTimestampError if any record was refused for its timestamp, else InvalidRecordError);
    refused_count (how many records were refused); record_errors, one a record, of the first 1,000 of them: a small
    compressed batch may hold tens of millions.
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
        """The error for a batch; says what is wrong with its first three. refused_count: None = one an error."""
        errors = tuple(record_errors)
        count = len(errors) if refused_count is None else refused_count
        first = "; ".join(f"record {each.index}: {each.message}" for each in errors[:3])
        error = cls(f"{reason.message}: {count} of the records are refused: {first}")
        error.reason, error.record_errors, error.refused_count = reason, errors, count
        return error


class SerializationError(KafkaLogError):
    """A key or value that its serializer or deserializer cannot turn. Kafka: SerializationException."""
