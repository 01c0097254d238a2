"""The records of a partition or file for search and statistics: past damage, with progress, forwards or backwards.

    scan = RecordScan(extent_of(path), start=1000)
    for columns in scan:                         # some thousand records of batches with the same codec
        scan.base_offset, scan.done_bytes        # where they are from
    scan.unread                                  # what was left out

Each byte is read once, and each header; only backwards twice, since damage is recognised from the start of a file. The
files are opened one by one and read up to the size that they had at first.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.fsck.consequences import Severity
from kafkalog.fsck.file_check import Scope
from kafkalog.fsck.header_checks import Rows
from kafkalog.fsck.verifying import scope_of
from kafkalog.record.decoding import Entries, Reading, pieces
from kafkalog.record.record_columns import RecordColumns
from kafkalog.scan.progress import Progress
from kafkalog.scan.records import Damage, decoded, from_offset, reason_of, surviving, surviving_backwards
from kafkalog.storage.data_dir.discover import LogFile, discover
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.log import Log
from kafkalog.storage.read.log_scan import NO_END
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.segment.file_message_set import FileMessageSet


class Part(NamedTuple):
    """A segment: its base offset, file and size in bytes."""

    base_offset: int
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class Extent:
    """The segments and offsets to scan, as of one moment.

    Attributes:
        parts: The segments.
        log_start: The log start offset.
        log_end: The log end offset; NO_END: unknown.
        problem: Why there are no segments; None: nothing is wrong.
    """

    parts: tuple[Part, ...] = ()
    log_start: int = 0
    log_end: int = NO_END
    problem: str | None = None


def open_place(path: Path) -> Log | FileMessageSet:
    """Open a partition or a file.

    Raises:
        OSError: It was not opened.
        NotALogError: It is not a log.
    """
    return FileMessageSet(path) if isinstance(discover(path), LogFile) else ReadOnlyLog(path)


def extent_of(path: Path) -> Extent:
    """Return what there is to scan at the path of a partition or a file. Errors are part of it."""
    try:
        with open_place(path) as log:
            if isinstance(log, FileMessageSet):
                base = segment_base_offset(path.name) or 0
                return Extent((Part(base, path, log.size_in_bytes),), base)
            parts = []
            for segment in log.segments:
                # Retention may delete it now.
                with suppress(OSError):
                    parts.append(Part(segment.base_offset, segment.path, segment.size_in_bytes))
            try:
                end = log.segments[-1].read_next_offset() if parts else log.log_start_offset
            except KafkaLogError:
                end = NO_END
            return Extent(tuple(parts), log.log_start_offset, end)
    except (OSError, NotALogError, KafkaLogError) as error:
        return Extent(problem=str(error))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file or directory that could not be read, and why.

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
    """All that could not be read: the number of batches and of ranges of lost bytes, and the first that was met."""

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
            self.add(Path(damage.path), damage.position, reason_of(damage.finding or damage.error))


class RecordScan:
    """The records with start <= offset < stop of a partition or file.

    Attributes:
        unread: What was left out so far.
        base_offset: The base offset of the segment that is read.
        end_offset: The offset after the last batch read, at least `start`.
    """

    def __init__(
        self, extent: Extent, *, start: int = 0, stop: int = NO_END, backwards: bool = False, control: bool = False
    ) -> None:
        """Begin a scan, of control records too if `control`."""
        self.unread = Unread()
        if extent.problem is not None:
            self.unread.first = Unreadable(None, None, extent.problem)
        ends = [*(part.base_offset for part in extent.parts[1:]), NO_END]
        parts = zip(extent.parts, ends, strict=False)
        wanted = [part for part, end in parts if end > start and part.base_offset < stop]
        self._parts = wanted[::-1] if backwards else wanted
        self._start, self._stop, self._backwards, self._control = start, stop, backwards, control
        self.base_offset = self._done_bytes = 0
        self._total_bytes = sum(part.size for part in wanted)
        self.end_offset = start

    @property
    def progress(self) -> Progress:
        """The progress, in bytes of segments."""
        return Progress(self._done_bytes, self._total_bytes)

    def __iter__(self) -> Iterator[RecordColumns]:
        """Yield the records; empty columns where there are none for a while, so that progress can be reported."""
        before = 0
        for part in self._parts:
            self.base_offset = part.base_offset
            try:
                for columns, done in self._of_part(part):
                    self._done_bytes = before + done
                    yield columns
            except (OSError, KafkaLogError) as error:
                self.unread.add(part.path, None, str(error))
            before = self._done_bytes = before + part.size

    def _of_part(self, part: Part) -> Iterator[tuple[RecordColumns, int]]:
        """Yield records, and how many bytes of the segment have been read."""
        scope = scope_of(part.path)
        with closing(open_source(part.path)) as file:
            items: Iterable[Entries | Damage]
            if self._backwards:
                items = surviving_backwards(file, scope, part.size)
            else:
                items = surviving(file, scope, 0, part.size)
            for entries in from_offset(self._start, items, self.unread.note):
                done = part.size - entries.position if self._backwards else entries.position
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
        pieces_of_rows = [part for rows in _by_codec(entries.rows) for part in pieces(rows)]
        for rows in reversed(pieces_of_rows) if self._backwards else pieces_of_rows:
            found = decoded(entries.only(rows), reading, scope.bounds)
            for columns in reversed(list(found)) if self._backwards else found:
                if isinstance(columns, Damage):
                    self.unread.note(columns)
                else:
                    yield columns.between(self._start, self._stop)


def _by_codec(rows: Rows) -> list[Rows]:
    """Cut rows where the codec changes."""
    return np.split(rows, np.flatnonzero(np.diff(rows["compression_type"])) + 1)
