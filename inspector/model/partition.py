"""`PartitionReader`: a partition's segments, watermarks and epochs, polled while somebody writes it.

    log start        recovery point      last stable      high watermark      log end
    |----------------|-------------------|----------------|-------------------|
    segments         0 | 40 | 80 (active)

A poll looks at directory and sizes, and reads on only where something grew. What costs more, as the first and last
times of a thousand segments, comes a few segments a poll; the last stable offset, which may need a long stretch of
the log, is None until `work_out_last_stable` has been called, and followed from then on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import kafkalog
from kafkalog import FileMessageSet, Log
from kafkalog.errors import KafkaLogError
from kafkalog.fsck.health import index_state, near_end_of
from kafkalog.scan.last_stable_offset import LastStableOffset
from kafkalog.scan.status import PartitionStatus
from kafkalog.scan.transactions import Transactions, transactions_of
from kafkalog.storage.data_dir.discover import LogFile
from kafkalog.storage.index.transaction_index import AbortedTxn
from kafkalog.storage.segment.log_segment import LogSegment

from .gaps import gaps_between
from .headers import time_of
from .segment import CHANGED, SegmentReader
from .types import Byte, Change, Offset, PartitionState, Place, SegmentRow, Target

if TYPE_CHECKING:
    from .partitions import Source

# How long one poll may take to find out what is dear.
POLL_SECONDS = 0.03
# The index of a segment that was written less long ago is not said to be damaged.
SETTLED_SECONDS = 5.0
_FAILURES = (OSError, KafkaLogError, ValueError)
Purpose: TypeAlias = Literal["show", "count", "hunt"]
# Segments whose readers stay open, for each purpose.
KEPT: dict[Purpose, int] = {"show": 8, "count": 1, "hunt": 1}


class _Found(NamedTuple):
    """What a reader has found in a segment of `size` bytes. counts: fields of a `SegmentRow`."""

    size: int
    counts: dict[str, Any]
    damage: str | None


class PartitionReader:
    """A partition directory, or one segment file by itself.

    Nothing here raises for what is on disk. Except where a method says otherwise, one thread calls.
    """

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self.path = source.path
        self._source = source
        self._is_file = isinstance(source.place, LogFile)
        # Of a segment file by itself; 0 if its name tells none.
        self._file_base = source.place.base_offset if isinstance(source.place, LogFile) else None
        self._log: Log | None = None
        self._known: dict[int, tuple[tuple[int, ...], SegmentRow]] = {}
        # The last one asked for is the last.
        self._readers: dict[tuple[Purpose, int], SegmentReader] = {}
        self._found: dict[int, _Found] = {}
        self._last: PartitionState | None = None
        self._last_stable: LastStableOffset | None = None
        self._last_end: int | None = None
        self._log_start = 0

    # --- the state

    def refresh(self, seconds: float | None = None) -> PartitionState:
        """Return what is there now, and what changed since the last call.

        Args:
            seconds: How long to look at segments; None: `POLL_SECONDS`. What is left is looked at by the next call.
        """
        state = self._state(POLL_SECONDS if seconds is None else seconds)
        changed = _changes(self._last, state) if self._last is not None else frozenset[Change]()
        self._last = state
        return replace(state, changed=changed)

    def _state(self, seconds: float) -> PartitionState:
        if self._is_file:
            return self._file_state()
        try:
            log = self._opened()
            rows = tuple(self._segment_rows(log, seconds))
        except _FAILURES as error:
            self._let_go()
            return PartitionState(self.name, self.path, problem=str(error))
        return self._with_watermarks(log, rows)

    def _opened(self) -> Log:
        if self._log is None:
            self._log = kafkalog.open(self.path)
        return self._log

    def _let_go(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log = None

    def _with_watermarks(self, log: Log, rows: tuple[SegmentRow, ...]) -> PartitionState:
        directory, place = self._source.directory(), self._source.place
        assert not isinstance(place, LogFile)
        problems = [row.problem for row in rows if row.problem is not None]
        epochs: tuple[tuple[int, int], ...] = ()
        try:
            # The rows may be older than the checkpoints.
            directory.refresh()
            problems += map(str, directory.problems)
            status = directory.status_of_log(place, log, quick=True)
            problems += [status.problem] if status.problem is not None else []
            epochs = tuple((entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries)
        except _FAILURES as error:
            problems.append(str(error))
            status = PartitionStatus(partition=place, log_start_offset=rows[0].base_offset if rows else 0)
        rows = tuple(map(self._with_found, rows))
        start = self._log_start = status.log_start_offset or 0
        for (_, base_offset), reader in self._readers.items():
            reader.log_start = start if base_offset < start else 0
        end = self._end_of(rows, status.log_end_offset)
        gaps = gaps_between(rows, start, directory.cleaned(place))
        told = "; ".join(problems) or None
        state = PartitionState(self.name, self.path, rows, start, epochs=epochs, problem=told, gaps=gaps)
        if end is None:
            return state
        watermark = end if status.high_watermark is None else status.high_watermark
        return replace(
            state,
            recovery_point=min(end, status.recovery_point or 0),
            last_stable=self._stable(log, end, watermark, start),
            high_watermark=watermark,
            log_end=end,
        )

    def _end_of(self, rows: tuple[SegmentRow, ...], found: int | None) -> int | None:
        """Return the log end offset, if it is known or found at once."""
        if found is None and rows:
            reader = self._readers.get(("show", rows[-1].base_offset))
            found = reader.end_offset if reader is not None and reader.is_walked else self._last_end
        self._last_end = found
        return found

    def _stable(self, log: Log, end: int, watermark: int, start: int) -> int | None:
        """Return the last stable offset, once it has been worked out."""
        known = self._last_stable
        if known is None:
            return None
        with suppress(*_FAILURES):
            if known.follow(log, end):
                return min(end, max(start, known.at(watermark)))
        self._last_stable = None
        return None

    def work_out_last_stable(self) -> int | None:
        """Work out the last stable offset; `refresh` has it from now on, and follows it.

        It may take a second for a long segment without a snapshot, and may be called in another thread meanwhile. None:
        damage is in the way, or it is a file.
        """
        if self._is_file:
            return None
        try:
            with kafkalog.open(self.path) as log:
                # A log start beyond the end, which hides all records, is no end.
                end = log.segments[-1].read_next_offset() if log.segments else log.log_end_offset
                found, offset = LastStableOffset(log), min(end, log.last_stable_offset)
        except _FAILURES:
            return None
        self._last_end, self._last_stable = end, found
        return offset

    # --- segments

    def _segment_rows(self, log: Log, seconds: float) -> Iterator[SegmentRow]:
        until = time.monotonic() + seconds
        segments = log.segments
        bases = {segment.base_offset for segment in segments}
        self._known = {base: known for base, known in self._known.items() if base in bases}
        self._found = {base: found for base, found in self._found.items() if base in bases}
        for segment in segments:
            try:
                status = segment.path.stat()
            except OSError as error:
                yield SegmentRow(segment.base_offset, segment.path, 0, segment.sealed, problem=str(error))
                continue
            key = status.st_ino, status.st_size, status.st_mtime_ns, int(segment.sealed)
            known = self._known.get(segment.base_offset)
            row = known[1] if known is not None and known[0] == key else None
            if row is None:
                row = SegmentRow(segment.base_offset, segment.path, status.st_size, segment.sealed)
                if time.monotonic() < until:
                    row = _summed_up(row, segment)
                    if row.index_state == "damaged" and time.time() < status.st_mtime + SETTLED_SECONDS:
                        # A writer that truncates or rolls may be about to write the index: a later look tells.
                        row = replace(row, index_state=None)
                    # What failed may have met a file that was being cut or put back.
                    elif row.problem is None:
                        self._known[segment.base_offset] = key, row
                elif known is not None:
                    row = replace(known[1], bytes=status.st_size, sealed=segment.sealed)
            yield row

    def _with_found(self, row: SegmentRow) -> SegmentRow:
        """Return a row with what its reader has found, if it has read the segment through, and with damage in it."""
        for (_, base_offset), reader in self._readers.items():
            if base_offset == row.base_offset:
                self._note(base_offset, reader)
        found, damage = self._found.get(row.base_offset), None
        if found is not None and found.size == row.bytes:
            row, damage = replace(row, **found.counts), found.damage
        if damage is None and row.index_state == "damaged":
            damage = f"{row.path.with_suffix('.index').name}: it does not lead to the batch that its last entry names"
        return row if row.problem is not None else replace(row, problem=damage)

    def _note(self, base_offset: int, reader: SegmentReader) -> None:
        if reader.is_walked:
            counts = {
                "summary": deepcopy(reader.summary),
                "first_timestamp": time_of(reader.summary.first_timestamp),
                "last_timestamp": time_of(reader.summary.last_timestamp),
                "end_offset": reader.end_offset if reader.size else reader.base_offset,
            }
            self._found[base_offset] = _Found(reader.size, counts, reader.first_damage())

    def segment(self, base_offset: int, purpose: Purpose = "show") -> SegmentReader:
        """Return the reader of the segment with that base offset; the same one until enough others were asked for.

        It is closed then: each holds its file and a table of its batches. `KEPT` says how many a purpose has.

        Args:
            base_offset: The base offset.
            purpose: Whether the segment is shown, or only read through in one pass.
        """
        reader = self._readers.get(("show", base_offset))
        if reader is None or purpose == "show":
            # What was read in passing is not read again where the segment is shown.
            taken: tuple[Purpose, ...] = ("show", "count", "hunt") if purpose == "show" else (purpose,)
            found = (self._readers.pop((each, base_offset), None) for each in taken)
            reader = next(filter(None, found), None) or self._reader(base_offset)
            self._readers[purpose, base_offset] = reader
            for key in [key for key in self._readers if key[0] == purpose][: -KEPT[purpose]]:
                old = self._readers.pop(key)
                self._note(key[1], old)
                old.close()
        return reader

    def _reader(self, base_offset: int) -> SegmentReader:
        if self._is_file:
            return SegmentReader(self.path, self._file_base)
        path = self.path / f"{base_offset:020d}.log"
        reader = SegmentReader(path, base_offset, lambda: self._aborted_behind(base_offset))
        reader.log_start = self._log_start if base_offset < self._log_start else 0
        return reader

    def _aborted_behind(self, base_offset: int) -> Iterator[AbortedTxn]:
        """Yield the aborted transactions in the indexes of later segments."""
        with suppress(*_FAILURES):
            for segment in self._opened().segments:
                if segment.base_offset > base_offset:
                    yield from segment.txn_index

    # --- places

    def locate(self, target: Target) -> Place | None:
        """Return where an offset, a time or a byte is; None if it is not there, or damage is in the way.

        After the last byte of a segment is the last.
        """
        if isinstance(target, Offset) and target.offset < 0:
            return None
        try:
            if self._is_file:
                return self._located_in_file(target)
            return self._located(self._opened(), target)
        except (*_FAILURES, OverflowError):
            return None

    def edge(self, base_offset: int, *, at_end: bool) -> Place | None:
        """Return where the first record of a segment is, or the last one; None if it is not found."""
        if not at_end:
            return self.locate(Byte(0, base_offset))
        following = next((row.base_offset for row in self.refresh().segments if row.base_offset > base_offset), None)
        place = None if following is None else self.locate(Offset(following - 1))
        # Compaction may have removed the last offsets.
        is_here = place is not None and place.base_offset == base_offset
        return place if is_here else self.locate(Byte(sys.maxsize, base_offset))

    def _located(self, log: Log, target: Target) -> Place | None:
        segments = log.segments
        if isinstance(target, Byte):
            wanted = [each for each in segments if target.base_offset in {None, each.base_offset}]
            return _byte_in(wanted[-1].path, wanted[-1].base_offset, target) if wanted else None
        if isinstance(target, Offset):
            offset = max(target.offset, log.log_start_offset)
        else:
            found = log.offset_for_timestamp(max(0, target.timestamp))
            if found is None:
                return None
            offset = found.offset
        for segment, following in zip_longest(segments, segments[1:]):
            if following is not None and following.base_offset <= offset:
                continue
            place = segment.translate_offset(offset)
            if place is not None:
                return Place(segment.base_offset, place.position, max(offset, place.offset))
        return None

    def _located_in_file(self, target: Target) -> Place | None:
        base = self._file_base or 0
        if isinstance(target, Byte):
            return _byte_in(self.path, base, target)
        with FileMessageSet(self.path) as file:
            if isinstance(target, Offset):
                offset = target.offset
            else:
                found = file.search_timestamp(max(0, target.timestamp))
                if found is None:
                    return None
                offset = found.offset
            place = file.search(offset)
            return None if place is None else Place(base, place.position, max(offset, place.offset))

    # --- transactions

    def transactions(self) -> Transactions:
        """Open, hanging and aborted ones; as `work_out_last_stable`, it may take a second."""
        if self._is_file:
            return Transactions(problem="a partition directory is needed to tell transactions")
        try:
            with kafkalog.open(self.path) as log:
                return transactions_of(log)
        except _FAILURES as error:
            return Transactions(problem=str(error))

    def close(self) -> None:
        """Give up all files."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        self._let_go()

    # --- a file by itself

    def _file_state(self) -> PartitionState:
        base = self._file_base or 0
        try:
            size = self.path.stat().st_size
        except OSError as error:
            return PartitionState(self.name, self.path, problem=str(error))
        row = SegmentRow(base, self.path, size, sealed=False)
        try:
            with FileMessageSet(self.path) as file:
                first = file.first_entry()
        except _FAILURES as error:
            row = replace(row, problem=str(error))
            first = None
        reader = self._readers.get(("show", base))
        end = reader.end_offset if reader is not None and reader.is_walked else None
        start = None if first is None or first.base_offset < 0 else first.base_offset
        return PartitionState(self.name, self.path, (self._with_found(row),), start, log_end=end, problem=row.problem)


def _byte_in(path: Path, base_offset: int, target: Byte) -> Place | None:
    size = path.stat().st_size
    return Place(base_offset, min(target.position, size - 1)) if size else None


def _summed_up(row: SegmentRow, segment: LogSegment) -> SegmentRow:
    """Return a row with what a quick look at batches and indexes tells."""
    try:
        # A problem with the batches leaves standing what is known of the index.
        row = replace(row, index_state=index_state(segment))
        first_timestamp = segment.first_batch_timestamp
        # Without a time index the whole segment would have to be read for it.
        last_timestamp = segment.largest_record_timestamp if segment.time_index.entries or row.bytes < 1 << 20 else None
        end = near_end_of(segment) if row.sealed else None
    except ValueError:
        return replace(row, problem=f"{row.path.name}: {CHANGED}")
    except (OSError, KafkaLogError) as error:
        return replace(row, problem=str(error))
    return replace(row, end_offset=end, first_timestamp=first_timestamp, last_timestamp=last_timestamp)


def _changes(before: PartitionState, now: PartitionState) -> frozenset[Change]:
    """Return what happened between two states."""
    changed: set[Change] = set()
    if now.problem is not None and not now.segments and before.segments:
        return frozenset(["gone"])
    old = {row.base_offset: row.bytes for row in before.segments}
    new = {row.base_offset: row.bytes for row in now.segments}
    if not new or not old:
        return frozenset(["grown"]) if new else frozenset()
    first, last_old, last_new = min(new), max(old), max(new)
    if any(base < first for base in old):
        changed.add("deleted")
    if last_new > last_old:
        changed.add("rolled")
    if any(base >= first and (base not in new or new[base] < size) for base, size in old.items()):
        changed.add("truncated")
    if last_new > last_old or any(base in old and size > old[base] for base, size in new.items()):
        changed.add("grown")
    return frozenset(changed)
