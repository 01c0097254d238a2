"""The watermarks stand on the bar where their offsets are."""

from __future__ import annotations

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog.inspector.widgets.watermark_bar import Watermarks, bar, legend


def test_each_letter_stands_where_its_offset_is() -> None:
    assert bar(Watermarks(0, 25, 50, 75, 100), 21) == "S====R====L----H....E"


def test_an_empty_log_is_its_end() -> None:
    assert bar(Watermarks(7, 7, 7, 7, 7), 5) == "E...."


def test_unknown_watermarks_are_not_drawn() -> None:
    assert bar(Watermarks(), 10) == ""
    assert bar(Watermarks(0, None, None, None, 10), 11) == "S---------E"
    assert "?" in legend(Watermarks(), 80)


def test_watermarks_outside_the_log_stand_at_the_border() -> None:
    assert bar(Watermarks(100, 0, 100, 200, 200), 11) == "S---------E"


def test_the_legend_uses_as_many_words_as_have_room() -> None:
    marks = Watermarks(0, 1, 2, 3, 4_000)
    assert legend(marks, 120) == (
        "S 0 log start   R 1 recovery point   L 2 last stable   H 3 high watermark   E 4,000 log end"
    )
    assert legend(marks, 70) == "S 0 start   R 1 recovery   L 2 stable   H 3 high   E 4,000 end"
    assert legend(marks, 40) == "S 0   R 1   L 2   H 3   E 4,000"


@pytest.mark.parametrize("width", [0, 1, 2, 7])
def test_a_bar_is_never_longer_than_its_room(width: int) -> None:
    assert len(bar(Watermarks(0, 1, 2, 3, 1 << 62), width)) == width
