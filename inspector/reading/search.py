"""Search over keys, values and headers: matches as they are found, how far it has come, and whether that was all.

    search = Search(partition, pattern("order-17"))
    for event in search:            # in a worker; `search.cancel()` from any thread
        if isinstance(event, Match): ...
        else: ...                   # SearchProgress, a few times a second and at the end

A batch that cannot be read is stepped over and counted, so that a search that was not complete says so.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from inspector.reading.through import Place, Step, Unread, Unreadable, places_of, steps
from kafkalog.scan.search import ALL_FIELDS, FieldName, Match, matches_in

if TYPE_CHECKING:
    from inspector.reading.partition import PartitionReader

PROGRESS_SECONDS = 0.05
_UNBOUNDED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far a search has come. unreadable: batches that were stepped over; first_unreadable: the first of them, in
    the order of the search, which `problem` tells of.

    complete: it has come to its end, and has read everything on the way.
    """

    reached_offset: int
    end_offset: int
    matches: int
    done_bytes: int = 0
    total_bytes: int = 0
    unreadable: int = 0
    problem: str | None = None
    first_unreadable: Unreadable | None = None
    finished: bool = False
    cancelled: bool = False

    @property
    def complete(self) -> bool:
        """Whether no record was left out."""
        return self.finished and not self.cancelled and not self.unreadable and self.problem is None


class Search:
    """One search over a partition, from `start` (None: all) to the end the log has now, or backwards to its start.

    Iterate it once, in a worker; it opens the files for itself.
    """

    def __init__(
        self,
        partition: PartitionReader,
        wanted: re.Pattern[bytes] | bytes,
        *,
        fields: Iterable[FieldName] = ALL_FIELDS,
        start: int | None = None,
        backwards: bool = False,
    ) -> None:
        state = partition.refresh_quietly()
        self._pattern = re.compile(re.escape(wanted)) if isinstance(wanted, bytes) else wanted
        self._fields = frozenset(fields)
        self._backwards = backwards
        self._unread = Unread()
        self._places = places_of(state, self._unread)
        log_start, log_end = state.log_start or 0, state.log_end
        # A file by itself tells its end only when it has been read through.
        self._low = log_start if backwards or start is None else start
        end = _UNBOUNDED if log_end is None else log_end
        # Damage may have cut short what the log's end is taken to be: bytes say where to stop.
        self._high = _UNBOUNDED if not backwards or start is None else start
        self._end = self._low if backwards else end
        self._reached = min(self._high, end) if backwards else self._low
        # Behind the last batch whose header was read.
        self._read_end = self._low
        self._total = sum(place.bytes for place in self._wanted_places())
        self._done = self._matches = 0
        self._cancelled = threading.Event()
        self._told = 0.0

    def cancel(self) -> None:
        """Have it end soon; from any thread."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether it was told to end."""
        return self._cancelled.is_set()

    def progress(self, *, finished: bool = False) -> SearchProgress:
        """How far it has come."""
        return SearchProgress(
            self._reached, self._end, self._matches, self._done, self._total, self._unread.batches,
            self._unread.problem, self._unread.first, finished, self.cancelled,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Match | SearchProgress]:
        before = 0
        # A regular expression may go back for ever in the first record.
        yield self._tell()
        for place in self._wanted_places():
            for step in steps(place, self._unread, first_offset=self._low, backwards=self._backwards):
                self._done = before + min(step.done_bytes, place.bytes)
                yield from self._matches_in(step)
                if self._cancelled.is_set():
                    break
                self._reach(step)
                if self._is_past(step, place):
                    break
                if time.monotonic() - self._told > PROGRESS_SECONDS:
                    yield self._tell()
            before += place.bytes
            if self._cancelled.is_set():
                break
        if not self._cancelled.is_set():
            if self._end == _UNBOUNDED:
                self._end = self._read_end
            self._reached, self._done = self._end, self._total
        yield self.progress(finished=True)

    def _tell(self) -> SearchProgress:
        self._told = time.monotonic()
        return self.progress()

    def _wanted_places(self) -> list[Place]:
        """The segments that can hold a wanted offset, in the order of the search."""
        bases = [place.base_offset for place in self._places]
        # Beside somebody who deletes there may be no segment at all.
        wanted = [
            place
            for place, (_, end) in zip(self._places, pairwise([*bases, _UNBOUNDED]), strict=True)
            if end > self._low and place.base_offset < self._high
        ]
        return wanted[::-1] if self._backwards else wanted

    def _reach(self, step: Step) -> None:
        if step.last_offset is None:
            return
        self._read_end = max(self._read_end, step.last_offset + 1)
        if not step.parts:
            return
        if self._backwards:
            self._reached = max(self._low, min(self._reached, step.last_offset))
        else:
            self._reached = min(self._end, max(self._reached, step.last_offset + 1))

    def _is_past(self, step: Step, place: Place) -> bool:
        if step.last_offset is None:
            return False
        if self._backwards:
            return step.last_offset <= self._low
        return step.done_bytes >= place.bytes

    def _matches_in(self, step: Step) -> Iterator[Match | SearchProgress]:
        for part in step.parts:
            if self._cancelled.is_set():
                return
            columns = part.columns.between(self._low, self._high)
            for match in matches_in(
                columns, self._pattern, self._fields,
                base_offset=part.base_offset, backwards=self._backwards, cancelled=self._cancelled.is_set,
            ):  # fmt: skip
                self._matches += 1
                yield match
                if self._cancelled.is_set():
                    return
