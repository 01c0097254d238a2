"""Functions that rebuild the producer state of a log from the newest snapshot and the batches after it.

    segments     0 ............ 40 ............ 80 ............ 120 ......x      x: the offset at which the state ends
    snapshots                   40                                               the newest snapshot
    read                         |============================================>
    written                                     80              120       x      at the last two bases, and at x

Only headers are read, and only a few batches of each producer are processed:

    producer 7    data data data data data data data | marker | data data           | in a transaction: data data ...
    processed     first     ...      the last five     all      of these: those among the last five, and the first

The state of a producer is its epoch, its last five data batches, the start of its open transaction, and the content of
its last marker. So in a sequence of data batches of the same kind and epoch, the first and the last five determine the
state. This makes reading a log of small batches ten times as fast.

Source: `rebuildProducerState`, `loadProducersFromRecords` in storage/.../internals/log/UnifiedLog.java.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.producer.producer_append_info import ProducerAppendInfo
from kafkalog.storage.producer.producer_state_entry import BATCHES_TO_RETAIN, CompletedTxn
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.segment.file_message_set import FileMessageSet
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# Markers are checked by the rules of the first transaction protocol; the leader has applied those of later ones.
_FIRST_TRANSACTION_VERSION = 0


def take_empty_snapshots(state: ProducerStateManager, segments: LogSegments, last_offset: int) -> None:
    """Write empty snapshots at the last two segments' base offsets and at `last_offset`.

    For a log without snapshots that was closed cleanly, by a program that does not write them: it avoids reading the
    whole log.
    """
    for offset in [*_bases_to_snapshot(segments), last_offset]:
        state.update_map_end_offset(offset)
        state.take_snapshot()


def rebuild_producer_state(
    state: ProducerStateManager, segments: LogSegments, log_start_offset: int, last_offset: int, now: int
) -> None:
    """Rebuild the producer state from the batches before `last_offset`, and write snapshots.

    Args:
        state: The state to rebuild.
        segments: The segments of the log.
        log_start_offset: The first offset of the log.
        last_offset: The offset before which batches are read.
        now: The time, ms; producers that have expired by then are not loaded.

    Raises:
        CorruptRecordError: The framing of a segment is damaged.
        OSError: A segment cannot be read, or a snapshot cannot be written.
    """
    had_no_producers = state.is_empty and state.map_end_offset >= last_offset
    state.truncate_and_reload(log_start_offset, last_offset, now)
    # If there were no producers before truncation, there are none after it.
    if last_offset > state.map_end_offset and not had_no_producers:
        _replay(state, segments, log_start_offset, last_offset)
    state.update_map_end_offset(last_offset)
    state.take_snapshot()


def _replay(state: ProducerStateManager, segments: LogSegments, log_start_offset: int, last_offset: int) -> None:
    snapshots = _bases_to_snapshot(segments)
    last = segments.floor(last_offset)
    for segment in segments.between(state.map_end_offset, last_offset):
        start = max(segment.base_offset, state.map_end_offset, log_start_offset)
        state.update_map_end_offset(start)
        if segment.base_offset in snapshots:
            state.take_snapshot()
        begin, end = _part(segment, start, last_offset if segment is last else None)
        load_producers(state, _telling_batches(segment.log, begin, end))


def _bases_to_snapshot(segments: LogSegments) -> tuple[int, ...]:
    return tuple(each.base_offset for each in segments.values[-2:])


def _part(segment: LogSegment, start_offset: int, end_offset: int | None) -> tuple[int, int]:
    """Return the position of the batch that holds start_offset, and of the one that holds end_offset."""
    first = segment.translate_offset(start_offset)
    last = None if end_offset is None else segment.translate_offset(end_offset)
    end = segment.size_in_bytes if last is None else last.position
    return (end if first is None else min(first.position, end)), end


def load_producers(state: ProducerStateManager, batches: Iterable[RecordBatch]) -> None:
    """Add batches with producer ids, in the order of the log, to the state; its end offset stays."""
    producers: dict[int, ProducerAppendInfo] = {}
    completed: list[CompletedTxn] = []
    for batch in batches:
        producer_id = batch.producer_id
        if producer_id not in producers:
            producers[producer_id] = state.prepare_update(producer_id, AppendOrigin.REPLICATION)
        transaction = producers[producer_id].append(batch, None, _FIRST_TRANSACTION_VERSION)
        if transaction is not None:
            completed.append(transaction)
    for info in producers.values():
        state.update(info)
    for transaction in completed:
        state.complete_txn(transaction)


def _telling_batches(log: FileMessageSet, begin: int, end: int) -> Iterator[RecordBatch]:
    for rows in log.found_at(begin, end - begin).header_runs():
        for row in rows[telling_rows(rows)]:
            yield from log.found_at(int(row["position"]), int(row["size_in_bytes"])).batches()


def telling_rows(rows: NDArray[np.void]) -> NDArray[np.intp]:
    """Return the indexes of the rows that determine the state of all producers, in rising order.

    These are for each producer: the markers, each batch whose kind (transactional or not) or epoch differs from that of
    the batch before it, and the last five data batches.
    """
    ids = rows["producer_id"]
    own = np.flatnonzero(ids >= 0)
    if not len(own):
        return own
    # Only columns are copied: copying whole rows is slow.
    ids = ids[own]
    if ids.min() != ids.max():
        order = np.argsort(ids, kind="stable")
        own, ids = own[order], ids[order]
    attributes = rows["attributes"][own]
    data = (attributes & CONTROL_BIT) == 0
    ends = np.append(_differs(ids), True)
    changed = np.concatenate(([True], ends[:-1]))
    changed[1:] |= _differs(rows["producer_epoch"][own]) | _differs(attributes & (CONTROL_BIT | TRANSACTIONAL_BIT))
    return np.sort(own[~data | changed | (data & _last_of_each(ends, data))])


def _differs(column: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return for each element but the first whether it differs from the one before it."""
    return np.asarray(column[1:] != column[:-1])


def _last_of_each(ends: NDArray[np.bool_], counted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows have fewer than five counted rows of the same producer after them.

    Args:
        ends: Whether each row is the last one of its producer.
        counted: Whether each row counts.
    """
    seen = np.cumsum(counted)
    producer: NDArray[np.intp] = np.cumsum(ends) - ends
    return np.asarray(seen[ends][producer] - seen < BATCHES_TO_RETAIN)
