"""The transactions of a partition: open, hanging, aborted.

    producer state at the log's end     whose transaction is open, since which offset, and when it last wrote
    transaction indexes                 which were aborted, from the first offset to the marker

A transaction whose producer has written nothing for longer than any transaction may take will not be ended by its
coordinator any more: it hangs, and holds back every consumer of committed records until somebody aborts it.
"""

from __future__ import annotations

import shlex
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from inspector.reading.answers import AbortedTransaction, OpenTransaction, Transactions
from kafkalog.errors import KafkaLogError

if TYPE_CHECKING:
    from kafkalog import Log, TopicPartition

# Kafka's transaction.max.timeout.ms, and what its brokers allow beyond before they call a transaction late.
MAX_TIMEOUT_MS = 900_000
LATE_MS = 300_000
# Of aborted ones the newest are told, and all are counted.
TOLD_ABORTED = 1_000
TOLD_OPEN = 10_000
_FAILURES = (OSError, KafkaLogError, ValueError)


def transactions_of(log: Log, now: int | None = None, max_timeout_ms: int = MAX_TIMEOUT_MS) -> Transactions:
    """What snapshot, log and transaction indexes tell; now: ms. OSError, KafkaLogError: they cannot be read."""
    now = int(time.time() * 1000) if now is None else now
    undecided = _undecided(log)
    found = tuple(
        OpenTransaction(
            entry.producer_id,
            entry.producer_epoch,
            first,
            entry.last_timestamp if entry.last_timestamp >= 0 else None,
            entry.coordinator_epoch,
            _hangs(entry, now, max_timeout_ms),
            abort_command(log.topic_partition, first),
            _timestamp_at(log, first),
        )
        for first, entry in undecided[:TOLD_OPEN]
    )
    aborted, count, problem = _aborted(log)
    return Transactions(found, aborted, count, log.last_stable_offset, problem)


def hanging_in(log: Log) -> str | None:
    """The first transaction that hangs, in words; None: none does. OSError, KafkaLogError: it cannot be told."""
    now = int(time.time() * 1000)
    for first, entry in _undecided(log):
        if _hangs(entry, now, MAX_TIMEOUT_MS):
            return f"the transaction of producer {entry.producer_id} that began at offset {first:,} hangs"
    return None


def _undecided(log: Log) -> list[tuple[int, Any]]:
    """First offset and producer's entry of each open transaction, the oldest first."""
    producers = log.producer_state.active_producers.values()
    found = [
        (entry.current_txn_first_offset, entry) for entry in producers if entry.current_txn_first_offset is not None
    ]
    return sorted(found, key=lambda each: each[0])


def _hangs(entry: Any, now: int, max_timeout_ms: int) -> bool:
    return bool(0 <= entry.last_timestamp < now - max_timeout_ms - LATE_MS)


def _timestamp_at(log: Log, offset: int) -> int | None:
    """When the batch that holds an offset begins, ms."""
    try:
        batch = next(log.batches(offset, offset + 1), None)
    except _FAILURES:
        return None
    return batch.base_timestamp if batch is not None and batch.base_timestamp >= 0 else None


def _aborted(log: Log) -> tuple[tuple[AbortedTransaction, ...], int, str | None]:
    """The newest aborted transactions, how many there are, and what is wrong with an index."""
    newest: deque[AbortedTransaction] = deque(maxlen=TOLD_ABORTED)
    count, problem = 0, None
    for segment in log.segments:
        try:
            for each in segment.txn_index:
                newest.append(
                    AbortedTransaction(each.producer_id, each.first_offset, each.last_offset, segment.base_offset)
                )
                count += 1
        except _FAILURES as error:
            problem = str(error)
    return tuple(newest), count, problem


def abort_command(partition: TopicPartition | None, first_offset: int) -> str:
    """The command of Kafka's own that ends the transaction which began at `first_offset`; the broker is to fill in."""
    topic, number = (partition.topic, partition.partition) if partition is not None else ("TOPIC", 0)
    return (
        f"kafka-transactions.sh --bootstrap-server HOST:9092 abort --topic {shlex.quote(topic)}"
        f" --partition {number} --start-offset {first_offset}"
    )
