"""Search in the keys, values and headers of records.

found = matches_in(columns, pattern("order-17"), ALL_FIELDS)      a `Match` for each record with the text
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from kafkalog.record.record_columns import RecordColumns

FieldName: TypeAlias = Literal["key", "value", "headers"]
ALL_FIELDS: frozenset[FieldName] = frozenset(("key", "value", "headers"))
EXCERPT_BYTES = 80
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
