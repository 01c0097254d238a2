"""Which records match, and where."""

from __future__ import annotations

import pytest

from kafkalog import ByteBufferMessageSet, Record
from kafkalog.scan.search import ALL_FIELDS, FieldName, matches_in, pattern


def test_patterns_are_literal_or_regular_expressions_with_or_without_case() -> None:
    assert pattern("a.b").search(b"a.b")
    assert not pattern("a.b").search(b"axb")
    assert pattern("a.b", regex=True).search(b"axb")
    assert pattern("ÄPFEL", case=False).search("äpfel".encode())
    assert not pattern("ÄPFEL").search("äpfel".encode())
    assert pattern("a+B", regex=True, case=False).search(b"AAb")
    assert pattern(b"\xff\x00").search(b"..\xff\x00..")
    with pytest.raises(ValueError, match="no regular expression"):
        pattern("(", regex=True)


@pytest.mark.parametrize(
    ("wanted", "fields", "found"),
    [
        (b"x", ALL_FIELDS, [(0, "key"), (1, "value"), (2, "header x"), (3, "header h")]),
        (b"x", {"value"}, [(1, "value")]),
        (b"x", {"headers"}, [(2, "header x"), (3, "header h")]),
        (b"none has this", ALL_FIELDS, []),
    ],
)
def test_each_record_that_matches_is_found_once(
    wanted: bytes, fields: set[FieldName], found: list[tuple[int, str]]
) -> None:
    records = [
        Record(b"v", b"x"), Record(b"..x", b"k"), Record(None, None, [("x", b"x")]), Record(None, None, [("h", b"x")]),
    ]  # fmt: skip
    (columns,) = ByteBufferMessageSet.from_records(records).columns()
    for backwards in (False, True):
        matches = list(matches_in(columns, pattern(wanted), frozenset(fields), base_offset=7, backwards=backwards))
        assert [(each.offset, each.field) for each in matches] == (found[::-1] if backwards else found)
        assert {each.base_offset for each in matches} <= {7}


def test_a_search_ends_when_it_is_cancelled() -> None:
    (columns,) = ByteBufferMessageSet.from_records([Record(b"x")] * 10).columns()
    assert len(list(matches_in(columns, pattern("x"), ALL_FIELDS, cancelled=lambda: True))) == 1
