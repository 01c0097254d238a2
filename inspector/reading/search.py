"""Search over keys, values and headers: matches as they are found, how far it has come, and whether that was all.

    search = Search(partition, pattern("order-17"))
    for event in search:
        if isinstance(event, Match): ...
        else: ...                   # SearchProgress, a few times a second and at the end

A batch that cannot be read is stepped over and counted, so that a search that was not complete says so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inspector.reading.record_scan import RecordScan, Unreadable
from kafkalog.scan.search import ALL_FIELDS, FieldName, Match, matches_in
from kafkalog.storage.read.log_scan import NO_END

if TYPE_CHECKING:
    from inspector.reading.partition import PartitionReader

PROGRESS_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far a search has come.

    Attributes:
        end_offset: Where it ends; NO_END while that is unknown.
        unreadable: The number of batches and stretches of bytes that were stepped over.
        problem, first_unreadable: The first of them, in the order of the search.
        finished: Whether it has come to its end.
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

    @property
    def complete(self) -> bool:
        """Whether no record was left out."""
        return self.finished and not self.unreadable and self.problem is None


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
        log_start = state.log_start or 0
        low = log_start if backwards or start is None else start
        # Damage may have cut short what the log's end is taken to be: bytes say where to stop.
        high = NO_END if not backwards or start is None else start
        self._scan = RecordScan(state, start=low, stop=high, backwards=backwards)
        # A file by itself tells its end only when it has been read through.
        end = NO_END if state.log_end is None else state.log_end
        self._end = low if backwards else end
        self._reached = min(high, end) if backwards else low
        self._matches = 0

    def progress(self, *, finished: bool = False) -> SearchProgress:
        """How far it has come."""
        scan = self._scan
        return SearchProgress(
            self._reached, self._end, self._matches, scan.done_bytes, scan.total_bytes, scan.unread.places,
            scan.unread.problem, scan.unread.first, finished,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Match | SearchProgress]:
        # A regular expression may go back for ever in the first record.
        yield self.progress()
        told = time.monotonic()
        for columns in self._scan:
            base = self._scan.base_offset
            for match in matches_in(
                columns, self._pattern, self._fields, base_offset=base, backwards=self._backwards
            ):  # fmt: skip
                self._matches += 1
                yield match
            if len(columns):
                first, last = columns.offset_span
                self._reached = min(self._reached, first) if self._backwards else max(self._reached, last + 1)
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                yield self.progress()
        if self._end == NO_END:
            self._end = self._scan.end_offset
        self._reached = self._end
        yield self.progress(finished=True)
