"""`ProducerAppendInfo`: the batches of one producer in one append, checked one after the other.

    known    epoch 0, sequences up to 5         append    seq 6..8  follows       seq 8..9  is out of order
                                                          epoch 1 seq 0 follows   epoch 1 seq 3 is out of order

Nothing is remembered until `ProducerStateManager.update`: an append that is refused leaves no trace. What other
replicas and the log itself have once taken is not checked again.
Source: storage/.../internals/log/ProducerAppendInfo.java.
"""

import logging
from typing import Any

from kafkalog._speedups.arguments import INT32_MAX
from kafkalog.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    KafkaLogError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kafkalog.record.control import ControlRecordType, EndTransactionMarker, decode_control
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_entry import (
    BATCHES_TO_RETAIN,
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    TxnMetadata,
)

TV_UNKNOWN = -1

_log = logging.getLogger(__name__)


class ProducerAppendInfo:
    """What one append changes for one producer.

    transaction_version: which rules a marker follows. 0, 1: its epoch may be the transaction's own; 2: it is a later
    one, or the same again where the transaction has ended; -1, unknown: as 0, and only from another replica.
    """

    __slots__ = (
        "_batches",
        "_coordinator_epoch",
        "_current",
        "_epoch",
        "_last_timestamp",
        "_origin",
        "_partition",
        "_txn_first_offset",
        "started_transactions",
    )

    def __init__(self, topic_partition: object, current: ProducerStateEntry, origin: AppendOrigin) -> None:
        """`current`: what is known of the producer so far."""
        self._partition = topic_partition
        self._current = current
        self._origin = origin
        self._epoch = current.producer_epoch
        self._coordinator_epoch = current.coordinator_epoch
        self._last_timestamp = current.last_timestamp
        self._txn_first_offset = current.current_txn_first_offset
        self._batches: list[BatchMetadata] = []
        self.started_transactions: list[TxnMetadata] = []

    @property
    def producer_id(self) -> int:
        """Whose append it is."""
        return self._current.producer_id

    def to_entry(self) -> ProducerStateEntry:
        """The producer after this append, with the batches of this append only."""
        return ProducerStateEntry(
            self._current.producer_id,
            self._epoch,
            self._coordinator_epoch,
            self._last_timestamp,
            self._txn_first_offset,
            tuple(self._batches),
        )

    def append(
        self,
        batch: RecordBatch,
        first_offset_metadata: LogOffsetMetadata | None = None,
        transaction_version: int = TV_UNKNOWN,
    ) -> CompletedTxn | None:
        """Take one more batch; for a marker that ends an open transaction, that transaction.

        first_offset_metadata: where its first record will lie, if known. Errors: as `append_data_batch` and
        `append_end_txn_marker`; InvalidRecordError: a control batch that holds no such marker.
        """
        if batch.is_control:
            return self._append_control_batch(batch, transaction_version)
        base_offset = batch.base_offset
        first = first_offset_metadata or LogOffsetMetadata(base_offset)
        last_offset = batch.last_offset
        metadata = BatchMetadata(
            batch.last_sequence, last_offset, last_offset - first.message_offset, batch.max_timestamp
        )
        self.append_data_batch(batch.producer_epoch, batch.base_sequence, metadata, first, batch.is_transactional)
        return None

    def append_data_batch(
        self,
        epoch: int,
        first_seq: int,
        metadata: BatchMetadata,
        first_offset: LogOffsetMetadata,
        is_transactional: bool,
    ) -> None:
        """Take a batch of records; a transactional one opens a transaction where none is open.

        InvalidProducerEpochError: its epoch is older than the one known. OutOfOrderSequenceError: a client's sequence
        does not follow. InvalidTxnStateError: it is not transactional and a transaction is open.
        """
        offset = first_offset.message_offset
        self._check_epoch(epoch, offset, TV_UNKNOWN)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, first_seq, offset)
        if self._txn_first_offset is not None and not is_transactional:
            raise self._refusal(
                InvalidTxnStateError,
                offset,
                "a batch outside of the open transaction",
                f"a transactional batch: one began at {self._txn_first_offset}",
            )
        self._set_epoch(epoch)
        self._batches = [*self._batches[1 - BATCHES_TO_RETAIN :], metadata]
        self._last_timestamp = metadata.timestamp
        if is_transactional and self._txn_first_offset is None:
            self._txn_first_offset = offset
            self.started_transactions.append(TxnMetadata(self.producer_id, first_offset))

    def append_end_txn_marker(
        self,
        marker: EndTransactionMarker,
        epoch: int,
        offset: int,
        timestamp: int,
        transaction_version: int = TV_UNKNOWN,
    ) -> CompletedTxn | None:
        """Take a marker (timestamp in ms); the transaction it ends, None where none was open.

        InvalidProducerEpochError: its epoch is not late enough. TransactionCoordinatorFencedError: a later coordinator
        has written a marker. ValueError: the transaction version is not known, and no other replica has checked.
        """
        if transaction_version == TV_UNKNOWN and self._origin is not AppendOrigin.REPLICATION:
            raise ValueError(f"a marker from {self._origin.value} needs its transaction version: 0, 1 or 2")
        # Which version a marker was written under is in no record: what another replica sends is taken as version 0,
        # which refuses least.
        self._check_epoch(epoch, offset, max(transaction_version, 0))
        self._check_coordinator_epoch(marker.coordinator_epoch, offset)
        began = self._txn_first_offset
        self._set_epoch(epoch)
        self._coordinator_epoch = marker.coordinator_epoch
        self._txn_first_offset = None
        self._last_timestamp = timestamp
        if began is None:
            return None
        return CompletedTxn(self.producer_id, began, offset, marker.type is ControlRecordType.ABORT)

    def _append_control_batch(self, batch: RecordBatch, transaction_version: int) -> CompletedTxn | None:
        # Without its checksum: whoever appends or recovers has checked, and a log that was shut down well is believed.
        record = next(iter(batch.columns(check_crcs=False)), None) if batch.records_count else None
        if record is None:
            return None  # compaction has removed the marker, as all of its transaction before
        marker = decode_control(record)
        if not isinstance(marker, EndTransactionMarker):
            raise self._refusal(
                InvalidRecordError, batch.base_offset, "no transaction marker", "ABORT or COMMIT", type(marker).__name__
            )
        return self.append_end_txn_marker(
            marker, batch.producer_epoch, batch.base_offset, record.timestamp, transaction_version
        )

    def _set_epoch(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._batches = []
            self._epoch = epoch

    def _check_epoch(self, epoch: int, offset: int, transaction_version: int) -> None:
        bumped = transaction_version >= 2
        if epoch > self._epoch or (epoch == self._epoch and not bumped):
            return
        if bumped and epoch == self._epoch and self._txn_first_offset is None:
            # The coordinator got no answer, or has come back, and writes the same marker again.
            _log.info("producer %d of %s: a marker of epoch %d once more", self.producer_id, self._partition, epoch)
            return
        error = self._refusal(
            InvalidProducerEpochError,
            offset,
            f"a producer epoch that is too old (TV{transaction_version})" if bumped else "an old producer epoch",
            f"{'more than' if bumped else 'at least'} {self._epoch}",
            epoch,
        )
        if self._origin is not AppendOrigin.REPLICATION:
            raise error
        _log.warning("%s; another replica has taken it", error)

    def _check_coordinator_epoch(self, epoch: int, offset: int) -> None:
        if epoch >= self._coordinator_epoch:
            return
        error = self._refusal(
            TransactionCoordinatorFencedError,
            offset,
            "a marker of an old coordinator",
            f"coordinator epoch {self._coordinator_epoch} or later",
            epoch,
        )
        if self._origin is not AppendOrigin.REPLICATION:
            raise error
        _log.info("%s; another replica has taken it", error)

    def _check_sequence(self, epoch: int, first_seq: int, offset: int) -> None:
        if epoch != self._epoch:
            # A new epoch begins at 0; of a producer that is not known any sequence may be the first.
            if first_seq != 0 and self._epoch != -1:
                raise self._refusal(
                    OutOfOrderSequenceError, offset, f"the first sequence of epoch {epoch}", 0, first_seq
                )
            return
        last_seq = self._last_seq(epoch)
        expected = 0 if last_seq == INT32_MAX else last_seq + 1
        if first_seq != expected and self._current.producer_epoch != -1:
            raise self._refusal(OutOfOrderSequenceError, offset, "a sequence out of order", expected, first_seq)

    def _last_seq(self, epoch: int) -> int:
        if self._batches:
            return self._batches[-1].last_seq
        return self._current.last_seq if epoch == self._current.producer_epoch else -1

    def _refusal(
        self, error: type[KafkaLogError], offset: int, what: str, expected: object = None, found: Any = None
    ) -> KafkaLogError:
        message = f"producer {self.producer_id} of {self._partition} at offset {offset}: {what}"
        return error(message, expected=expected, found=found)

    def __repr__(self) -> str:
        return f"<ProducerAppendInfo {self.to_entry()}, started {self.started_transactions}>"
