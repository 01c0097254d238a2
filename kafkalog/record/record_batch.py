"""`RecordBatch`: one entry of a log. A v2 batch, a v0/v1 message, or a v0/v1 wrapper, which contains messages.

The fields of the header are available at once. The records are read when needed: by iterating, by `columns()`, and by
the `base_offset` of a wrapper, which its header does not have.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT32_MAX
from kafkalog._speedups.framing import HEADER_DTYPE
from kafkalog._speedups.record import Record
from kafkalog.attributes import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
    CompressionType,
    TimestampType,
    codec_name,
)
from kafkalog.errors import KafkaLogError
from kafkalog.record.batch_validity import check_entries, codec_of
from kafkalog.record.decoding import Entries, Reading, read_columns, read_whole
from kafkalog.record.record_columns import RecordColumns

_FIELD = {name: i for i, name in enumerate(HEADER_DTYPE.names or ())}
_POSITION, _SIZE = _FIELD["position"], _FIELD["size_in_bytes"]


def _field(name: str, doc: str) -> Any:
    i = _FIELD[name]
    return property(lambda self: self._fields[i], doc=doc)


class RecordBatch:
    """One entry of a log: header fields as properties, records by iterating.

    Absent values are those of Kafka: -1, or None for the `records_count` of formats 0 and 1. The bytes belong to the
    message set that returned the batch, and the batch keeps them alive.
    Kafka: `org.apache.kafka.common.record.RecordBatch`.
    """

    __slots__ = ("_base_offset", "_fields", "_reading", "_row", "_view")

    def __init__(
        self, row: NDArray[np.void], view: memoryview, reading: Reading, fields: tuple[int, ...] | None = None
    ) -> None:
        """Create the batch.

        Args:
            row: Its row of the header table, shape (1,).
            view: Its bytes.
            reading: How to read its records.
            fields: The values of its row, if they are known.
        """
        self._row = row
        self._fields: tuple[int, ...] = row.tolist()[0] if fields is None else fields
        self._view = view
        self._reading = reading
        self._base_offset: int | None = None

    position: int = _field("position", "The position of the entry in the file or buffer, in bytes.")
    size_in_bytes: int = _field("size_in_bytes", "The size of the whole entry in bytes, including framing.")
    magic: int = _field("magic", "The format: 0, 1 or 2. `ensure_valid` reports other numbers as damage.")
    last_offset: int = _field(
        "last_offset", "The offset of the last record, even if compaction has removed that record."
    )
    max_timestamp: int = _field("max_timestamp", "The largest timestamp, ms; -1 = none.")
    partition_leader_epoch: int = _field(
        "partition_leader_epoch", "The epoch of the leader that appended it; -1 = unknown."
    )
    producer_id: int = _field("producer_id", "The idempotent producer's id; -1 = none.")
    producer_epoch: int = _field("producer_epoch", "The idempotent producer's epoch; -1 = none.")
    base_sequence: int = _field("base_sequence", "The sequence of the first record; -1 = none.")
    checksum: int = _field("checksum", "The stored CRC: CRC-32C in format 2, CRC-32 before.")

    @property
    def base_offset(self) -> int:
        """The offset of the first record.

        Raises:
            InvalidRecordError: A wrapper whose content does not follow the format.
            CorruptRecordError: A wrapper of an unknown format, or shorter than its header.
        """
        if self._is_wrapper and self._base_offset is None:
            reading = replace(self._reading, check_crcs=False)
            self._base_offset = int(next(read_columns(self._entries, reading)).offset[0])
        return self._fields[_FIELD["base_offset"]] if self._base_offset is None else self._base_offset

    @property
    def next_offset(self) -> int:
        """The offset after the last."""
        return self.last_offset + 1

    @property
    def records_count(self) -> int | None:
        """The number of records, less than the range of offsets after compaction; None in formats 0 and 1."""
        return None if self.magic < 2 else self._fields[_FIELD["records_count"]]

    @property
    def compression_type(self) -> CompressionType:
        """The codec.

        Raises:
            InvalidRecordError: There is no codec with the number in the header.
        """
        return codec_of(self._fields[_FIELD["compression_type"]], self._reading.path, self.position)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamps; format 0 has none."""
        return TimestampType(self._fields[_FIELD["timestamp_type"]])

    @property
    def base_timestamp(self) -> int:
        """The base of the records' timestamps, ms, or the delete horizon if set; -1 in formats 0 and 1."""
        return self._fields[_FIELD["base_timestamp"]]

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time, ms, from which compaction may drop the tombstones or the marker in it; None if it is not set."""
        return self.base_timestamp if self._flag(DELETE_HORIZON_BIT) else None

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction; markers are."""
        return self._flag(TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether it holds control records, which a consumer does not see."""
        return self._flag(CONTROL_BIT)

    @property
    def is_compressed(self) -> bool:
        """Whether its attributes name a codec."""
        return self._fields[_FIELD["compression_type"]] != 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, 0 after 2**31 - 1; -1 = none."""
        if self.base_sequence == -1:
            return -1
        return increment_sequence(self.base_sequence, self.last_offset - self._fields[_FIELD["base_offset"]])

    @property
    def is_valid(self) -> bool:
        """Whether the format is known, the size is at least that of the header, and the checksum is right."""
        return self._damage() is None

    def ensure_valid(self) -> None:
        """Check the format, the size and the checksum.

        Raises:
            CorruptRecordError: The batch is not valid.
        """
        damage = self._damage()
        if damage is not None:
            raise damage.at(self._reading.path)

    def columns(self, *, check_crcs: bool = True) -> RecordColumns:
        """Return all records as arrays, control records too.

        Raises:
            CorruptRecordError: The batch is not valid or, with `check_crcs`, its checksum is wrong.
            DecompressedSizeError: The arrays and the decompressed records are larger than the decompression limit and
                64 MiB. Iterating reads such a batch, and so do the columns of its message set.
            InvalidRecordError: The content does not follow the format.
        """
        return read_whole(self._entries, self._reading, check_crcs=check_crcs)

    def __iter__(self) -> Iterator[Record]:
        """Yield the records, control records too, decompressed, with absolute offsets.

        Raises:
            CorruptRecordError: The checksum is wrong.
            InvalidRecordError: The content does not follow the format; raised after the records before the damage.
        """
        reading = replace(self._reading, check_crcs=True, control=True)
        return chain.from_iterable(map(iter, read_columns(self._entries, reading)))

    def _damage(self) -> KafkaLogError | None:
        return check_entries(self._row, self._view, self._fields[_POSITION])[1]

    @property
    def _entries(self) -> Entries:
        return Entries(self._row, self._view, self.position)

    @property
    def _is_wrapper(self) -> bool:
        return self.magic < 2 and self.is_compressed

    def _flag(self, bit: int) -> bool:
        return self.magic >= 2 and bool(self._fields[_FIELD["attributes"]] & bit)

    def __repr__(self) -> str:
        first = self._fields[_FIELD["base_offset"]]
        offsets = f"offsets {first}..{self.last_offset}" if first >= 0 else f"last offset {self.last_offset}"
        count = "" if self.records_count is None else f", {self.records_count} records"
        kind = ", control" if self.is_control else ", transactional" if self.is_transactional else ""
        codec = self._fields[_FIELD["compression_type"]]
        return (
            f"<RecordBatch {offsets}{count}, magic {self.magic}, {codec_name(codec)}{kind}, "
            f"{self.size_in_bytes} bytes at position {self.position}>"
        )


def increment_sequence(sequence: int, increment: int) -> int:
    """Add to a sequence; 0 follows 2**31 - 1. Kafka: DefaultRecordBatch.incrementSequence."""
    if sequence > _int32(INT32_MAX - increment):
        return _int32(increment - (INT32_MAX - sequence) - 1)
    return _int32(sequence + increment)


def _int32(value: int) -> int:
    """Wrap `value` to 32 bits, as Java's int arithmetic does: a damaged header has any sequence."""
    return (value + 0x80000000) % 0x100000000 - 0x80000000


def batches_of(entries: Entries, reading: Reading) -> Iterator[RecordBatch]:
    """Yield a `RecordBatch` for each of the entries."""
    rows, view, position = entries
    # All rows at once, because access to the fields of single rows costs several times as much.
    for i, fields in enumerate(rows.tolist()):
        start = fields[_POSITION] - position
        yield RecordBatch(rows[i : i + 1], view[start : start + fields[_SIZE]], reading, fields)
