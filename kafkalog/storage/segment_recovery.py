"""A segment's batches read once more, from the first: what recovery makes of them, up to the first that is not valid.

    batch | batch | batch ...... damaged, torn, zero bytes
      |      |      |            ^ valid_bytes: here the file is going to be cut
      offset and time index, leader epochs, producer state, aborted transactions

What is inside of the batches is not looked at, but for control batches. Kafka: `LogSegment.recover`.
"""

import logging
from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog.errors import CorruptRecordError, InvalidRecordError, SegmentOffsetOverflowError
from kafkalog.record.batch import RecordBatch, batches_of
from kafkalog.record.decoding import Entries, Reading
from kafkalog.record.validation import AppendOrigin
from kafkalog.storage.index import MAX_INT, TimestampEntry
from kafkalog.storage.producer_rows import telling_rows

if TYPE_CHECKING:
    from kafkalog.storage.leader_epoch import LeaderEpochCache
    from kafkalog.storage.producer_state import ProducerStateManager
    from kafkalog.storage.segment import LogSegment

_log = logging.getLogger(__name__)


class SegmentRecovery:
    """Rebuilds what is known of a segment, whose indexes are empty. Afterwards `valid_bytes` and `largest` tell."""

    def __init__(
        self,
        segment: "LogSegment",
        producer_state: "ProducerStateManager",
        leader_epochs: "LeaderEpochCache | None",
        index_interval_bytes: int,
    ) -> None:
        self._segment = segment
        self._producer_state = producer_state
        self._leader_epochs = leader_epochs
        self._index_interval_bytes = index_interval_bytes
        self._last_indexed = 0
        self._reading = Reading(path=str(segment.path))
        self.valid_bytes = 0
        self.largest = TimestampEntry(-1, segment.base_offset)

    def run(self) -> None:
        """Read all valid batches.

        SegmentOffsetOverflowError: an offset the indexes cannot hold. InvalidOffsetError: offsets do not rise.
        """
        try:
            for entries in self._segment.log.sound_runs():
                self._take(entries)
        except (CorruptRecordError, InvalidRecordError) as error:
            _log.warning("%s: not valid from byte %d on: %s", self._segment.path, self.valid_bytes, error)

    def _take(self, entries: Entries) -> None:
        rows = entries.rows
        base = self._segment.base_offset
        fits = (rows["last_offset"] >= base) & (rows["last_offset"] <= min(base + MAX_INT, INT64_MAX))
        count = len(rows) if fits.all() else int(fits.argmin())
        if count:
            self._take_fitting(entries._replace(rows=rows[:count]))
        if count < len(rows):
            raise SegmentOffsetOverflowError(
                "an offset the indexes cannot hold",
                str(self._segment.path),
                int(rows["position"][count]),
                f"{base}..{base + MAX_INT}",
                int(rows["last_offset"][count]),
            )

    def _take_fitting(self, entries: Entries) -> None:
        rows = entries.rows
        self._index(rows)
        modern = rows["magic"] >= 2
        if modern.any():
            self._assign_epochs(rows[modern])
            self._update_producers(entries._replace(rows=rows[modern]))
        self.valid_bytes = int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])

    def _index(self, rows: NDArray[np.void]) -> None:
        timestamps, offsets = self._largest_of(rows)
        at = self._indexed(rows["position"].tolist())
        at = at[: self._room_for(timestamps[at])]
        index = self._segment.offset_index
        before = index.entries
        try:
            index.append_all(rows["last_offset"][at], rows["position"][at])
        finally:
            # Also where offsets do not rise, and the entries before that are left in what are empty slots then.
            done = at[: index.entries - before]
            self._segment.time_index.maybe_append_all(timestamps[done], offsets[done])
        self.largest = TimestampEntry(int(timestamps[-1]), int(offsets[-1]))

    def _room_for(self, timestamps: NDArray[np.int64]) -> int:
        """How many of these get an entry: indexes may have been larger when the segment was written.

        Batches without an entry are found all the same, from the last one that has one on.
        """
        time_index = self._segment.time_index
        rises = np.diff(timestamps, prepend=time_index.last_entry.timestamp) > 0
        has_room: NDArray[np.bool_] = np.less(np.cumsum(rises) - rises, time_index.room)
        count = len(timestamps) if has_room.all() else int(has_room.argmin())
        return max(0, min(count, self._segment.offset_index.room))

    def _indexed(self, positions: list[int]) -> list[int]:
        """Which batches get an entry: each that begins more than an interval behind the one before that did."""
        indexed, i, reached = [], 0, self._last_indexed + self._index_interval_bytes
        while i < len(positions):
            if positions[i] <= reached:
                i = bisect_right(positions, reached, i)
            else:
                indexed.append(i)
                reached = positions[i] + self._index_interval_bytes
                i += 1
        self._last_indexed = reached - self._index_interval_bytes
        return indexed

    def _largest_of(self, rows: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The largest timestamp up to each row, and the last offset of the first batch that has it."""
        known = self.largest
        timestamps = np.concatenate(([known.timestamp], rows["max_timestamp"]))
        offsets = np.concatenate(([known.offset], rows["last_offset"]))
        largest = np.maximum.accumulate(timestamps)
        # Of each row the last one, itself included, that was larger than all before it.
        setters = np.where(timestamps[1:] > largest[:-1], np.arange(1, len(timestamps)), 0)
        return largest[1:], offsets[np.maximum.accumulate(setters)]

    def _assign_epochs(self, rows: NDArray[np.void]) -> None:
        cache = self._leader_epochs
        if cache is None:
            return
        latest = -1 if cache.latest_epoch is None else cache.latest_epoch
        epochs = rows["partition_leader_epoch"]
        before = np.maximum.accumulate(np.concatenate(([latest], epochs[:-1])))
        for i in np.flatnonzero(epochs > before).tolist():
            cache.assign(int(epochs[i]), int(rows["base_offset"][i]))

    def _update_producers(self, entries: Entries) -> None:
        rows = entries.rows
        for batch in batches_of(entries._replace(rows=rows[telling_rows(rows)]), self._reading):
            self._update_producer(batch)
        self._producer_state.update_map_end_offset(int(rows["last_offset"][-1]) + 1)

    def _update_producer(self, batch: RecordBatch) -> None:
        state = self._producer_state
        info = state.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
        completed = info.append(batch, None)
        state.update(info)
        if completed is not None:
            self._segment.update_txn_index(completed, state.last_stable_offset(completed))
            state.complete_txn(completed)
