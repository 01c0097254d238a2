"""Search in the keys, values and headers of records.

found = matches_in(columns, pattern("order-17"), ALL_FIELDS)      a `Match` for each record with the text
Search(path, pattern("order-17"))                                 the same for all records of a partition
"""

import re
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from kafkalog.record.record_columns import RecordColumns
from kafkalog.scan.record_scan import RecordScan, Unreadable, extent_of
from kafkalog.storage.read.log_scan import NO_END

FieldName: TypeAlias = Literal["key", "value", "headers"]
ALL_FIELDS: frozenset[FieldName] = frozenset(("key", "value", "headers"))
EXCERPT_BYTES = 80
PROGRESS_SECONDS = 0.05
# Patterns that match a field wherever it stands, in time in proportion to the bytes: these are searched for in many
# records at once. Others have assertions, or repeat what may match all bytes, so that each match may be tried up to the
# last record.
_LOCAL = re.compile(rb"(?:\\[dsw]|(?:\\[^bBAZDSW]|[.)\]])(?![*+{])|\((?:\?:|(?!\?))|[^\\.()\]^$])*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Match:
    """A record that matches.

    Attributes:
        offset: The offset of the record.
        base_offset: The base offset of its segment.
        field: "key", "value" or "header <name>".
        span: Start and end of the match in the field, bytes.
        excerpt: A part of the field from shortly before the match on, at most EXCERPT_BYTES.
        excerpt_span: Start and end of the match in the excerpt, bytes.
    """

    offset: int
    base_offset: int
    field: str
    span: tuple[int, int]
    excerpt: bytes
    excerpt_span: tuple[int, int]


def pattern(text: str | bytes, *, regex: bool = False, case: bool = True) -> re.Pattern[bytes]:
    """Compile a text, or a regular expression over bytes.

    Args:
        text: The text or the regular expression; a str is encoded as UTF-8.
        regex: Whether it is a regular expression.
        case: Whether upper and lower case differ.

    Raises:
        ValueError: The regular expression is not valid; the message says where.
    """
    if regex:
        source = text.encode("utf-8") if isinstance(text, str) else text
        try:
            return re.compile(source, 0 if case else re.IGNORECASE)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"no regular expression: {error}") from None
    if isinstance(text, bytes):
        return re.compile(re.escape(text), 0 if case else re.IGNORECASE)
    return re.compile(b"".join(map(_escaped if case else _either, text)))


def _escaped(character: str) -> bytes:
    return re.escape(character.encode("utf-8", "surrogateescape"))


def _either(character: str) -> bytes:
    """Return a pattern for both cases of a character: for bytes, `re` knows the cases of ASCII only."""
    forms = sorted({character, character.lower(), character.upper()})
    return b"(?:" + b"|".join(map(_escaped, forms)) + b")" if len(forms) > 1 else _escaped(character)


def matches_in(
    columns: RecordColumns,
    wanted: re.Pattern[bytes],
    fields: frozenset[FieldName],
    *,
    base_offset: int = 0,
    backwards: bool = False,
) -> Iterator[Match]:
    """Find the records that match, one match each.

    Args:
        columns: The records.
        wanted: The pattern.
        fields: The fields to search.
        base_offset: The base offset of the segment of the records.
        backwards: Whether to begin with the last record.
    """
    if not len(columns):
        return
    offsets = columns.offset.tolist()
    candidates: Iterable[int] = range(len(columns))
    if _LOCAL.fullmatch(wanted.pattern) and wanted.search(b"") is None:
        candidates = _candidates(columns, wanted)
    for i in reversed(list(candidates)) if backwards else candidates:
        for name, data in _data_of(columns, i, fields):
            found = wanted.search(data)
            if found is not None:
                yield _match(offsets[i], base_offset, name, data, found.span())
                break


def _candidates(columns: RecordColumns, wanted: re.Pattern[bytes]) -> Iterator[int]:
    """Yield the indexes of the records in whose bytes, searched all at once, a match begins."""
    starts = (columns.key_start, columns.value_start, columns.headers_start)
    lengths = (columns.key_length, columns.value_length, columns.headers_length)
    reached = np.maximum.reduce([start + length for start, length in zip(starts, lengths, strict=True)])
    ends = np.maximum.accumulate(reached).tolist()
    end = i = 0
    while (found := wanted.search(columns.buffer, end)) is not None:
        i = bisect_right(ends, found.start(), i)
        if i == len(ends):
            return
        yield i
        end = ends[i]


def _data_of(columns: RecordColumns, i: int, fields: frozenset[FieldName]) -> Iterator[tuple[str, bytes]]:
    if "key" in fields and (key := columns.key(i)) is not None:
        yield "key", key
    if "value" in fields and (value := columns.value(i)) is not None:
        yield "value", value
    if "headers" in fields and columns.headers_length[i]:
        for name, value in columns.headers(i):
            yield f"header {name}", name.encode("utf-8", "surrogateescape")
            if value is not None:
                yield f"header {name}", value


def _match(offset: int, base_offset: int, name: str, data: bytes, span: tuple[int, int]) -> Match:
    start = max(0, span[0] - EXCERPT_BYTES // 4)
    excerpt = data[start : start + EXCERPT_BYTES]
    place = span[0] - start, min(span[1] - start, len(excerpt))
    return Match(offset, base_offset, name, span, excerpt, place)


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The progress of a search.

    Attributes:
        reached_offset: The offset that it has reached.
        end_offset: The offset where it ends; NO_END: unknown.
        matches: The number of matches so far.
        unreadable: The number of batches and of ranges of lost bytes that were skipped.
        problem: The first of them as text.
        first_unreadable: The first of them, in the order of the search.
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
    """A search in a partition or file, up to the end that it has now. Iterate it once.

    for event in Search(path, pattern("order-17")):
        ...                         # a `Match`, or a few times a second and at the end `SearchProgress`

    A batch that cannot be read is skipped and counted, so that an incomplete search says so.
    """

    def __init__(
        self,
        path: Path,
        wanted: re.Pattern[bytes],
        *,
        fields: frozenset[FieldName] = ALL_FIELDS,
        start: int | None = None,
        backwards: bool = False,
    ) -> None:
        """Note which files there are.

        Args:
            path: A partition directory or a segment file.
            wanted: The pattern.
            fields: The fields to search.
            start: The first offset, or if `backwards` the offset before which the search begins; None: all.
            backwards: Whether to search from high offsets to low ones.
        """
        extent = extent_of(path)
        self._wanted, self._fields, self._backwards = wanted, fields, backwards
        low = extent.log_start if backwards or start is None else start
        # Damage may hide the log end: the scan ends at the sizes of the files.
        high = NO_END if not backwards or start is None else start
        self._scan = RecordScan(extent, start=low, stop=high, backwards=backwards)
        self._end = low if backwards else extent.log_end
        self._reached = min(high, extent.log_end) if backwards else low
        self._matches = 0

    def progress(self, *, finished: bool = False) -> SearchProgress:
        """Return the progress."""
        unread, progress = self._scan.unread, self._scan.progress
        return SearchProgress(
            self._reached, self._end, self._matches, progress.done_bytes, progress.total_bytes, unread.places,
            unread.problem, unread.first, finished,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Match | SearchProgress]:
        # First, because a regular expression may backtrack for ever in the first record.
        yield self.progress()
        reported = time.monotonic()
        for columns in self._scan:
            base = self._scan.base_offset
            for match in matches_in(columns, self._wanted, self._fields, base_offset=base, backwards=self._backwards):
                self._matches += 1
                yield match
            if len(columns):
                first, last = columns.offset_span
                self._reached = min(self._reached, first) if self._backwards else max(self._reached, last + 1)
            if time.monotonic() - reported > PROGRESS_SECONDS:
                reported = time.monotonic()
                yield self.progress()
        if self._end == NO_END:
            self._end = self._scan.end_offset
        self._reached = self._end
        yield self.progress(finished=True)
