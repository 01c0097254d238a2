"""The state of the transaction to which each batch belongs.

    offset     10      11      12       13      14      15
    batch      A data  B data  A ABORT  B data  A data  C data (not transactional)
    state      aborted open    aborted  open    open    none

A log has its aborted transactions in the transaction indexes and its open ones in the producer state, as for consumers.
A single file has only its own markers: a transaction without one there is undecided. So is every transaction that is
not known to be aborted where damage hides the open ones.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import CONTROL_BIT
from kafkalog.errors import KafkaLogError
from kafkalog.scan.transactions import marker_types, transactional
from kafkalog.storage.index.transaction_index import AbortedTxn
from kafkalog.storage.log import Log
from kafkalog.storage.read.aborted_transactions import AbortedBatches
from kafkalog.storage.segment.file_message_set import FileMessageSet

NONE, COMMITTED, ABORTED, OPEN, UNDECIDED = range(5)
# Indexed by the numbers above; those of the transactions are `TransactionState`s.
STATES = ("", "committed", "aborted", "open", "undecided")


class TransactionStates:
    """The states of the transactions of a log or a file. They are read when the first transactional batch is met."""

    def __init__(self, log: Log | FileMessageSet) -> None:
        self._log = log
        self._aborted = AbortedBatches(())
        # The first offset of each producer's open transaction, and the offset before which the states are known.
        self._open: dict[int, int] = {}
        self._known_end = 0
        # The log end when they were read; None: not read.
        self._read_at: int | None = None

    def among(self, rows: NDArray[np.void]) -> NDArray[np.uint8]:
        """Return the state of each row.

        Args:
            rows: Rows of the header table (HEADER_DTYPE), shape (n,).

        Returns:
            Indexes of STATES, uint8, shape (n,).

        Raises:
            OSError: A file was not read.
        """
        own = transactional(rows)
        states = own.astype(np.uint8)
        if not own.any():
            return states
        last = rows["last_offset"]
        if self._known_end <= int(last.max()):
            self._read()
        states[own & (last >= self._known_end)] = UNDECIDED
        undecided = OPEN if isinstance(self._log, Log) else UNDECIDED
        for producer, first in self._open.items():
            states[own & (rows["producer_id"] == producer) & (last >= first)] = undecided
        states[self._aborted.among(rows) & own] = ABORTED
        return states

    def _read(self) -> None:
        end = self._log.log_end_offset if isinstance(self._log, Log) else 0
        if end == self._read_at:
            return
        self._read_at = end
        if isinstance(self._log, Log):
            self._read_log(self._log, end)
        else:
            self._read_file(self._log)

    def _read_log(self, log: Log, end: int) -> None:
        try:
            # The indexes last: a transaction that is aborted meanwhile is in both.
            producers = log.producer_state.active_producers.values()
            self._open = {
                each.producer_id: each.current_txn_first_offset
                for each in producers
                if each.current_txn_first_offset is not None
            }
            self._known_end = end
        except KafkaLogError:
            # Readers report the damage themselves.
            self._open, self._known_end = {}, 0
        self._aborted = AbortedBatches(each for segment in log.segments for each in segment.txn_index)

    def _read_file(self, file: FileMessageSet) -> None:
        read = FileTransactions(file)
        try:
            for rows in file.header_runs():
                read.add(rows)
                self._known_end = int(rows["last_offset"][-1]) + 1
        except KafkaLogError:
            # Readers report the damage themselves.
            pass
        self._open, self._aborted = read.open, AbortedBatches(read.aborted)


class FileTransactions:
    """The transactions of one file, decided by the markers in it. `add` takes the rows of its batches, in order.

    Attributes:
        open: The first offset in the file of each producer's transaction that has no marker.
        aborted: The transactions that were aborted.
    """

    def __init__(self, file: FileMessageSet) -> None:
        self._file = file
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedTxn] = []
        self._index, self._indexed = AbortedBatches(()), 0

    def add(self, rows: NDArray[np.void]) -> list[AbortedTxn]:
        """Add the next rows, and return the transactions that markers among them abort."""
        known = len(self.aborted)
        rows = rows[transactional(rows)]
        is_marker = rows["attributes"] & CONTROL_BIT != 0
        markers = marker_types(self._file, rows[is_marker])
        columns = (rows["producer_id"], rows["base_offset"], rows["position"], is_marker)
        for producer, offset, position, ends in zip(*(column.tolist() for column in columns), strict=True):
            if not ends:
                self.open.setdefault(producer, offset)
            elif (marker := markers.get(position)) in {"COMMIT", "ABORT"}:
                # A transaction without batches here began before this file, or is empty.
                first = self.open.pop(producer, offset)
                if marker == "ABORT":
                    self.aborted.append(AbortedTxn(producer, first, offset, offset + 1))
        return self.aborted[known:]

    def decide(self, later: Iterable[AbortedTxn]) -> list[AbortedTxn]:
        """Add those aborted transactions of later files that are open at the end of this one, and return them."""
        found = [each for each in later if each.first_offset <= self.open.get(each.producer_id, -1) <= each.last_offset]
        self.aborted += found
        return found

    def aborted_among(self, rows: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return a mask of the rows that belong to an aborted transaction."""
        if self._indexed != len(self.aborted):
            self._index, self._indexed = AbortedBatches(self.aborted), len(self.aborted)
        return self._index.among(rows)
