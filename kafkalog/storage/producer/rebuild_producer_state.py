"""Producer state read out of a log again: the newest snapshot, and what the batches behind it change.

    segments     0 ............ 40 ............ 80 ............ 120 ......x      x: where the state is to end
    snapshots                   40                                               the newest that is there
    read                         |============================================>
    written                                     80              120       x      at the last two bases, and at x

Only headers are read, and only a few batches of each producer are looked at:

    producer 7    data data data data data data data | marker | data data            | of a transaction: data data ...
    told by       first     ...      the last five      all      those among the last five,      and the first

Of a producer a log remembers its epoch, its last five batches of data, where its open transaction began, and what its
last marker said. So, as long as nothing but data of one kind and epoch follows data, the first and the last five tell
all; a log of small batches is read ten times as fast for it.

Source: `rebuildProducerState`, `loadProducersFromRecords` in storage/.../internals/log/UnifiedLog.java.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.producer.producer_state_entry import BATCHES_TO_RETAIN
from kafkalog.storage.producer.producer_state_manager import CompletedTxn, ProducerAppendInfo, ProducerStateManager
from kafkalog.storage.segment.file_message_set import FileMessageSet
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# Markers are judged as the first transaction protocol does; its successors' leaders have judged them before.
_FIRST_TRANSACTION_VERSION = 0


def take_empty_snapshots(state: ProducerStateManager, segments: LogSegments, last_offset: int) -> None:
    """Say at the last two segments' bases and at `last_offset` that there are no producers: of a log without snapshots.

    For a log that was closed cleanly by something that knew no snapshots: it spares reading the log through.
    """
    for offset in [*_bases_to_snapshot(segments), last_offset]:
        state.update_map_end_offset(offset)
        state.take_snapshot()


def rebuild_producer_state(
    state: ProducerStateManager, segments: LogSegments, log_start_offset: int, last_offset: int, now: int
) -> None:
    """Have `state` be what the batches before `last_offset` make it, and write snapshots on the way.

    now: ms; producers that have expired by then are not loaded. CorruptRecordError: a segment's framing is damaged.
    OSError: a segment cannot be read, a snapshot cannot be written.
    """
    had_no_producers = state.is_empty and state.map_end_offset >= last_offset
    state.truncate_and_reload(log_start_offset, last_offset, now)
    # Without producers before cutting there are none after it.
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
        _load_producers(state, _telling_batches(segment.log, begin, end))


def _bases_to_snapshot(segments: LogSegments) -> tuple[int, ...]:
    return segments.base_offsets[-2:]


def _part(segment: LogSegment, start_offset: int, end_offset: int | None) -> tuple[int, int]:
    """Where the batch that holds start_offset begins, and where the one that holds end_offset does: two positions."""
    first = segment.translate_offset(start_offset)
    last = None if end_offset is None else segment.translate_offset(end_offset)
    end = segment.size_in_bytes if last is None else last.position
    return (end if first is None else min(first.position, end)), end


def _load_producers(state: ProducerStateManager, batches: Iterable[RecordBatch]) -> None:
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
    for rows in log.read(begin, end - begin).header_runs():
        for row in rows[telling_rows(rows)]:
            yield from log.read(int(row["position"]), int(row["size_in_bytes"])).batches()


def telling_rows(rows: NDArray[np.void]) -> NDArray[np.intp]:
    """Which rows of a header table, in order, leave every producer in the state that all of them would leave it in.

    Of each producer: the markers; each batch of another kind (transactional or not) or epoch than the one before; and
    the last five of data.
    """
    ids = rows["producer_id"]
    own = np.flatnonzero(ids >= 0)
    if not len(own):
        return own
    # Columns, each once: rows are too wide to be copied.
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
    """Which but the first differ from the one before."""
    return np.asarray(column[1:] != column[:-1])


def _last_of_each(ends: NDArray[np.bool_], counted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows come before fewer than five counted ones of their producer; `ends`: the last row of each producer."""
    seen = np.cumsum(counted)
    producer: NDArray[np.intp] = np.cumsum(ends) - ends
    return np.asarray(seen[ends][producer] - seen < BATCHES_TO_RETAIN)
