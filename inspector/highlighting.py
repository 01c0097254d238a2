"""What of a text on the screen stands out: matches of a search, and the parts of JSON. No Textual here."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from rich.cells import chop_cells

from .tables import Mark, Row

# Enough for a row; a pattern may match at every place.
MOST = 20
# A line is searched this far beyond what is seen of it, for matches and JSON strings that go beyond.
BEYOND = 200
_JSON = re.compile(r'(?P<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<string>"(?:[^"\\]|\\.)*")|'
                   r"(?P<number>-?\d[\d.eE+-]*)|(?P<word>true|false|null)")  # fmt: skip


def marks(pattern: re.Pattern[bytes], cells: Sequence[str], which: Iterable[int]) -> tuple[Mark, ...]:
    """Return where the pattern matches in some of the cells, in what is seen of them."""
    return tuple(Mark(i, start, end) for i in which for start, end in islice(spans(pattern, cells[i]), MOST))


def json_marks(line: str) -> list[Mark]:
    """Return the keys, strings, numbers and words of a line of JSON."""
    return [Mark(0, *found.span(), found.lastgroup or "") for found in _JSON.finditer(line)]


def spans(pattern: re.Pattern[bytes], shown: str) -> Iterator[tuple[int, int]]:
    """Yield the matches in characters. Text is matched as UTF-8, as search does; escaped characters do not match."""
    data = shown.encode("utf-8", "surrogatepass")
    for match in pattern.finditer(data):
        start, end = match.span()
        if start < end:
            yield _characters(data[:start]), _characters(data[:end])


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "ignore"))


def wrapped(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a line, in characters, that fit into so many cells of the terminal; at least one."""
    if line.isascii():
        yield from ((start, min(start + width, len(line))) for start in range(0, len(line) or 1, width))
        return
    start = 0
    for piece in chop_cells(line, width):
        yield start, start + len(piece)
        start += len(piece)


class Lines:
    """Lines of a text as rows, long lines in several of them; what stands out is searched when a row is asked for.

    Attributes:
        lines: The lines.
        first: The first row with a match; None: no row has one.
    """

    def __init__(
        self, lines: Sequence[str], pattern: re.Pattern[bytes] | None, width: int, *, is_json: bool = False
    ) -> None:
        """Break the lines.

        Args:
            lines: The lines.
            pattern: What matches; None: nothing.
            width: The largest width of a row, cells.
            is_json: Whether the lines are JSON.
        """
        self.lines = lines
        self._pattern = pattern
        self._is_json = is_json
        self._rows = [(i, *span) for i, line in enumerate(lines) for span in wrapped(line, width)]
        self.first = None if pattern is None else self._first_with(pattern)

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, first: int, count: int) -> Sequence[Row]:
        """Return at most `count` rows from `first` on."""
        return [self._row(*each) for each in self._rows[first : first + count]]

    def line_of(self, row: int) -> int:
        """Return the number of the line that a row is of."""
        return self._rows[row][0]

    def _first_with(self, pattern: re.Pattern[bytes]) -> int | None:
        for i, line in enumerate(self.lines):
            for start, _ in spans(pattern, line):
                return bisect_right(self._rows, (i, start, len(line))) - 1
        return None

    def _row(self, number: int, start: int, end: int) -> Row:
        line = self.lines[number]
        begin = max(0, start - BEYOND)
        seen = line[begin : end + BEYOND]
        matches = [] if self._pattern is None else [Mark(0, *span) for span in spans(self._pattern, seen)]
        parts = json_marks(seen) if self._is_json else []
        parts = [
            each for each in parts if not any(each.start < match.end and match.start < each.end for match in matches)
        ]
        moved = (
            Mark(0, max(each.start + begin - start, 0), min(each.end + begin, end) - start, each.kind)
            for each in (*matches, *parts)
        )
        return Row((line[start:end],), marks=tuple(each for each in moved if each.start < each.end))
