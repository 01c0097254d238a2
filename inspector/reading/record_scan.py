"""The records of a partition for search and statistics: past damage, with progress, in the order of the log or back.

    scan = RecordScan(state, start=1000)
    for columns in scan:                         # some thousand records of batches with the same codec
        scan.base_offset, scan.done_bytes        # where they are from
    scan.unread                                  # what was left out

It opens the files itself, so that it may be iterated over in any thread. What survives damage, `kafkalog.scan` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inspector.reading.answers import PartitionState, SegmentRow, said
from kafkalog import RecordColumns
from kafkalog.errors import KafkaLogError
from kafkalog.fsck import Severity
from kafkalog.fsck.file_check import Scope
from kafkalog.fsck.header_checks import Rows
from kafkalog.fsck.verifying import scope_of
from kafkalog.record.decoding import Entries, Reading, pieces
from kafkalog.scan.records import Damage, decoded, from_offset, surviving, surviving_backwards
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.read.log_scan import NO_END


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What could not be read, and why.

    Attributes:
        path: Its file; None: the directory.
        position: The position in the file; None: all of it.
    """

    path: Path | None
    position: int | None
    problem: str

    def __str__(self) -> str:
        if self.path is None or self.position is None:
            return self.problem
        return f"{self.path.name}: position {self.position}: {self.problem}"


@dataclass(slots=True)
class Unread:
    """All that could not be read: how many batches and stretches of bytes, and the first that was met."""

    places: int = 0
    first: Unreadable | None = None

    @property
    def problem(self) -> str | None:
        """The first one as text."""
        return None if self.first is None else str(self.first)

    def add(self, path: Path | None, position: int | None, problem: str) -> None:
        """Count one."""
        self.places += 1
        self.first = self.first or Unreadable(path, position, problem)

    def note(self, damage: Damage) -> None:
        """Count damage, unless it is only reserved space."""
        if damage.finding is None or damage.finding.severity is not Severity.INFO:
            self.add(Path(damage.path), damage.position, said(damage.finding or damage.error))


class RecordScan:
    """The records with start <= offset < stop of a partition or file, up to the size that its files had at first.

    Attributes:
        unread: What was left out so far.
        base_offset: The base offset of the segment that is read.
        done_bytes, total_bytes: The progress, in bytes of segments.
        end_offset: The offset after the last batch read, at least `start`.
    """

    def __init__(
        self,
        state: PartitionState,
        *,
        start: int = 0,
        stop: int = NO_END,
        backwards: bool = False,
        control: bool = False,
    ) -> None:
        """Begin a scan of a partition as it is in `state`, of control records too if `control`."""
        self.unread = Unread()
        if not state.segments and state.problem is not None:
            self.unread.first = Unreadable(None, None, state.problem)
        ends = [*(row.base_offset for row in state.segments[1:]), NO_END]
        wanted = [row for row, end in zip(state.segments, ends, strict=False) if end > start and row.base_offset < stop]
        self._segments = wanted[::-1] if backwards else wanted
        self._start, self._stop, self._backwards, self._control = start, stop, backwards, control
        self.base_offset = self.done_bytes = 0
        self.total_bytes = sum(row.bytes for row in wanted)
        self.end_offset = start

    def __iter__(self) -> Iterator[RecordColumns]:
        """Yield the records; empty columns where there are none for a while, so that progress can be told."""
        before = 0
        for row in self._segments:
            self.base_offset = row.base_offset
            try:
                for columns, done in self._segment(row):
                    self.done_bytes = before + done
                    yield columns
            except (OSError, KafkaLogError) as error:
                self.unread.add(row.path, None, str(error))
            before = self.done_bytes = before + row.bytes

    def _segment(self, row: SegmentRow) -> Iterator[tuple[RecordColumns, int]]:
        """Yield records, and how many bytes of the segment have been read."""
        scope = scope_of(row.path)
        with closing(open_source(row.path)) as file:
            items: Iterable[Entries | Damage]
            if self._backwards:
                items = surviving_backwards(file, scope, row.bytes)
            else:
                items = surviving(file, scope, 0, row.bytes)
            for entries in from_offset(self._start, items, self.unread.note):
                done = row.bytes - entries.position if self._backwards else entries.position
                yield RecordColumns.empty(), done
                if len(entries.rows):
                    self.end_offset = max(self.end_offset, int(entries.rows["last_offset"].max()) + 1)
                    for columns in self._columns(entries, scope):
                        yield columns, done

    def _columns(self, entries: Entries, scope: Scope) -> Iterator[RecordColumns]:
        if entries.rows["base_offset"].min() >= self._stop:
            return
        # `surviving` has checked the checksums.
        reading = Reading(check_crcs=False, control=self._control, path=scope.path)
        parts = [part for rows in _by_codec(entries.rows) for part in pieces(rows)]
        for rows in reversed(parts) if self._backwards else parts:
            found = decoded(entries.only(rows), reading, scope.bounds)
            for columns in reversed(list(found)) if self._backwards else found:
                if isinstance(columns, Damage):
                    self.unread.note(columns)
                else:
                    yield columns.between(self._start, self._stop)


def _by_codec(rows: Rows) -> list[Rows]:
    """Cut rows where the codec changes."""
    return np.split(rows, np.flatnonzero(np.diff(rows["compression_type"])) + 1)
