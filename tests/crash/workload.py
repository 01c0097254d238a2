"""A writer that does by a seed all that a log is for, and reports each operation to a `History` before and after."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from struct import pack
from typing import Protocol

import pytest

from kafkalog import AppendOrigin, ByteBufferMessageSet, CompressionType, IsolationLevel, LogConfig, Record, WritableLog
from kafkalog.errors import KafkaLogError, LogStateError, OutOfOrderSequenceError
from tests.crash.history import History, Operation

NOW = 1_700_000_000_000
NAME = "orders-0"
# So small that everything rolls within a few operations.
CONFIG = LogConfig(
    segment_bytes=1500, index_interval_bytes=200, segment_index_bytes=240, retention_bytes=6000, file_delete_delay_ms=0
)
# Of each kind: ids of those that send transactions are odd.
PRODUCERS = 2
_CODECS = (CompressionType.NONE, CompressionType.NONE, CompressionType.LZ4)
Work = Callable[[], object]


class Observer(Protocol):
    """Is informed of operations: before they begin, once they are done, where they raise."""

    def begin(self, operation: Operation) -> None: ...
    def done(self, log_start: int) -> None: ...
    def failed(self, log_end: int, *, refused: bool, whole: bool) -> None: ...


class Writer:
    """Chooses operations and carries them out.

    now: the time of its records, ms. errors: exceptions that an operation may raise without ending the work.
    """

    def __init__(
        self, log: WritableLog, rng: random.Random, observer: Observer, now: int, *, background: Work, checkpoint: Work
    ) -> None:
        self.log = log
        self._rng = rng
        self._observer = observer
        self._now = now
        self._background = background
        self._checkpoint = checkpoint
        self._made = rng.randrange(1 << 40)
        self.errors: tuple[type[Exception], ...] = ()
        self.raised: list[Exception] = []

    def step(self) -> None:
        choices: list[tuple[Callable[[], None], int]] = [
            (self.append, 8),
            (self.append_of_producer, 5),
            (self.append_in_transaction, 3),
            (self.end_transaction, 2),
            (self.flush, 3),
            (self.replicate, 2),
            (self.roll, 1),
            (self.truncate, 1),
            (self.delete_records, 1),
            (self.delete_old_segments, 1),
            (self.work_in_background, 3),
            (self.checkpoint, 1),
        ]
        operations, weights = zip(*choices, strict=True)
        self._rng.choices(operations, weights)[0]()

    def _do(self, operation: Operation, work: Work) -> None:
        self._observer.begin(operation)
        try:
            work()
        except self.errors as error:
            self.raised.append(error)
            self._observer.failed(
                self.log.log_end_offset, refused=isinstance(error, LogStateError), whole=self._is_whole()
            )
        else:
            self._observer.done(self.log.log_start_offset)

    def _is_whole(self) -> bool:
        """Whether the log takes more."""
        try:
            self.log.update_high_watermark(self.log.high_watermark)
        except LogStateError:
            return False
        return True

    # --- appending

    def _values(self) -> tuple[str, ...]:
        count = self._rng.randint(1, 4)
        padding = self._rng.choice([0, 10, 100, 300])
        self._made += count
        return tuple(f"{self._made - i}:".ljust(padding, "x") for i in range(count))

    def append(self) -> None:
        values, codec = self._values(), self._rng.choice(_CODECS)
        records = [Record(value.encode(), timestamp=self._now + self.log.log_end_offset) for value in values]
        operation = Operation("append", self.log.log_end_offset, values)
        self._do(operation, lambda: self.log.append(records, compression_type=codec))

    def append_of_producer(self) -> None:
        self._append_as(transactional=False)

    def append_in_transaction(self) -> None:
        self._append_as(transactional=True)

    def _append_as(self, *, transactional: bool) -> None:
        producer_id, sequence = self._next_of_a_producer(transactional=transactional)
        operation = Operation(
            "append", self.log.log_end_offset, self._values(), (producer_id, 0, sequence, transactional)
        )
        self._do(operation, lambda: self.log.append_as_leader(batch_of(operation, self._now), 0))

    def _next_of_a_producer(self, *, transactional: bool) -> tuple[int, int]:
        """Its id and next sequence number. One that the log has forgotten sends nothing under its old id any more.

        Recovery may know it again, from batches before the log's start.
        """
        active = self.log.producer_state.active_producers
        known = sorted(each for each in active if each % 2 == int(transactional))
        if len(known) < PRODUCERS or self._rng.random() < 0.05:
            return 2 * self._rng.randrange(1 << 40) + int(transactional), 0
        producer_id = self._rng.choice(known)
        return producer_id, active[producer_id].last_seq + 1

    def end_transaction(self) -> None:
        producers = self.log.producer_state.active_producers.values()
        open_ones = [each.producer_id for each in producers if each.current_txn_first_offset is not None]
        if open_ones:
            marker = marker_of(self._rng.choice(open_ones), self._now, committed=self._rng.random() < 0.5)
            operation = Operation("marker", self.log.log_end_offset)
            self._do(
                operation, lambda: self.log.append_as_leader(marker, 0, AppendOrigin.COORDINATOR, transaction_version=1)
            )

    # --- the rest

    def flush(self) -> None:
        self._do(Operation("flush"), self.log.flush)

    def replicate(self) -> None:
        self._do(Operation("replicate"), lambda: self.log.update_high_watermark(self.log.log_end_offset))

    def roll(self) -> None:
        self._do(Operation("roll"), self.log.roll)

    def truncate(self) -> None:
        offset = max(0, self.log.log_end_offset - self._rng.choice([1, 2, 5, 20]))
        self._do(Operation("truncate", offset), lambda: self.log.truncate_to(offset))

    def delete_records(self) -> None:
        log = self.log
        offset = min(log.high_watermark, log.log_start_offset + self._rng.randint(1, 10))
        self._do(Operation("delete", offset), lambda: log.delete_records(offset))

    def delete_old_segments(self) -> None:
        self._do(Operation("retention"), self.log.delete_old_segments)

    def work_in_background(self) -> None:
        self._do(Operation("background"), self._background)

    def checkpoint(self) -> None:
        self._do(Operation("checkpoint"), self._checkpoint)


def batch_of(operation: Operation, now: int) -> ByteBufferMessageSet:
    """The batch of an idempotent producer, as it is sent, and sent again where no answer came."""
    assert operation.producer is not None
    producer_id, epoch, sequence, transactional = operation.producer
    records = [Record(value.encode(), timestamp=now) for value in operation.values]
    return ByteBufferMessageSet.from_records(
        records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker_of(producer_id: int, now: int, *, committed: bool) -> ByteBufferMessageSet:
    record = Record(pack(">hi", 0, 0), pack(">hh", 0, int(committed)), timestamp=now)
    return ByteBufferMessageSet.from_records(
        [record], producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
    )


# --- what must hold of a log, however it came about


def records_of(log: WritableLog) -> list[tuple[int, bytes]]:
    return [(record.offset, bytes(record.value or b"")) for record in log.records()]


def lasts_of(log: WritableLog) -> dict[int, int]:
    return {offset: each.last_offset for each in log.batches() for offset in range(each.base_offset, each.next_offset)}


def inspect(log: WritableLog, history: History) -> None:
    """AssertionError: the ways to read the log do not agree with one another."""
    bounds = (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset)
    assert list(bounds) == sorted(bounds), bounds
    assert log.recovery_point <= log.log_end_offset
    found = records_of(log)
    assert log.count() == len(found)
    for offset, value in found[:: max(1, len(found) // 8)]:
        read = log.read(offset, 1, min_one_message=True).message_set
        assert (offset, value) in [(each.offset, each.value) for each in read]
        timestamp = next(each.timestamp for each in read if each.offset == offset)
        if _may_be_passed_over(log, offset, timestamp, history.truncations):
            continue
        placed = log.offset_for_timestamp(timestamp)
        assert placed is not None
        assert placed.offset <= offset
    _check_indexes(log)
    _check_producers(log, history.deleted)
    committed = [(each.offset, each.value) for each in log.records(isolation=IsolationLevel.TXN_COMMITTED)]
    assert committed == _committed(log)


def _may_be_passed_over(log: WritableLog, offset: int, timestamp: int, truncations: Sequence[int]) -> bool:
    """Return whether a search for the timestamp may pass over the segment of an offset.

    A truncation that leaves the time index without entries loses the largest timestamp of a segment that was sealed
    when the log was opened, until the segment is recovered. Kafka: `LogSegment.truncateTo`, which asks for the largest
    timestamp after it has truncated the index.
    """
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.log_end_offset]
    segment, end = next(
        (segment, end) for segment, end in zip(log.segments, ends, strict=True) if segment.base_offset <= offset < end
    )
    was_truncated = any(segment.base_offset <= each <= end for each in truncations)
    return was_truncated and segment.max_timestamp_and_offset_so_far.timestamp < timestamp


def _check_indexes(log: WritableLog) -> None:
    """Of the segments that anybody reads: those before the log's start are recovered no more, and go."""
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.log_end_offset + 1]
    for segment in (each for each, end in zip(log.segments, ends, strict=True) if end > log.log_start_offset):
        places = {batch.last_offset: batch.position for batch in segment.log.batches()}
        assert [places.get(entry.offset) for entry in segment.offset_index] == [
            entry.position for entry in segment.offset_index
        ], segment.path
        assert segment.size <= segment.path.stat().st_size
        assert {entry.offset for entry in segment.time_index} <= places.keys(), segment.path


def _check_producers(log: WritableLog, deleted: int) -> None:
    """Each one's last sequence number is that of its last batch; who has none from `deleted` on may be forgotten.

    A truncation forgets them, and a log whose start was not in the checkpoint yet starts earlier again after a crash.
    """
    batches = (each for each in log.batches() if each.producer_id >= 0 and not each.is_control)
    batches = (each for each in batches if each.last_offset >= deleted)
    last = {each.producer_id: each.last_sequence for each in batches}
    for producer_id, sequence in last.items():
        entry = log.producer_state.last_entry(producer_id)
        assert entry is not None
        assert entry.last_seq == sequence


def _committed(log: WritableLog) -> list[tuple[int, bytes | None]]:
    """Return what a consumer of committed records gets, worked out from the batches."""
    out: list[tuple[int, bytes | None]] = []
    pending: dict[int, list[tuple[int, bytes | None]]] = {}
    for batch in log.batches():
        own = pending.setdefault(batch.producer_id, [])
        if batch.is_control:
            out += own if next(iter(batch)).key == b"\0\0\0\1" else []
            own.clear()
        else:
            (own if batch.is_transactional else out).extend((each.offset, each.value) for each in batch)
    first, stable = log.log_start_offset, log.last_stable_offset
    return sorted(each for each in out if first <= each[0] < stable)


def retry(log: WritableLog, operation: Operation | None, now: int) -> None:
    """Send the batch again, as a producer does that had no answer. It is in the log once then.

    Recovery may know a producer by a marker alone, if its batches were deleted. Its next sequence is refused then, as
    by a broker.
    """
    if operation is not None and operation.kind == "append" and operation.producer is not None:
        producer_id, _, sequence, _ = operation.producer
        entry = log.producer_state.last_entry(producer_id)
        if entry is not None and not entry.batch_metadata and sequence:
            with pytest.raises(OutOfOrderSequenceError):
                log.append_as_leader(batch_of(operation, now), 0)
            return
        log.append_as_leader(batch_of(operation, now), 0)
        values = [value for _, value in records_of(log)]
        assert all(values.count(value.encode()) == 1 for value in operation.values)


Refused = (KafkaLogError, OSError)
