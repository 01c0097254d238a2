"""What of a text on the screen matches what was searched for. No Textual here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from inspector.rows import Mark, Row

# Enough for a row; a pattern may match at every place.
MOST = 20


def marks(pattern: re.Pattern[bytes], cells: Sequence[str], which: Iterable[int]) -> tuple[Mark, ...]:
    """Where in some of the cells the pattern matches what is seen."""
    return tuple((i, start, end) for i in which for start, end in spans(pattern, cells[i]))


def spans(pattern: re.Pattern[bytes], shown: str) -> Iterator[tuple[int, int]]:
    """In characters. Text is matched as UTF-8, as search does it; what was escaped to be shown does not match."""
    data = shown.encode("utf-8", "surrogatepass")
    for match in islice(pattern.finditer(data), MOST):
        start, end = match.span()
        if start < end:
            yield _characters(data[:start]), _characters(data[:end])


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "ignore"))


def rows_of(lines: Sequence[str], pattern: re.Pattern[bytes] | None) -> tuple[list[Row], int | None]:
    """A row a line, and the first that matches."""
    if pattern is None:
        return [Row((line,)) for line in lines], None
    rows = [Row((line,), marks=marks(pattern, (line,), (0,))) for line in lines]
    return rows, next((i for i, row in enumerate(rows) if row.marks), None)
