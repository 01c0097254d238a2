"""Search in the keys, values and headers of records.

found = matches_in(columns, pattern("order-17"), ALL_FIELDS)      a `Match` for each record with the text
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kafkalog.record.record_columns import RecordColumns

FieldName: TypeAlias = Literal["key", "value", "headers"]
ALL_FIELDS: frozenset[FieldName] = frozenset(("key", "value", "headers"))
EXCERPT_BYTES = 80
# Up to this size the whole buffer is searched first, before its records.
_BUFFER_BYTES = 1 << 20


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
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Match]:
    """Find the records that match, one match each.

    Args:
        columns: The records.
        wanted: The pattern.
        fields: The fields to search.
        base_offset: The base offset of the segment of the records.
        backwards: Whether to begin with the last record.
        cancelled: Called after each record; True ends the search.
    """
    if not len(columns) or (columns.buffer.nbytes <= _BUFFER_BYTES and wanted.search(columns.buffer) is None):
        return
    offsets = columns.offset.tolist()
    for i in range(len(columns) - 1, -1, -1) if backwards else range(len(columns)):
        for name, data in _data_of(columns, i, fields):
            found = wanted.search(data)
            if found is not None:
                yield _match(offsets[i], base_offset, name, data, found.span())
                break
        if cancelled():
            return


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
