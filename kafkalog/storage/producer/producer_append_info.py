"""`ProducerAppendInfo`: checks the batches of one producer in one append, in order.

    known    epoch 0, sequences up to 5         append    seq 6..8  follows       seq 8..9  is out of order
                                                          epoch 1 seq 0 follows   epoch 1 seq 3 is out of order

The producer state changes only with `ProducerStateManager.update`: a refused append has no effect. Epochs and sequences
of batches from other replicas, or from the log itself, have been checked before, and are not refused again.
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
    """The changes of one append to the state of one producer.

    A transaction version selects the rules for the epoch of a marker. 0 and 1: the epoch may be that of the
    transaction. 2: it is later, or it is the same and the transaction has ended. -1: unknown, treated like 0, and
    accepted only from another replica.

    Attributes:
        started_transactions: The transactions that the append starts.
    """

    def __init__(self, topic_partition: object, current: ProducerStateEntry, origin: AppendOrigin) -> None:
        """Create the info of an append.

        Args:
            topic_partition: The partition, as named in errors.
            current: The state of the producer before the append.
            origin: The origin of the batches; sequences are checked only for clients.
        """
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
        """The id of the producer."""
        return self._current.producer_id

    def to_entry(self) -> ProducerStateEntry:
        """Return the state of the producer after this append, with only the batches of this append."""
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
        """Check and add a batch.

        Args:
            batch: The next batch of the producer.
            first_offset_metadata: The offset and position of its first record; None if the position is unknown.
            transaction_version: The transaction version, for a marker.

        Returns:
            The transaction that the batch ends, if it is a marker and a transaction was open; else None.

        Raises:
            InvalidRecordError: A control batch does not contain a transaction marker.
            KafkaLogError: The errors of `append_data_batch` and `append_end_txn_marker`.
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
        """Check and add a batch of records; a transactional one starts a transaction if none is open.

        Raises:
            InvalidProducerEpochError: Its epoch is older than that of the producer.
            OutOfOrderSequenceError: The sequence of a client's batch does not follow the last one.
            InvalidTxnStateError: It is not transactional, but a transaction is open.
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
        """Check and add a marker.

        Args:
            marker: The decoded marker.
            epoch: The producer epoch of its batch.
            offset: Its offset.
            timestamp: Its timestamp, ms.
            transaction_version: Its transaction version.

        Returns:
            The transaction that it ends; None if none was open.

        Raises:
            InvalidProducerEpochError: Its epoch is too old.
            TransactionCoordinatorFencedError: A later coordinator has written a marker before.
            ValueError: The transaction version is unknown, and the marker is not from another replica.
        """
        if transaction_version == TV_UNKNOWN and self._origin is not AppendOrigin.REPLICATION:
            raise ValueError(f"a marker from {self._origin.value} needs its transaction version: 0, 1 or 2")
        # No record contains the version of a marker. A marker from another replica is treated as version 0, which has
        # the weakest rules.
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
        # Append and recovery have checked the checksum already, and a log that was closed cleanly is trusted.
        record = next(iter(batch.columns(check_crcs=False)), None) if batch.records_count else None
        if record is None:
            return None  # compaction has removed the marker, after all records of its transaction
        marker = decode_control(record)
        if not isinstance(marker, EndTransactionMarker):
            raise self._refusal(
                InvalidRecordError,
                batch.base_offset,
                "not a transaction marker",
                "ABORT or COMMIT",
                type(marker).__name__,
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
            # The coordinator got no response, or was restarted, and writes the same marker again.
            _log.info("producer %d of %s: repeated marker of epoch %d", self.producer_id, self._partition, epoch)
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
        _log.warning("%s; accepted, as another replica has accepted it", error)

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
        _log.info("%s; accepted, as another replica has accepted it", error)

    def _check_sequence(self, epoch: int, first_seq: int, offset: int) -> None:
        if epoch != self._epoch:
            # A new epoch begins with sequence 0; an unknown producer may begin with any sequence.
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
