from collections.abc import Iterable, Iterator
from typing import SupportsIndex

from _typeshed import ReadableBuffer
from typing_extensions import disjoint_base

from kafkalog._speedups.record import Record

@disjoint_base
class RecordsEncoder:
    """Records of one batch, as bytes, in the order of their offsets.

    Args:
        magic: 0, 1 or 2.
        base_offset: What the offsets of v2 records, and of v1 messages if `relative`, count from.
        timestamp_type: The number of a `TimestampType`.
        log_append_time: The timestamp of every v0/v1 message, ms, if the type is LogAppendTime.
        relative: Whether v1 messages are those of a wrapper.
        base_timestamp: What v2 timestamps count from; None: the first record's.

    Attributes:
        size: The bytes of the records so far, before compression.
        magic: The format.
        records_count: The number of records so far.
        base_offset: As given.
        last_offset: The offset of the last record.
        base_timestamp: The timestamp that those of v2 records count from, ms; -1 = none.
        max_timestamp: The largest timestamp so far, ms; -1 = none.
        offset_of_max_timestamp: The offset of the first record that has it; -1 = none.
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
        """Add one record; its offset is the next one unless given.

        ValueError: the offset does not follow, the timestamp is less than -1, headers below magic 2, too large.
        TypeError: not bytes.
        """
    def extend(self, records: Iterable[Record], keep_offsets: bool = False, *, default_timestamp: int = -1) -> None:
        """Add `Record`s; their offsets are the next ones, or their own if keep_offsets. As `append` for each.

        default_timestamp: ms, for records that have no timestamp.
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
        """Add `Record`s, `first` if given and those of an iterator, until one has no room in `room` bytes.

        Returns that one; None: there are no more. What is here already counts for `ratio` of its bytes, as it may be
        once it is compressed. A batch that is empty has room for any. taken: a list to append those to that were added.
        default_timestamp, errors: as `extend`.
        """
    def restart(self, base_offset: int) -> None:
        """Forget the records, and begin another batch with what this one was told. ValueError: no offset."""
    def size_of(
        self,
        value: ReadableBuffer | None = None,
        key: ReadableBuffer | None = None,
        headers: Iterable[tuple[str, ReadableBuffer | None]] = (),
        timestamp: SupportsIndex = -1,
    ) -> int:
        """Bytes that `append` would add now. TypeError: not bytes."""
    def take(self) -> bytearray:
        """The bytes, as a bytearray of its own."""
    def to_batch(self, header: bytes, base_sequence: int = -1, payload: ReadableBuffer | None = None) -> bytearray:
        """The v2 batch of the records, as a bytearray of its own.

        header: its 61 bytes; filled in is what the records and base_sequence say, and what follows from all bytes.
        payload: the records compressed. ValueError: no such header, or a batch of more than 2**31 - 1 bytes.
        """
