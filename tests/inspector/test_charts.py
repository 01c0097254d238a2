"""Charts out of characters, and what stands out in a text."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.inspector.charts import HEIGHT, bar, fitted, has_blocks, report
from kafkalog.inspector.columns import Times
from kafkalog.inspector.highlighting import Lines, json_marks, marks, spans
from kafkalog.inspector.tables import Mark
from kafkalog.scan.progress import Progress
from kafkalog.scan.statistics import CodecUse, Totals

TIMES = Times("utc", lambda: 1_800_000_000_000)
STATE = Totals(
    records=100,
    batches=4,
    null_keys=25,
    null_values=10,
    key_bytes=500,
    value_bytes=4_500,
    largest_value=2_000,
    times=tuple((1_700_000_000_000 + i * 1_000, count) for i, count in enumerate([1, 0, 99])),
    bucket_ms=1_000,
    sizes=((0, 5), (16, 80), (1024, 5)),
    codecs=(CodecUse("none", 1, 1_000, 1_000), CodecUse("zstd", 3, 1_000, 4_000)),
    top_keys=((b"order-1", 40), (b"\x1b[31m", 10)),
    key_error=2,
    progress=Progress(10, 10),
)


def test_a_narrow_report_has_times_sizes_codecs_nulls_and_keys() -> None:
    lines = report(STATE, TIMES, 75)
    text = "\n".join(lines)
    assert text.isascii()
    assert all(len(line) <= 75 for line in lines)
    assert "TIME  100 records; a column is 1 s; the highest 99" in text
    assert "2023-11-14 22:13:20 .. 2023-11-14 22:13:22" in text
    assert "mean 50 B, largest 2.0 KiB" in text
    assert re.search(r"16\.\.31 B \|#+ +80  88\.9%", text)
    assert re.search(r"512\.\.1023 B \| +0   0\.0%", text)
    assert re.search(r"zstd +3 +1000 B +3\.9 KiB +0\.25", text)
    assert "NULL  keys 25 (25.0%), values 10 (10.0%)" in text
    assert re.search(r"order-1 +\|#+ +40  40\.0%", text)
    assert "each may have up to 2 more" in text
    assert r"\x1b[31m" in text


def test_in_a_wide_terminal_both_halves_stand_side_by_side() -> None:
    lines = report(STATE, TIMES, 130)
    assert "CODECS" in lines[0]
    assert lines[0].startswith("TIME")
    assert all(len(line) <= 130 for line in lines)


def test_small_counts_are_visible_in_a_chart() -> None:
    columns = [line.partition("|")[2] for line in report(STATE, TIMES, 75, blocks=True)[1 : 1 + HEIGHT]]
    assert [column[0] for column in columns] == [" "] * (HEIGHT - 1) + ["▁"]
    assert [column[1:2] for column in columns] == [" "] * HEIGHT
    assert [column[2] for column in columns] == ["█"] * HEIGHT
    assert bar(0.0001, 10) == "#" + " " * 9
    assert bar(0, 10) == " " * 10


def test_nothing_counted_so_far_is_a_report_too() -> None:
    text = "\n".join(report(Totals(), TIMES, 80))
    assert "no record has a time" in text
    assert "no values" in text


@pytest.mark.parametrize(
    ("term", "encoding", "expected"), [("xterm", "utf-8", True), ("vt100", "utf-8", False), ("xterm", "ascii", False)]
)
def test_blocks_are_for_terminals_that_are_known_to_have_them(
    monkeypatch: pytest.MonkeyPatch, term: str, encoding: str, expected: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.__stdout__", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert has_blocks() is expected


@given(st.text(st.characters(exclude_categories=("C", "M", "Z")), max_size=30), st.integers(2, 20))
def test_a_fitted_line_is_as_wide_as_it_is_to_be(line: str, width: int) -> None:
    from rich.cells import cell_len

    shown = fitted(line, width)
    if all(character.isascii() for character in line):
        assert len(shown) == cell_len(shown) == width
    assert shown.startswith(line[:1] if len(line) <= 1 else "")


def test_matches_are_highlighted_by_characters_not_by_bytes() -> None:
    assert list(spans(re.compile("ö".encode()), "köl ö")) == [(1, 2), (4, 5)]
    assert marks(re.compile(b"b"), ("ab", "b", "b"), (0, 2)) == (Mark(0, 1, 2), Mark(2, 0, 1))


def test_an_empty_match_highlights_nothing_and_the_number_of_matches_in_a_row_is_limited() -> None:
    assert list(spans(re.compile(b"x*"), "aaa")) == []
    assert len(marks(re.compile(b"a"), ["a" * 1_000], [0])) == 20


def test_the_first_line_with_a_match_is_known() -> None:
    lines = Lines(["one", "two", "two"], re.compile(b"tw"), 80)
    assert lines.first == 1
    assert [row.marks for row in lines.rows(0, 9)] == [(), (Mark(0, 0, 2),), (Mark(0, 0, 2),)]
    assert [row.cells for row in lines.rows(1, 1)] == [("two",)]
    assert Lines(["one"], None, 80).first is None
    assert Lines(["one"], re.compile(b"x*"), 80).first is None


def test_a_long_line_takes_several_rows_and_a_match_is_marked_in_all_that_it_is_in() -> None:
    lines = Lines(["a" * 100_000, "b" * 78 + "needle" + "b" * 78, ""], re.compile(b"needle"), 80)
    assert len(lines) == 1250 + 3 + 1
    assert lines.first == 1250
    assert [row.marks for row in lines.rows(1249, 3)] == [(), (Mark(0, 78, 80),), (Mark(0, 0, 4),)]
    assert [lines.line_of(row) for row in (0, 1249, 1250, 1252, 1253)] == [0, 0, 1, 1, 2]


def test_wide_characters_are_wrapped_by_the_cells_that_they_take() -> None:
    assert [row.cells for row in Lines(["\u6f22" * 5], None, 4).rows(0, 9)] == [
        ("\u6f22" * 2,), ("\u6f22" * 2,), ("\u6f22",),
    ]  # fmt: skip


def test_the_parts_of_json_are_told_apart() -> None:
    line = r'  "a\"b": ["x", -1.5e3, null, true],'
    found = [(line[each.start : each.end], each.kind) for each in json_marks(line)]
    assert found == [
        (r'"a\"b"', "key"), ('"x"', "string"), ("-1.5e3", "number"), ("null", "word"), ("true", "word"),
    ]  # fmt: skip


def test_a_match_takes_the_place_of_the_part_of_json_that_it_is_in() -> None:
    rows = Lines(['{"a": "needle", "b": 1}'], re.compile(b"eed"), 80, is_json=True).rows(0, 1)
    assert rows[0].marks == (Mark(0, 8, 11), Mark(0, 1, 4, "key"), Mark(0, 16, 19, "key"), Mark(0, 21, 22, "number"))
