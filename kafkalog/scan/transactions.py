"""The transactions of a log: open and hanging ones, aborted and committed ones.

    offset     10      11      12      13        14
    batch      A data  B data  A data  A COMMIT  B ABORT      A: 10..13, two batches; B: 11..14, one

    producer state at the log end     the open ones, their first offsets, and when their producers last wrote
    transaction indexes               the aborted ones, from the first offset to the marker
    headers of all batches            records, bytes, start and end of each, and the committed ones

`transactions_of` reads the first two, `TransactionScan` the headers too. A transaction hangs if its producer has not
written for longer than any transaction may take: its coordinator will not end it any more. It blocks every consumer of
committed records until an administrator aborts it.
"""

import shlex
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from kafkalog.errors import KafkaLogError
from kafkalog.fsck.header_checks import Rows
from kafkalog.record.control import control_name
from kafkalog.record.decoding import Reading, read_columns
from kafkalog.record.framing import end_of
from kafkalog.scan.progress import Progress
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.log import Log
from kafkalog.storage.producer.producer_state_entry import ProducerStateEntry
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.segment.file_message_set import FileMessageSet

# Kafka's transaction.max.timeout.ms, and the delay that its brokers allow before they count a transaction as late.
MAX_TIMEOUT_MS = 900_000
LATE_MS = 300_000
# The largest numbers of transactions that are listed: of those that have ended the newest, with a count of all.
LISTED_ABORTED = 1_000
LISTED_ENDED = 1_000
LISTED_OPEN = 10_000
STEP_SECONDS = 0.05
_FAILURES = (OSError, KafkaLogError, ValueError)
# The most bytes that are read at once to find markers; a larger control batch is not read.
_READ_AT_ONCE = 4 << 20

TransactionState: TypeAlias = Literal["hanging", "open", "undecided", "aborted", "committed"]
_ENDS: dict[str, TransactionState] = {"COMMIT": "committed", "ABORT": "aborted"}


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has not ended. Timestamps are ms; None: unknown.

    Attributes:
        hanging: Whether its producer has not written for longer than any transaction may take.
        abort_command: The command of Kafka that ends it.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: int | None
    coordinator_epoch: int
    hanging: bool
    abort_command: str
    start_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A transaction that was aborted.

    Attributes:
        last_offset: The offset of its marker.
        base_offset: The base offset of the segment with the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactions of a log, by its producer state and transaction indexes.

    Attributes:
        aborted: The newest aborted transactions.
        aborted_count: The number of all aborted transactions.
        problem: The error of a transaction index; None: no error.
    """

    open: tuple[OpenTransaction, ...] = ()
    aborted: tuple[AbortedTransaction, ...] = ()
    aborted_count: int = 0
    last_stable_offset: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transaction in the list of all. Timestamps are ms; None: unknown, or not read yet.

    Attributes:
        state: The state; "undecided" if a single file has no marker for it.
        last_offset: The offset of its marker.
        last_timestamp: The time of the last write of its producer.
        end_timestamp: The timestamp of its marker.
        batches, records, size_in_bytes: Counts without the marker.
        abort_command: The command that ends an open one.
    """

    state: TransactionState
    producer_id: int
    producer_epoch: int | None
    first_offset: int
    last_offset: int | None = None
    start_timestamp: int | None = None
    last_timestamp: int | None = None
    end_timestamp: int | None = None
    batches: int | None = None
    records: int | None = None
    size_in_bytes: int | None = None
    coordinator_epoch: int | None = None
    abort_command: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionsState:
    """The transactions found so far.

    Attributes:
        rows: The open ones, then the newest of those that have ended.
        open, hanging: The numbers of open and of hanging ones, at most LISTED_OPEN.
        aborted, committed: The numbers of all that have ended so, listed or not.
        progress: The progress of the scan.
        problem: The errors found; None: no error.
    """

    rows: tuple[TransactionRow, ...] = ()
    open: int = 0
    hanging: int = 0
    aborted: int = 0
    committed: int = 0
    last_stable_offset: int | None = None
    progress: Progress = field(default_factory=lambda: Progress(0, 0))
    problem: str | None = None


# --- from producer state and transaction indexes


def transactions_of(log: Log, now: int | None = None, max_timeout_ms: int = MAX_TIMEOUT_MS) -> Transactions:
    """Find the open and the aborted transactions of a log.

    Args:
        log: The log.
        now: The current time, ms since the epoch; None: ask the clock.
        max_timeout_ms: The largest timeout of a transaction in the cluster, ms.

    Raises:
        OSError: The snapshot or the log was not read.
        KafkaLogError: The snapshot or the log is damaged.
    """
    now = int(time.time() * 1000) if now is None else now
    found = tuple(
        OpenTransaction(
            entry.producer_id,
            entry.producer_epoch,
            first,
            _known(entry.last_timestamp),
            entry.coordinator_epoch,
            _hangs(entry, now, max_timeout_ms),
            abort_command(log.topic_partition, first),
            _timestamp_at(log, first),
        )
        for first, entry in _undecided(log)[:LISTED_OPEN]
    )
    aborted, count, problem = _aborted(log)
    return Transactions(found, aborted, count, log.last_stable_offset, problem)


def hanging_in(log: Log) -> str | None:
    """Describe the first hanging transaction of a log; None: there is none.

    Raises:
        OSError, KafkaLogError: As `transactions_of`.
    """
    now = int(time.time() * 1000)
    for first, entry in _undecided(log):
        if _hangs(entry, now, MAX_TIMEOUT_MS):
            return f"the transaction of producer {entry.producer_id} that began at offset {first:,} hangs"
    return None


def abort_command(partition: TopicPartition | None, first_offset: int) -> str:
    """Return the command of Kafka that aborts the transaction with this first offset; HOST stands for the broker."""
    topic, number = (partition.topic, partition.partition) if partition is not None else ("TOPIC", 0)
    return (
        f"kafka-transactions.sh --bootstrap-server HOST:9092 abort --topic {shlex.quote(topic)}"
        f" --partition {number} --start-offset {first_offset}"
    )


def _undecided(log: Log) -> list[tuple[int, ProducerStateEntry]]:
    """Return the first offset of each open transaction and the state of its producer, the oldest first."""
    found = [
        (entry.current_txn_first_offset, entry)
        for entry in log.producer_state.active_producers.values()
        if entry.current_txn_first_offset is not None
    ]
    return sorted(found, key=lambda each: each[0])


def _hangs(entry: ProducerStateEntry, now: int, max_timeout_ms: int) -> bool:
    return 0 <= entry.last_timestamp < now - max_timeout_ms - LATE_MS


def _timestamp_at(log: Log, offset: int) -> int | None:
    """Return the base timestamp of the batch that holds an offset, ms."""
    try:
        batch = next(log.batches(offset, offset + 1), None)
    except _FAILURES:
        return None
    return None if batch is None else _known(batch.base_timestamp)


def _aborted(log: Log) -> tuple[tuple[AbortedTransaction, ...], int, str | None]:
    """Return the newest aborted transactions, the number of all, and the error of an index."""
    newest: deque[AbortedTransaction] = deque(maxlen=LISTED_ABORTED)
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


def _known(timestamp: int) -> int | None:
    return timestamp if timestamp >= 0 else None


# --- from all headers


class TransactionScan:
    """A scan of the headers of a partition or a file for transactions.

    Call `step` until it is done, `state` at any time, and `close` at the end. Damage and errors in reading are not
    raised: they are the `problem` of the state.
    """

    def __init__(self, path: Path, *, is_file: bool = False) -> None:
        """Begin a scan.

        Args:
            path: A partition directory, or a segment file.
            is_file: Whether it is a segment file.
        """
        self._is_file = is_file
        self._opened: ReadOnlyLog | FileMessageSet | None = None
        self._known = Transactions()
        self._problems: list[str] = []
        self._growing: dict[int, TransactionRow] = {}
        self._ended: dict[TransactionState, deque[TransactionRow]] = {
            state: deque(maxlen=LISTED_ENDED) for state in _ENDS.values()
        }
        self._counts = dict.fromkeys(self._ended, 0)
        self._done = self._total = 0
        self._finished = False
        self._steps = self._all(path)

    def close(self) -> None:
        """Close the files."""
        if self._opened is not None:
            self._opened.close()

    @property
    def progress(self) -> Progress:
        """The progress of the scan, in bytes of segments."""
        total = max(self._total, 1)
        return Progress(total if self._finished else min(self._done, total - 1), total)

    def step(self, seconds: float = STEP_SECONDS) -> Progress:
        """Continue the scan for about so many seconds, and return its progress."""
        until = time.monotonic() + seconds
        for _ in self._steps:
            if time.monotonic() >= until:
                return self.progress
        self._finished = True
        return self.progress

    def _all(self, path: Path) -> Iterator[None]:
        try:
            sets = self._open(path)
            sizes = [each.size_in_bytes for each in sets]
            self._total = sum(sizes)
            yield
            if isinstance(self._opened, Log):
                self._known = transactions_of(self._opened)
        except _FAILURES as error:
            self._problems.append(str(error))
            return
        yield
        for each, size in zip(sets, sizes, strict=True):
            yield from self._read_headers(each)
            self._done += size

    def _open(self, path: Path) -> list[FileMessageSet]:
        if self._is_file:
            self._opened = file = FileMessageSet(path)
            return [file]
        self._opened = log = ReadOnlyLog(path)
        return [segment.log for segment in log.segments]

    def _read_headers(self, file: FileMessageSet) -> Iterator[None]:
        before = self._done
        try:
            for rows in file.header_runs():
                self._add(file, rows)
                self._done = before + end_of(rows)
                yield
        except _FAILURES as error:
            self._problems.append(f"not read through: {error}")
        self._done = before

    def _add(self, file: FileMessageSet, rows: Rows) -> None:
        rows = rows[transactional(rows)]
        markers = marker_types(file, rows[rows["attributes"] & CONTROL_BIT != 0])
        for row in rows:
            if row["attributes"] & CONTROL_BIT:
                self._end(row, markers.get(int(row["position"])))
            else:
                self._grow(row)

    def _grow(self, row: np.void) -> None:
        producer = int(row["producer_id"])
        found = self._growing.get(producer)
        if found is None:
            # Compaction may have written the delete horizon over the base timestamp.
            start = None if row["attributes"] & DELETE_HORIZON_BIT else _known(int(row["base_timestamp"]))
            found = replace(_begun(row), start_timestamp=start)
        self._growing[producer] = replace(
            found,
            batches=(found.batches or 0) + 1,
            records=(found.records or 0) + int(row["records_count"]),
            size_in_bytes=(found.size_in_bytes or 0) + int(row["size_in_bytes"]),
        )

    def _end(self, row: np.void, marker: str | None) -> None:
        state = _ENDS.get(marker or "")
        if state is None:
            return
        # If it is not known, its batches were deleted, or it had none.
        found = self._growing.pop(int(row["producer_id"]), None) or _begun(row)
        self._counts[state] += 1
        end, at = int(row["base_offset"]), int(row["max_timestamp"])
        self._ended[state].append(replace(found, state=state, last_offset=end, end_timestamp=at))

    # --- state

    def state(self) -> TransactionsState:
        """Return the transactions found so far."""
        known = self._known
        # In a single file, those that no marker in it ends.
        open_rows = list(self._growing.values()) if self._is_file else self._open_rows()
        ended = sorted(
            [*self._aborted_rows(), *self._ended["committed"]], key=lambda row: row.last_offset or 0, reverse=True
        )
        problems = [*([] if known.problem is None else [known.problem]), *self._problems]
        return TransactionsState(
            (*open_rows, *ended),
            len(known.open),
            sum(each.hanging for each in known.open),
            max(known.aborted_count, self._counts["aborted"]),
            self._counts["committed"],
            known.last_stable_offset,
            self.progress,
            "; ".join(problems) or None,
        )

    def _open_rows(self) -> list[TransactionRow]:
        """Return the open transactions: hanging ones first, then the oldest."""
        rows = []
        for each in sorted(self._known.open, key=lambda each: (not each.hanging, each.first_offset)):
            found = self._growing.get(each.producer_id)
            row = TransactionRow("open", each.producer_id, each.producer_epoch, each.first_offset)
            if found is not None and found.first_offset == each.first_offset:
                row = found
            rows.append(
                replace(
                    row,
                    state="hanging" if each.hanging else "open",
                    start_timestamp=each.start_timestamp if row.start_timestamp is None else row.start_timestamp,
                    last_timestamp=each.last_timestamp,
                    coordinator_epoch=each.coordinator_epoch,
                    abort_command=each.abort_command,
                )
            )
        return rows

    def _aborted_rows(self) -> list[TransactionRow]:
        """Return the aborted transactions of the indexes, with counts from their batches, and those in no index."""
        read = {(row.producer_id, row.last_offset): row for row in self._ended["aborted"]}
        rows = []
        for each in self._known.aborted[-LISTED_ENDED:]:
            found = read.pop((each.producer_id, each.last_offset), None)
            row = found or TransactionRow(
                "aborted", each.producer_id, None, each.first_offset, last_offset=each.last_offset
            )
            rows.append(replace(row, first_offset=each.first_offset))
        return [*rows, *read.values()]


def _begun(row: np.void) -> TransactionRow:
    """Return the transaction that begins with a batch, before that is counted."""
    producer, epoch, offset = int(row["producer_id"]), int(row["producer_epoch"]), int(row["base_offset"])
    return TransactionRow("undecided", producer, epoch, offset, batches=0, records=0, size_in_bytes=0)


def transactional(rows: Rows) -> NDArray[np.bool_]:
    """Return a mask of the rows of transactional batches, markers too."""
    found: NDArray[np.bool_] = (rows["magic"] >= 2) & (rows["attributes"] & TRANSACTIONAL_BIT != 0)
    return found


def marker_types(file: FileMessageSet, rows: Rows) -> dict[int, str]:
    """Return the names of the types of control batches by their positions, without those that are damaged.

    Args:
        file: The file.
        rows: The rows of its control batches, shape (n,).
    """
    if not len(rows):
        return {}
    start = int(rows["position"][0])
    size = end_of(rows) - start
    found: dict[int, str] = {}
    if size <= _READ_AT_ONCE:
        try:
            for columns in read_columns(file._entries(rows), Reading(check_crcs=False, control=True)):
                batches, firsts = np.unique(columns.batch, return_index=True)
                positions = columns.batches["position"][batches].tolist()
                names = (control_name(columns.key(i)) for i in firsts.tolist())
                found.update((position, name) for position, name in zip(positions, names, strict=True) if name)
        except _FAILURES:
            found.clear()
        else:
            return found
    # Too many bytes at once, or damage in one of the batches.
    half = len(rows) // 2
    return {} if not half else {**marker_types(file, rows[:half]), **marker_types(file, rows[half:])}
