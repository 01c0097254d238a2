"""Recovery of a segment: reads its batches up to the last valid one, and rebuilds the data derived from them.

    batch | batch | batch ...... damaged, torn, zero bytes
      |      |      |            ^ the file is truncated here
      offset and time index, leader epochs, producer state, aborted transactions

Batches are not decompressed, but the markers in control batches are read. Source: `LogSegment.recover`.
"""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog._speedups.index_entries import index_entries
from kafkalog.errors import CorruptRecordError, InvalidRecordError, KafkaLogError, SegmentOffsetOverflowError
from kafkalog.record.decoding import Entries, Reading
from kafkalog.record.framing import chosen, end_of
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.record_batch import RecordBatch, batches_of
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.index.abstract_index import MAX_INT, preceding
from kafkalog.storage.index.time_index import TimestampEntry
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.producer.rebuild_producer_state import telling_rows
from kafkalog.storage.segment.log_segment import LogSegment

_log = logging.getLogger(__name__)


def recover_segment(
    segment: LogSegment,
    producer_state: ProducerStateManager,
    leader_epochs: LeaderEpochCache | None,
    *,
    may_cut: bool = True,
) -> int:
    """Rebuild the indexes of a segment from its batches, and truncate the file before the first invalid batch.

    Args:
        segment: The segment.
        producer_state: The state at the segment's base offset; it is updated to the segment's end.
        leader_epochs: Receives the epochs that begin in the segment; may be None.
        may_cut: Whether to truncate the file. Otherwise an invalid batch is an error.

    Returns:
        The number of bytes cut off.

    Raises:
        CorruptRecordError, InvalidRecordError: A batch is invalid, and the file may not be truncated.
        SegmentOffsetOverflowError: An offset is too far from the base offset for the indexes.
        InvalidOffsetError: The offsets do not rise.
    """
    return segment.rebuild(_SegmentRecovery(segment, producer_state, leader_epochs, may_cut).read_batches)


class _SegmentRecovery:
    """One scan of the batches of a segment whose indexes are empty."""

    def __init__(
        self,
        segment: LogSegment,
        producer_state: ProducerStateManager,
        leader_epochs: LeaderEpochCache | None,
        may_cut: bool,
    ) -> None:
        self._segment = segment
        self._may_cut = may_cut
        self._producer_state = producer_state
        self._leader_epochs = leader_epochs
        self._last_indexed = 0
        self._reading = Reading(decompression_limit=segment.decompression_limit, path=str(segment.path))
        self._valid_bytes = 0
        self._largest = TimestampEntry(-1, segment.base_offset)

    def read_batches(self) -> tuple[int, TimestampEntry]:
        """Read all valid batches; return their size in bytes and the largest timestamp."""
        try:
            for entries in self._segment.log.sound_runs():
                self._take(entries)
        except (CorruptRecordError, InvalidRecordError) as error:
            error = error.at(str(self._segment.path), self._valid_bytes)
            if not self._may_cut:
                raise error from None
            _log.warning("%s", error)
        if not self._may_cut and self._valid_bytes < self._segment.size_in_bytes:
            path, size = str(self._segment.path), self._segment.size_in_bytes
            raise CorruptRecordError("recovery would cut the segment", path, self._valid_bytes, size, self._valid_bytes)
        return self._valid_bytes, self._largest

    def _take(self, entries: Entries) -> None:
        """Take in a range of batches, up to the first that the state of the producers refuses.

        Kafka keeps that one, and ends when it replays it.
        """
        rows = entries.rows
        count, *index = self._index_entries(rows)
        taken, refused = self._update_producers(entries._replace(rows=rows[:count]))
        if refused is not None:
            count, *index = self._index_entries(rows[:taken])
        if count:
            found, self._last_indexed, *largest = index
            if found.size:
                self._index(rows, *found)
            self._largest = TimestampEntry(*largest)
            self._assign_epochs(rows[:count])
            self._valid_bytes = end_of(rows[:count])
        if refused is not None:
            raise refused
        if count < len(rows):
            base = self._segment.base_offset
            raise SegmentOffsetOverflowError(
                "the offset is out of the range of the segment's indexes",
                str(self._segment.path),
                int(rows["position"][count]),
                f"{base}..{base + MAX_INT}",
                int(rows["last_offset"][count]),
            )

    def _index_entries(self, rows: NDArray[np.void]) -> tuple[Any, ...]:
        """Return what `index_entries` says: how many rows fit into the indexes, and the entries for those."""
        base, interval = self._segment.base_offset, self._segment.config.index_interval_bytes
        last = min(base + MAX_INT, INT64_MAX)
        return index_entries(rows, base, last, interval, self._last_indexed, *self._largest)

    def _index(
        self,
        rows: NDArray[np.void],
        at: NDArray[np.int64],
        timestamps: NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> None:
        """Add index entries.

        Args:
            rows: Rows of the header table.
            at: The indexes of the rows that get an entry.
            timestamps: For each of them, the largest timestamp up to it.
            offsets: For each of them, the offset with this timestamp.
        """
        count = self._room_for(timestamps)
        # Not rows[at]: to copy whole rows takes longer than all else here.
        self._segment.offset_index.append_all(rows["last_offset"][at[:count]], rows["position"][at[:count]])
        self._segment.time_index.maybe_append_all(timestamps[:count], offsets[:count])

    def _room_for(self, timestamps: NDArray[np.int64]) -> int:
        """Return how many entries fit into the indexes, which may have been larger when the segment was written.

        Batches without an entry are found by a scan from the last one with an entry.
        """
        offset_index, time_index = self._segment.offset_index, self._segment.time_index
        if len(timestamps) <= min(offset_index.room, time_index.room):
            return len(timestamps)
        rises = timestamps > preceding(timestamps, time_index.last_entry.timestamp)
        has_room: NDArray[np.bool_] = np.less(np.cumsum(rises) - rises, time_index.room)
        count = len(timestamps) if has_room.all() else int(has_room.argmin())
        return max(0, min(count, offset_index.room))

    def _assign_epochs(self, rows: NDArray[np.void]) -> None:
        cache, rows = self._leader_epochs, chosen(rows, rows["magic"] >= 2)
        if cache is None or not len(rows):
            return
        latest = -1 if cache.latest_epoch is None else cache.latest_epoch
        epochs = rows["partition_leader_epoch"].copy()
        if epochs.max() <= latest:
            return
        before = np.maximum.accumulate(preceding(epochs, latest))
        for i in np.flatnonzero(epochs > before).tolist():
            cache.assign(int(epochs[i]), int(rows["base_offset"][i]))

    def _update_producers(self, entries: Entries) -> tuple[int, KafkaLogError | None]:
        """Update the producers' state by the batches of format 2.

        Returns:
            The number of rows before the batch that is refused, and why it is; else all of them, and None.
        """
        rows = chosen(entries.rows, entries.rows["magic"] >= 2)
        for batch in batches_of(entries._replace(rows=rows[telling_rows(rows)]), self._reading):
            try:
                self._update_producer(batch)
            except (CorruptRecordError, InvalidRecordError) as error:
                taken = int(np.searchsorted(entries.rows["position"], batch.position))
                return taken, error.at(str(self._segment.path), batch.position)
        if len(rows):
            self._producer_state.update_map_end_offset(int(rows["last_offset"][-1]) + 1)
        return len(entries.rows), None

    def _update_producer(self, batch: RecordBatch) -> None:
        state = self._producer_state
        info = state.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
        completed = info.append(batch, None)
        state.update(info)
        if completed is not None:
            if completed.is_aborted:
                self._segment.txn_index.append(completed.aborted_txn(state.last_stable_offset(completed)))
            state.complete_txn(completed)
