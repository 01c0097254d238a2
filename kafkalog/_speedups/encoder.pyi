from collections.abc import Iterable, Iterator
from typing import SupportsIndex

from _typeshed import ReadableBuffer
from typing_extensions import disjoint_base

from kafkalog._speedups.record import Record

@disjoint_base
class RecordsEncoder:
    """An encoder for the records of one batch, which are added in the order of their offsets, by one thread.

    Args:
        magic: The format: 0, 1 or 2.
        base_offset: The base offset of the batch. The offsets of v2 records are stored relative to it.
        timestamp_type: The number of a `TimestampType`.
        log_append_time: If the type is LogAppendTime: the timestamp of every v1 message, and the largest timestamp in
            the header of a v2 batch, ms.
        relative: Whether the offsets of messages are stored relative to `base_offset`, as in a v1 wrapper.
        base_timestamp: The base timestamp of a v2 batch, ms; None: the timestamp of its first record.

    Attributes:
        size: The size of the records so far in bytes, before compression.
        magic: The format.
        records_count: The number of records so far.
        base_offset: The base offset of the batch.
        last_offset: The offset of the last record; -1 = no records.
        base_timestamp: The base timestamp of a v2 batch, ms; -1 = none.
        max_timestamp: The largest timestamp so far, ms; -1 = none.
        offset_of_max_timestamp: The offset of the first record with that timestamp; -1 = none.

    Raises:
        ValueError: `magic` is not 0, 1 or 2.
    """

    def __init__(
        self,
        magic: int,
        base_offset: int = 0,
        *,
        timestamp_type: int = 0,
        log_append_time: int = -1,
        relative: bool = False,
        base_timestamp: int | None = None,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def magic(self) -> int: ...
    @property
    def records_count(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def offset_of_max_timestamp(self) -> int: ...
    def append(
        self,
        value: ReadableBuffer | None = None,
        key: ReadableBuffer | None = None,
        headers: Iterable[tuple[str, ReadableBuffer | None]] = (),
        timestamp: SupportsIndex = -1,
        *,
        offset: SupportsIndex | None = None,
    ) -> None:
        """Add a record.

        Args:
            value: The value as bytes; None = null.
            key: The key as bytes; None = null.
            headers: Pairs of a key as text, and a value as bytes or None.
            timestamp: Milliseconds since the epoch; -1 = none.
            offset: The offset; None: the one after the last record, or the base offset.

        Raises:
            TypeError: An argument has another type.
            ValueError: The offset is not greater than the last one, or not within 2**31 - 1 of the base offset; the
                timestamp is less than -1; a v0/v1 message has headers; or the record or batch is too large.
        """
    def extend(self, records: Iterable[Record], keep_offsets: bool = False, *, default_timestamp: int = -1) -> None:
        """Add records.

        Args:
            records: `Record`s. Those before an invalid one are added.
            keep_offsets: Whether to keep the offsets of the records; if not, they get the next ones.
            default_timestamp: The timestamp for records that have none, ms.

        Raises:
            TypeError: An item is not a `Record`.
            ValueError: A record is invalid, see `append`.
        """
    def fill(
        self,
        records: Iterator[Record],
        room: int,
        *,
        first: Record | None = None,
        ratio: float = 1.0,
        taken: list[Record] | None = None,
        default_timestamp: int = -1,
    ) -> Record | None:
        """Add records until one does not fit in the batch.

        A record fits if `size` times `ratio`, plus its own bytes, is at most `room`. The first record of a batch always
        fits.

        Args:
            records: An iterator of `Record`s. They get the next offsets.
            room: The maximum size of all records, bytes.
            first: A `Record` to add before those of the iterator, such as the result of the previous call.
            ratio: The expected size of the records after compression, divided by that before.
            taken: A list to which the added records are appended.
            default_timestamp: The timestamp for records that have none, ms.

        Returns:
            The record that does not fit, which has been taken from the iterator; None: all records have been added.

        Raises:
            TypeError: An item is not a `Record`.
            ValueError: A record is invalid, see `append`.
        """
    def restart(self, base_offset: int) -> None:
        """Remove all records and begin a new batch with the same settings.

        Args:
            base_offset: The base offset of the new batch.

        Raises:
            TypeError: `base_offset` is not an integer.
            ValueError: `base_offset` is negative or more than 2**63 - 1.
        """
    def size_of(
        self,
        value: ReadableBuffer | None = None,
        key: ReadableBuffer | None = None,
        headers: Iterable[tuple[str, ReadableBuffer | None]] = (),
        timestamp: SupportsIndex = -1,
    ) -> int:
        """Return the number of bytes that `append` would add.

        Args:
            value: The value as bytes; None = null.
            key: The key as bytes; None = null.
            headers: Pairs of a key as text, and a value as bytes or None.
            timestamp: Milliseconds since the epoch; -1 = none.

        Raises:
            TypeError: An argument has another type.
            ValueError: The timestamp does not fit in 64 bits, or a header key cannot be encoded as UTF-8.
        """
    def take(self) -> bytearray:
        """Return a copy of the encoded records."""
    def to_batch(self, header: bytes, base_sequence: int = -1, payload: ReadableBuffer | None = None) -> bytearray:
        """Return the records as a v2 batch: the header, and the records or `payload`.

        Args:
            header: The 61 bytes of a header. The leader epoch, magic, attributes, producer id and producer epoch are
                kept; the other fields are set according to the records, and the CRC is computed.
            base_sequence: The sequence of the first record; -1 = none.
            payload: The compressed records; None: the records are not compressed.

        Raises:
            ValueError: The header does not have 61 bytes, the encoder has another format than 2, or the batch has more
                than 2**31 - 1 bytes.
        """
