"""Rows of tables, where they come from; values of the model as such rows, sorted and filtered. No Textual here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

# Sorting and filtering hold a number a row, and read each row once more whenever it is seen.
MOST_ARRANGED = 200_000
STEP = 2_000
TONES = ("plain", "muted", "warning", "damaged", "control", "aborted", "transactional")
MARKS = ("match", "key", "string", "number", "word", "good")


class Mark(NamedTuple):
    """Characters [start, end) of a cell that stand out as a match, as a part of JSON or as good; kind is in MARKS."""

    cell: int
    start: int
    end: int
    kind: str = "match"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: The title.
        width: The width; the least one of a column with a share.
        right: Whether its cells are aligned to the right.
        share: Its share of the room that other columns leave.
        aside: Whether it may be beyond the right edge, for the benefit of columns with a share.
        keeps_end: Whether a text that is too long is cut in its middle, as its end tells it from others.
    """

    title: str
    width: int
    right: bool = field(default=False, kw_only=True)
    share: int = field(default=0, kw_only=True)
    aside: bool = field(default=False, kw_only=True)
    keeps_end: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Row:
    """A row: texts that are safe to show. tone: one of TONES; symbol: says the same without colour.

    marks: what of the cells stands out.
    """

    cells: tuple[str, ...]
    tone: str = "plain"
    symbol: str = " "
    marks: tuple[Mark, ...] = ()


# Returns at most so many rows from a row on. Called in the thread of the table's desk, if it has one.
ReadRows: TypeAlias = Callable[[int, int], Sequence[Row]]


def in_memory(rows: Iterable[Row]) -> ReadRows:
    """Return what reads rows that are all there."""
    all_rows = list(rows)
    return lambda first, count: all_rows[first : first + count]


def arranged(read: ReadRows, order: Sequence[int]) -> ReadRows:
    """Return what reads some of the rows, in an order of their own: row i is row `order[i]`."""
    return lambda first, count: [row for i in order[first : first + count] for row in read(i, 1)]


@dataclass(frozen=True, slots=True)
class Shown(Column, Generic[T]):
    """A column of values.

    Attributes:
        cell: Returns the text of a value.
        key: Returns what a value is sorted by, None is least; by default the text.
    """

    cell: Callable[[T], str]
    key: Callable[[T], Any] | None = None

    def sort_key(self, item: T) -> tuple[bool, Any]:
        """Return what a value is sorted by; unknown ones come first."""
        value = (self.key or self.cell)(item)
        return value is not None, value if value is not None else 0


class ItemSource(Generic[T]):
    """Rows out of what `read(first, count)` gives. look: tone and symbol of a row. marks: what stands out in one."""

    def __init__(
        self,
        read: Callable[[int, int], Sequence[T]],
        shown: Sequence[Shown[T]],
        look: Callable[[T], tuple[str, str]],
        marks: Callable[[T, tuple[str, ...]], tuple[Mark, ...]] | None = None,
    ) -> None:
        self.read = read
        self.shown = shown
        self._look = look
        self._marks = marks

    def rows(self, first: int, count: int) -> Sequence[Row]:
        """Return at most `count` rows from `first` on."""
        return [self.row(item) for item in self.read(first, count)]

    def row(self, item: T) -> Row:
        """Return an item as a row."""
        cells = tuple(each.cell(item) for each in self.shown)
        tone, symbol = self._look(item)
        return Row(cells, tone, symbol, () if self._marks is None else self._marks(item, cells))


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What the user wants to see, and in which order. column None: as they come; text "": all."""

    column: int | None = None
    reverse: bool = False
    text: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether it changes nothing."""
        return self.column is None and not self.text


def matching(source: ItemSource[T], wanted: Arrangement, first: int, count: int) -> list[tuple[Any, int]]:
    """Return what rows that match are sorted by, and their numbers; in a worker's thread, some rows at a time."""
    text, column = wanted.text.casefold(), wanted.column
    return [
        (None if column is None else source.shown[column].sort_key(item), i)
        for i, item in enumerate(source.read(first, count), first)
        if not text or any(text in cell.casefold() for cell in source.row(item).cells)
    ]


def in_order(found: list[tuple[Any, int]], wanted: Arrangement) -> list[int]:
    """Return the numbers of matching rows in order; rows with the same key stay as they come."""
    if wanted.column is not None:
        found.sort(key=lambda each: each[0], reverse=wanted.reverse)
    return [row for _, row in found]
