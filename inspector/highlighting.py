"""What of a text on the screen matches what was searched for. No Textual here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from .tables import Mark, Row

# Enough for a row; a pattern may match at every place.
MOST = 20


def marks(pattern: re.Pattern[bytes], cells: Sequence[str], which: Iterable[int]) -> tuple[Mark, ...]:
    """Where in some of the cells the pattern matches what is seen."""
    return tuple((i, start, end) for i in which for start, end in spans(pattern, cells[i]))


def spans(pattern: re.Pattern[bytes], shown: str) -> Iterator[tuple[int, int]]:
    """In characters. Text is matched as UTF-8, as search does it; what was escaped to be shown does not match."""
    data = _encoded(shown)
    for match in islice(pattern.finditer(data), MOST):
        start, end = match.span()
        if start < end:
            yield _characters(data[:start]), _characters(data[:end])


def _encoded(shown: str) -> bytes:
    return shown.encode("utf-8", "surrogatepass")


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "ignore"))


class Lines:
    """A source of a row a line; what matches in a line is looked for when the line is asked for.

    width: characters of a line that are shown at most. first: the first line that matches; looking for it takes as
    long as there are lines.
    """

    def __init__(self, lines: Sequence[str], pattern: re.Pattern[bytes] | None, width: int) -> None:
        self._lines = lines
        self._pattern = pattern
        self._width = width
        self.first = next((i for i, line in enumerate(lines) if _matches(pattern, line)), None) if pattern else None

    def rows(self, first: int, count: int) -> Sequence[Row]:
        """As in `Source`."""
        # One more tells that there are more.
        shown = [line[: self._width + 1] for line in self._lines[first : first + count]]
        if self._pattern is None:
            return [Row((line,)) for line in shown]
        return [Row((line,), marks=marks(self._pattern, (line,), (0,))) for line in shown]


def _matches(pattern: re.Pattern[bytes], line: str) -> bool:
    return any(start < end for start, end in (each.span() for each in pattern.finditer(_encoded(line))))
