"""The exceptions of kafkalog: Kafka's names, with `Error`.

Each says what is wrong and, where the matter lies in bytes, which file, which position, what was expected and what
was found. Bad arguments raise `ValueError` or `TypeError` instead.
"""

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
        """The same error with the file (and position) named, where the code that found it did not know them."""
        return type(self)(
            self.message,
            self.path if self.path is not None else path,
            self.position if self.position is not None else position,
            self.expected,
            self.found,
        )


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
