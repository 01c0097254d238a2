"""Which records match, and where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("^ab$", [1, 5]), (r"\bab\b", [1, 4, 5]), ("(?<!x)ab", [1, 2, 4, 5]), ("(?!xab)...", [2, 4]),
        (".*b$", [1, 3, 4, 5]), ("[^a]b", []), ("b", [1, 2, 3, 4, 5]), ("a(?:b|c)", [1, 2, 3, 4, 5]),
        ("(a)b", [1, 2, 3, 4, 5]), ("a?", [0, 1, 2, 3, 4, 5]), ("b?c", [2]), ("$", [0, 1, 2, 3, 4, 5]), ("aba", []),
        (r"\^", []), ("x|c", [2, 3]), (r"\s", [4]),
    ],
)  # fmt: skip
def test_a_regular_expression_sees_one_field_at_a_time(wanted: str, found: list[int]) -> None:
    values = [b"", b"ab", b"abc", b"xab", b"a ab", b"ab"]
    (columns,) = ByteBufferMessageSet.from_records(map(Record, values)).columns()
    for backwards in (False, True):
        matches = matches_in(columns, pattern(wanted, regex=True), ALL_FIELDS, backwards=backwards)
        assert [each.offset for each in matches] == (found[::-1] if backwards else found)


@given(
    values=st.lists(st.binary(max_size=4) | st.sampled_from([b"aa", b"ab", b"ba", None]), max_size=8),
    wanted=st.sampled_from(["a", "aa", "ab", "a+b", "[ab]", "a.", "a{2}", "b|aa", "a*", ".+", "(?:a|b)b"]),
)
def test_a_match_over_two_fields_is_none_and_hides_none(values: list[bytes | None], wanted: str) -> None:
    columns = list(ByteBufferMessageSet.from_records([Record(each, each) for each in values]).columns())
    expression = pattern(wanted, regex=True)
    matches = [each.offset for part in columns for each in matches_in(part, expression, ALL_FIELDS)]
    assert matches == [i for i, each in enumerate(values) if each is not None and expression.search(each)]
