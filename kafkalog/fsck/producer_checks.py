"""The check of transaction indexes and producer snapshots against the batches: `ProducerCheck`.

    .log        data of 7 | data of 8 | abort of 7 | data of 8 | ...
    .txnindex             producer 7, first offset .. marker            aborted transactions, beside their markers
    .snapshot                                      ^ at this offset     the producers by then

The producers are replayed while the log is walked. What was deleted or compacted away is not known: an entry that says
more than the batches is accepted, one that contradicts them is not.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kafkalog.attributes import CONTROL_BIT
from kafkalog.errors import CorruptIndexError, CorruptSnapshotError, KafkaLogError
from kafkalog.fsck.findings import Finding, unreadable
from kafkalog.fsck.header_checks import Rows
from kafkalog.fsck.state_checks import of_error
from kafkalog.fsck.walk import Item, Run, Source
from kafkalog.record.decoding import Reading
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.file_names import INDEX_SUFFIX, TXN_INDEX_SUFFIX
from kafkalog.storage.index.transaction_index import ENTRY_SIZE, VERSION, AbortedTxn, TransactionIndex
from kafkalog.storage.producer.producer_snapshot import read_snapshot, snapshot_files
from kafkalog.storage.producer.producer_state_entry import CompletedTxn, ProducerStateEntry
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.producer.rebuild_producer_state import telling_rows

_READING = Reading(check_crcs=False, control=True)
# The versions of a transaction index whose first byte is 0.
_ACCEPTED = range(256)
# The number of rows that are reduced at a time to those that determine the state.
_ROWS = 8192


class ProducerCheck:
    """The check of producers: it watches the walk over the segments of a partition, and replays the producers."""

    def __init__(self, directory: Path) -> None:
        """List the snapshots of a partition.

        Raises:
            OSError: The directory cannot be listed.
        """
        self._snapshots = snapshot_files(directory)
        self.has_snapshots = bool(self._snapshots)
        self.has_producers = False
        self._state = ProducerStateManager(directory, directory.name, writable=False)
        # The rows of the current segment's batches that have a producer. All but the last `_count` are already reduced
        # to those that determine the state. `_control` has the bytes of its control batches by position.
        self._rows: list[Rows] = []
        self._count = 0
        self._control: dict[int, memoryview] = {}
        # Damage hides what its producers did.
        self._broken = False

    def see(self, item: Item, file: Source) -> None:
        """Take note of the next batches, or of lost bytes."""
        if not isinstance(item, Run) or not item.valid.all():
            self._broken = True
            return
        rows = item.rows
        if self._broken or not len(rows) or rows["producer_id"].max() < 0:
            return
        self.has_producers = True
        self._rows.append(rows)
        self._count += len(rows)
        control = np.flatnonzero(rows["attributes"] & CONTROL_BIT)
        if len(control):
            _, view, position = item.entries(file)
            starts, sizes = rows["position"][control].tolist(), rows["size_in_bytes"][control].tolist()
            for start, size in zip(starts, sizes, strict=True):
                self._control[start] = memoryview(bytes(view[start - position : start - position + size]))
        if self._count >= _ROWS:
            self._rows, self._count = [self._telling()], 0

    def _telling(self) -> Rows:
        """Return those of the rows that determine the state of the producers."""
        rows = self._rows[0] if len(self._rows) == 1 else np.concatenate(self._rows)
        return rows[telling_rows(rows)]

    def lose(self) -> None:
        """Note that a segment cannot be read to its end."""
        self._broken = True

    def end_segment(self, log: Path, base: int, end: int) -> Iterator[Finding]:
        """Yield the findings about the transaction index of a segment, and the snapshot at its end.

        Args:
            log: The segment that was walked.
            base: Its base offset.
            end: The offset at which it ends.
        """
        rows = self._telling() if self._rows else None
        completed: list[CompletedTxn] = []
        if rows is not None and not self._broken:
            try:
                completed = self._replay(rows)
            except KafkaLogError:
                # A control batch without a marker, or a batch outside of its transaction.
                self._broken = True
        ends = {} if rows is None else _markers(rows)
        self._rows, self._count, self._control = [], 0, {}
        yield from self._transactions(log, base, end, completed, ends)
        yield from self._snapshot(end)

    def _replay(self, rows: Rows) -> list[CompletedTxn]:
        """Update the state by the rows of a segment; return the transactions that end in it."""
        found = []
        for i in range(len(rows)):
            row = rows[i : i + 1]
            batch = RecordBatch(row, self._control.get(int(row["position"][0]), memoryview(b"")), _READING)
            info = self._state.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
            completed = info.append(batch, None, 0)
            self._state.update(info)
            if completed is not None:
                self._state.complete_txn(completed)
                found.append(completed)
        return found

    def _transactions(
        self, log: Path, base: int, end: int, completed: list[CompletedTxn], ends: dict[int, int]
    ) -> Iterator[Finding]:
        path = log.with_name(f"{base:020}{TXN_INDEX_SUFFIX}")
        try:
            index = TransactionIndex(path, base, writable=False)
            index.sanity_check()
            entries = list(index)
        except CorruptIndexError as error:
            yield transaction_index_fault(path, error)
            return
        except OSError as error:
            yield unreadable(path, error)
            return
        odd = index.length % ENTRY_SIZE
        if odd:
            message = f"the size is no multiple of {ENTRY_SIZE} bytes"
            yield Finding("index-size", str(path), message, index.length - odd, odd,
                          expected=index.length - odd, found=index.length)  # fmt: skip
        if not self._broken:
            yield from _compared(path, entries, end, completed, ends)

    def _snapshot(self, offset: int) -> Iterator[Finding]:
        path = self._snapshots.pop(offset, None)
        if path is None:
            return
        try:
            entries = read_snapshot(path)
        except CorruptSnapshotError as error:
            yield of_error("snapshot-format", path, error)
        except FileNotFoundError:
            return
        except OSError as error:
            yield unreadable(path, error)
        else:
            for entry in entries if not self._broken else ():
                yield from self._stale(path, offset, entry)

    def _stale(self, path: Path, offset: int, entry: ProducerStateEntry) -> Iterator[Finding]:
        """Yield a finding if the batches before a snapshot's offset contradict one of its producers."""
        if entry.last_data_offset >= offset:
            message = f"producer {entry.producer_id} has a batch at or after the snapshot's offset"
            yield Finding("snapshot-differs", str(path), message, expected=f"less than {offset}",
                          found=entry.last_data_offset)  # fmt: skip
        known = self._state.last_entry(entry.producer_id)
        if known is None:
            return
        for what, expected, found in (
            ("epoch", known.producer_epoch, entry.producer_epoch),
            ("last offset", known.last_data_offset, entry.last_data_offset),
        ):
            if found < expected:
                message = f"an older {what} of producer {entry.producer_id} than its batches have"
                yield Finding("snapshot-differs", str(path), message, expected=expected, found=found)
                return

    def finish(self) -> Iterator[Finding]:
        """Yield the findings about the snapshots at other offsets than those where segments end: only their format."""
        self._broken = True
        for offset in list(self._snapshots):
            yield from self._snapshot(offset)


def transaction_index_fault(path: Path, error: CorruptIndexError) -> Finding:
    """Return the finding about a transaction index that cannot be read."""
    # A broker reads only the first byte of the version, and does not catch its error.
    unknown = error.expected == VERSION and isinstance(error.found, int) and error.found not in _ACCEPTED
    return of_error("txn-index-version" if unknown else "txn-index-format", path, error)


def _markers(rows: Rows) -> dict[int, int]:
    """Return the producer of each control batch by its offset."""
    control = rows[rows["attributes"] & CONTROL_BIT != 0]
    return dict(zip(control["last_offset"].tolist(), control["producer_id"].tolist(), strict=True))


def _compared(
    path: Path, entries: list[AbortedTxn], end: int, completed: list[CompletedTxn], ends: dict[int, int]
) -> Iterator[Finding]:
    """Yield the findings about aborted transactions without an entry, and entries without such a transaction."""
    known = {(each.producer_id, each.last_offset) for each in entries}
    missing = [each for each in completed if each.is_aborted and (each.producer_id, each.last_offset) not in known]
    if missing:
        first = missing[0]
        message = f"{len(missing)} aborted transactions are missing, the first of producer {first.producer_id}"
        # Without the offset index, a broker rebuilds all.
        situation = "" if path.with_suffix(INDEX_SUFFIX).exists() else "unindexed"
        yield Finding("txn-index-missing", str(path), message, None, None, first.first_offset, first.last_offset,
                      situation=situation)  # fmt: skip
    committed = {each.last_offset for each in completed if not each.is_aborted}
    for place, entry in enumerate(entries):
        if entry.last_offset >= end:
            # Appended after the segment was walked, or beyond the log's end, which is another finding.
            break
        if ends.get(entry.last_offset) != entry.producer_id or entry.last_offset in committed:
            message = f"no transaction of producer {entry.producer_id} was aborted there"
            yield Finding("txn-index-entries", str(path), message, place * ENTRY_SIZE, ENTRY_SIZE, entry.first_offset,
                          entry.last_offset)  # fmt: skip
