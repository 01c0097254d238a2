"""All transactions of a partition, those that ended well too: every header read once, in steps.

    offset     10      11      12      13        14
    batch      A data  B data  A data  A COMMIT  B ABORT      A: 10..13, two batches; B: 11..14, one

Which are open, and which were aborted, is said by producer state and transaction indexes (see `transactions`). The
batches add what only they tell: records, bytes, when each began and ended, and which were committed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import kafkalog
from inspector.reading.answers import (
    Progress,
    TransactionKind,
    TransactionRow,
    Transactions,
    TransactionsState,
)
from inspector.reading.headers import Rows, control_of
from inspector.reading.transactions import transactions_of
from kafkalog import FileMessageSet, Log
from kafkalog.attributes import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from kafkalog.errors import KafkaLogError

# Of those that have ended the newest are told, and all are counted.
TOLD_ENDED = 1_000
STEP_SECONDS = 0.05
_FAILURES = (OSError, KafkaLogError, ValueError)
_ENDS: dict[str, TransactionKind] = {"COMMIT": "committed", "ABORT": "aborted"}


@dataclass(slots=True)
class _Growing:
    """A transaction whose end has not been read."""

    epoch: int
    first_offset: int
    start: int
    batches: int = 0
    records: int = 0
    bytes: int = 0


class TransactionScan:
    """Of the partition directory, or the segment file, at `path`; `step` until it is done, `state` at any time.

    Nothing here raises for what is on disk. Files are let go with `close`.
    """

    def __init__(self, path: Path, *, is_file: bool = False) -> None:
        self._is_file = is_file
        self._log: Log | None = None
        self._file: FileMessageSet | None = None
        self._known = Transactions()
        self._problems: list[str] = []
        self._growing: dict[int, _Growing] = {}
        self._ended: dict[TransactionKind, deque[TransactionRow]] = {
            state: deque(maxlen=TOLD_ENDED) for state in _ENDS.values()
        }
        self._counts = dict.fromkeys(self._ended, 0)
        self._done = self._total = 0
        self._finished = False
        self._steps = self._all(path)

    def close(self) -> None:
        """Give up all files."""
        for each in (self._log, self._file):
            if each is not None:
                each.close()

    @property
    def progress(self) -> Progress:
        """In bytes of segments."""
        total = max(self._total, 1)
        return Progress(total if self._finished else min(self._done, total - 1), total)

    def step(self, seconds: float = STEP_SECONDS) -> Progress:
        """Read on for about so long."""
        until = time.monotonic() + seconds
        for _ in self._steps:
            if time.monotonic() >= until:
                return self.progress
        self._finished = True
        return self.progress

    # --- reading

    def _all(self, path: Path) -> Iterator[None]:
        try:
            if self._is_file:
                self._file = FileMessageSet(path)
                sets = [self._file]
            else:
                self._log = kafkalog.open(path)
                sets = [segment.log for segment in self._log.segments]
            sizes = [each.size_in_bytes for each in sets]
            self._total = sum(sizes)
            yield
            if self._log is not None:
                self._known = transactions_of(self._log)
        except _FAILURES as error:
            self._problems.append(str(error))
            return
        yield
        for each, size in zip(sets, sizes, strict=True):
            yield from self._through(each)
            self._done += size

    def _through(self, batches: FileMessageSet) -> Iterator[None]:
        before = self._done
        try:
            for rows in batches.header_runs():
                self._take(batches, rows)
                self._done = before + int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])
                yield
        except _FAILURES as error:
            self._problems.append(f"not read through: {error}")
        self._done = before

    def _take(self, batches: FileMessageSet, rows: Rows) -> None:
        own = (rows["magic"] >= 2) & (rows["attributes"] & TRANSACTIONAL_BIT != 0)
        for i in np.flatnonzero(own).tolist():
            row = rows[i]
            if row["attributes"] & CONTROL_BIT:
                self._end(row, _control(batches, row))
            else:
                self._grow(row)

    def _grow(self, row: np.void) -> None:
        producer = int(row["producer_id"])
        found = self._growing.get(producer)
        if found is None:
            # Compaction may have put there until when markers are to be kept.
            start = -1 if row["attributes"] & DELETE_HORIZON_BIT else int(row["base_timestamp"])
            found = self._growing[producer] = _Growing(int(row["producer_epoch"]), int(row["base_offset"]), start)
        found.batches += 1
        found.records += int(row["records_count"])
        found.bytes += int(row["size_in_bytes"])

    def _end(self, row: np.void, control: str | None) -> None:
        producer, offset, marked = int(row["producer_id"]), int(row["base_offset"]), int(row["max_timestamp"])
        state = _ENDS.get(control or "")
        if state is None:
            return
        found = self._growing.pop(producer, None)
        if found is None:
            # Its batches are no longer here, or there were none.
            found = _Growing(int(row["producer_epoch"]), offset, -1)
        self._counts[state] += 1
        self._ended[state].append(replace(_row(producer, found), state=state, last_offset=offset, end_timestamp=marked))

    # --- what is known

    def state(self) -> TransactionsState:
        """What is open; of what has ended the newest; counts."""
        known = self._known
        open_rows = self._undecided() if self._is_file else self._open_rows()
        aborted = self._aborted_rows()
        ended = sorted([*aborted, *self._ended["committed"]], key=lambda row: row.last_offset or 0, reverse=True)
        problems = [*([] if known.problem is None else [known.problem]), *self._problems]
        return TransactionsState(
            (*open_rows, *ended),
            len(known.open),
            sum(each.hanging for each in known.open),
            max(known.aborted_count, self._counts["aborted"]),
            self._counts["committed"],
            known.last_stable,
            self.progress,
            "; ".join(problems) or None,
        )

    def _undecided(self) -> list[TransactionRow]:
        """Of a file by itself: those that no marker in it ends."""
        return [replace(_row(producer, found), state="undecided") for producer, found in self._growing.items()]

    def _open_rows(self) -> list[TransactionRow]:
        """Hanging ones first, then the oldest."""
        rows = []
        for each in sorted(self._known.open, key=lambda each: (not each.hanging, each.first_offset)):
            found = self._growing.get(each.producer_id)
            row = TransactionRow("open", each.producer_id, each.producer_epoch, each.first_offset)
            if found is not None and found.first_offset == each.first_offset:
                row = _row(each.producer_id, found)
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
        """As the indexes say, with what their batches tell; and those that no index has."""
        read = {(row.producer_id, row.last_offset): row for row in self._ended["aborted"]}
        rows = []
        for each in self._known.aborted[-TOLD_ENDED:]:
            found = read.pop((each.producer_id, each.last_offset), None)
            row = found or TransactionRow(
                "aborted", each.producer_id, None, each.first_offset, last_offset=each.last_offset
            )
            rows.append(replace(row, first_offset=each.first_offset))
        return [*rows, *read.values()]


def _row(producer: int, found: _Growing) -> TransactionRow:
    start = found.start if found.start >= 0 else None
    return TransactionRow(
        "open",
        producer,
        found.epoch,
        found.first_offset,
        start_timestamp=start,
        batches=found.batches,
        records=found.records,
        bytes=found.bytes,
    )


def _control(batches: FileMessageSet, row: np.void) -> str | None:
    """What a control batch says; None where it cannot be read."""
    try:
        found = batches.read(int(row["position"]), int(row["size_in_bytes"]))
        return control_of(next(found.batches(), None))
    except _FAILURES:
        return None
