"""Search in the keys, values and headers of records.

found = matches_in(columns, pattern("order-17"), ALL_FIELDS)      a `Match` for each record that has it
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kafkalog.record.record_columns import RecordColumns

FieldName: TypeAlias = Literal["key", "value", "headers"]
ALL_FIELDS: frozenset[FieldName] = frozenset(("key", "value", "headers"))
EXCERPT_BYTES = 80
# In so many bytes at most the whole buffer is searched first.
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Match:
    """A record that matches.

    Attributes:
        offset: Of the record.
        base_offset: Of its segment.
        field: "key", "value" or "header <name>".
        span: Start and end of the match in the field, bytes.
        excerpt: Of the field, with the match in it.
        excerpt_span: Start and end of the match in the excerpt.
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
        text: What to search for; a str is taken as UTF-8.
        regex: Whether it is a regular expression.
        case: Whether upper and lower case differ.

    Raises:
        ValueError: It is no regular expression; the error says where.
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
    """Return a pattern for both cases of a character: in bytes, `re` knows only those of ASCII."""
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
        fields: Where to look for it.
        base_offset: Of the segment that the records are in.
        backwards: Whether to begin with the last record.
        cancelled: Asked after each record; True ends the search.
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
