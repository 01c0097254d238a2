"""Through the records of a whole partition, some thousand at a time: what search and statistics have in common.

    segment   window | window | damaged batch | window ...        headers first, then the records of each window
    parts     columns | columns |               columns

Who goes through a partition opens its files for itself, so that it may do so in a thread of its own. What cannot be
read is stepped over and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from inspector.reading.answers import PartitionState
from inspector.reading.batches import SegmentReader
from inspector.reading.headers import Rows
from inspector.reading.window import Window
from kafkalog import RecordColumns
from kafkalog.errors import KafkaLogError

_FAILURES = (OSError, KafkaLogError, ValueError)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What could not be read, and why. path: its file, None = the directory; position: there, None = all of it."""

    path: Path | None
    position: int | None
    problem: str

    def __str__(self) -> str:
        if self.path is None or self.position is None:
            return self.problem
        return f"{self.path.name}: position {self.position}: {self.problem}"


@dataclass(slots=True)
class Unread:
    """What could not be read: how many batches, and the first that was met."""

    batches: int = 0
    first: Unreadable | None = None

    @property
    def problem(self) -> str | None:
        """Of the first: where it is, and what is wrong."""
        return None if self.first is None else str(self.first)

    def note(self, path: Path | None, position: int | None, problem: str | None, batches: int = 1) -> None:
        """Count some."""
        self.batches += batches
        self.first = self.first or Unreadable(path, position, problem or "it cannot be read")


class Part(NamedTuple):
    """Some records, of batches of one codec. stored: bytes of those batches' records as they lie in the file."""

    base_offset: int
    columns: RecordColumns
    codec: int = 0
    stored: int = 0
    batches: int = 0


class Step(NamedTuple):
    """A piece of the way. parts: empty while only headers were read. done_bytes: of the segment, from its start."""

    base_offset: int
    done_bytes: int
    parts: list[Part]
    last_offset: int | None = None


class Place(NamedTuple):
    """A segment to go through."""

    base_offset: int
    path: Path
    bytes: int


def places_of(state: PartitionState, unread: Unread) -> list[Place]:
    """The segments of a partition, as it was; where there are none because of a problem, that is noted."""
    if not state.segments and state.problem is not None:
        unread.note(None, None, state.problem, 0)
    return [Place(row.base_offset, row.path, row.bytes) for row in state.segments]


def steps(place: Place, unread: Unread, *, first_offset: int = 0, backwards: bool = False) -> Iterator[Step]:
    """Through one segment, in steps of a few milliseconds. first_offset: windows that end before it are left out.

    backwards: from its end; the parts of a step too, not the records in a part.
    """
    reader = SegmentReader(place.path, place.base_offset)
    if reader.problem is not None:
        unread.note(place.path, None, reader.problem)
        return
    try:
        yield from _backwards(reader, place, unread) if backwards else _forwards(reader, place, unread, first_offset)
    finally:
        reader.close()


def _forwards(reader: SegmentReader, place: Place, unread: Unread, first_offset: int) -> Iterator[Step]:
    number = 0
    while True:
        windows = reader.windows
        # The last one may still grow.
        ready = len(windows) if reader.is_walked else len(windows) - 1
        if number < ready:
            window = windows[number]
            number += 1
            wanted = _has_any_from(first_offset, window, windows[number : number + 1])
            parts = list(_parts(reader, place, window, unread)) if wanted else []
            yield Step(place.base_offset, window.end, parts, window.last_offset)
        elif reader.is_walked or _failed(reader, unread):
            return
        else:
            yield Step(place.base_offset, windows[-1].position if windows else 0, [])


def _has_any_from(first_offset: int, window: Window, following: Sequence[Window]) -> bool:
    """Whether a window may hold that offset or a later one; of lost bytes only what follows tells."""
    if window.lost is None:
        return window.last_offset >= first_offset
    return all(each.last_offset >= first_offset for each in following)


def _failed(reader: SegmentReader, unread: Unread) -> bool:
    """Go on with the index; whether that is impossible."""
    before = reader.batches
    progress = reader.index_more()
    if progress.is_done and not reader.is_walked and reader.batches == before:
        unread.note(reader.path, reader.indexed_bytes, reader.problem)
        return True
    return False


def _backwards(reader: SegmentReader, place: Place, unread: Unread) -> Iterator[Step]:
    while not reader.is_walked:
        if _failed(reader, unread):
            return
        yield Step(place.base_offset, 0, [])
    for window in reversed(reader.windows):
        parts = list(_parts(reader, place, window, unread))
        yield Step(place.base_offset, place.bytes - window.position, parts[::-1], window.previous + 1)


def _parts(reader: SegmentReader, place: Place, window: Window, unread: Unread) -> Iterator[Part]:
    if window.lost is not None:
        if not window.zeroed:
            unread.note(place.path, window.position, window.lost)
        return
    held = reader.held(window)
    if held.rows is None:
        unread.note(place.path, window.position, held.bad.get(0), window.rows)
        return
    for run, problem in _runs(held.rows, held.bad):
        if problem is None:
            yield from _decoded(reader, place, run, unread)
        else:
            unread.note(place.path, int(run["position"][0]), problem)


def _runs(rows: Rows, bad: dict[int, str]) -> Iterator[tuple[Rows, str | None]]:
    """Sound batches of one codec that lie together; a damaged one by itself, and what is wrong with it."""
    breaks = np.flatnonzero(np.diff(rows["compression_type"])) + 1
    edges = {0, len(rows), *breaks.tolist(), *bad, *(i + 1 for i in bad)}
    ordered = sorted(edges)
    for start, stop in pairwise(ordered):
        yield rows[start:stop], bad.get(start)


def _decoded(reader: SegmentReader, place: Place, run: Rows, unread: Unread) -> Iterator[Part]:
    codec = int(run["compression_type"][0])
    try:
        found = list(_columns(reader, run))
    except _FAILURES as error:
        if len(run) == 1:
            unread.note(place.path, int(run["position"][0]), _why(error))
            return
        for i in range(len(run)):
            yield from _decoded(reader, place, run[i : i + 1], unread)
        return
    header = np.where(run["magic"] >= 2, 61, np.where(run["magic"] == 1, 34, 26))
    stored = int((run["size_in_bytes"] - header).sum())
    for i, columns in enumerate(found):
        first = i == 0
        yield Part(place.base_offset, columns, codec, stored if first else 0, len(run) if first else 0)


def _why(error: Exception) -> str:
    """Without its own place, which is where in the batch reading ended: one goes to where the batch begins."""
    if isinstance(error, KafkaLogError):
        return str(KafkaLogError(error.message, expected=error.expected, found=error.found))
    return str(error)


def _columns(reader: SegmentReader, run: Rows) -> Iterator[RecordColumns]:
    """The records of some batches, control records left out."""
    raw = reader.raw
    assert raw is not None
    end = int(run["position"][-1]) + int(run["size_in_bytes"][-1])
    return raw.file.part(int(run["position"][0]), end).columns(check_crcs=False)
