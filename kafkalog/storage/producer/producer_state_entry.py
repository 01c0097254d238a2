"""The state of one producer: its epoch, its last five batches, its open transaction.

    ProducerStateEntry  producer 7, epoch 0, coordinator epoch -1
      batches           seq 3..5 at 10..12 | seq 6..6 at 13..13 | ...   at most 5, the oldest first
      open transaction  since offset 10

Entries are immutable: an append replaces the entry, so other threads may read one at any time.
Source: storage/.../internals/log/{ProducerStateEntry,BatchMetadata,TxnMetadata,CompletedTxn}.java.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from kafkalog._speedups.arguments import INT32_MAX
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.index.transaction_index import AbortedTxn
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata

BATCHES_TO_RETAIN = 5
"""A producer has at most five requests in flight, so none of them is repeated after five more batches."""


class BatchMetadata(NamedTuple):
    """A batch that was appended.

    Attributes:
        last_seq: The sequence of its last record.
        last_offset: Its last offset.
        offset_delta: Its last offset minus its first.
        timestamp: Its largest timestamp, ms.
    """

    last_seq: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_seq(self) -> int:
        """The sequence of its first record; sequences wrap from 2**31 - 1 to 0."""
        if self.last_seq < self.offset_delta:
            return INT32_MAX - (self.offset_delta - self.last_seq) + 1
        return self.last_seq - self.offset_delta

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class ProducerStateEntry(NamedTuple):
    """The state of one producer; unknown values are -1 or None.

    Attributes:
        producer_id: Its id.
        producer_epoch: Its epoch.
        coordinator_epoch: The epoch of the coordinator that wrote its last marker.
        last_timestamp: The timestamp of its last batch or marker, ms.
        current_txn_first_offset: The first offset of its open transaction; None if none is open.
        batch_metadata: Its last batches of this epoch, the oldest first.
    """

    producer_id: int
    producer_epoch: int = -1
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int | None = None
    batch_metadata: tuple[BatchMetadata, ...] = ()

    @property
    def last_seq(self) -> int:
        """The last sequence of the latest batch; -1 = none."""
        return self.batch_metadata[-1].last_seq if self.batch_metadata else -1

    @property
    def last_data_offset(self) -> int:
        """The last offset of the latest batch; -1 = none."""
        return self.batch_metadata[-1].last_offset if self.batch_metadata else -1

    @property
    def last_offset_delta(self) -> int:
        """The last offset of the latest batch minus its first; 0 if there is no batch."""
        return self.batch_metadata[-1].offset_delta if self.batch_metadata else 0

    def find_duplicate_batch(self, batch: RecordBatch) -> BatchMetadata | None:
        """Return the known batch with the same epoch and sequences; None if there is none."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        sequences = batch.base_sequence, batch.last_sequence
        return next((each for each in self.batch_metadata if (each.first_seq, each.last_seq) == sequences), None)

    def updated(self, later: "ProducerStateEntry") -> "ProducerStateEntry":
        """Return `later`, extended by the batches of this entry if the epochs are equal."""
        if later.producer_epoch != self.producer_epoch:
            return later
        batches = self.batch_metadata + later.batch_metadata
        return later._replace(batch_metadata=batches[-BATCHES_TO_RETAIN:])


class TxnMetadata(NamedTuple):
    """A transaction; last_offset is that of its marker, None while it is open."""

    producer_id: int
    first_offset: LogOffsetMetadata
    last_offset: int | None = None


class CompletedTxn(NamedTuple):
    """A transaction that was ended by a marker at last_offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool

    def aborted_txn(self, last_stable_offset: int) -> AbortedTxn:
        """Return the entry of an aborted transaction for the transaction index."""
        return AbortedTxn(self.producer_id, self.first_offset, self.last_offset, last_stable_offset)


class Transactions:
    """Transactions, sorted by their first offsets; insertion in rising order is fast."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._by_offset: dict[int, TxnMetadata] = {}

    @property
    def first(self) -> TxnMetadata | None:
        return self._by_offset[self._offsets[0]] if self._offsets else None

    def put(self, transaction: TxnMetadata) -> None:
        offset = transaction.first_offset.message_offset
        if offset not in self._by_offset:
            insort(self._offsets, offset)
        self._by_offset[offset] = transaction

    def remove(self, offset: int) -> TxnMetadata | None:
        transaction = self._by_offset.pop(offset, None)
        if transaction is not None:
            del self._offsets[bisect_left(self._offsets, offset)]
        return transaction

    def __iter__(self) -> Iterator[TxnMetadata]:
        return (self._by_offset[offset] for offset in self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)
