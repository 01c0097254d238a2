"""What may be typed after `:`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkalog.inspector.columns import Times
from kafkalog.inspector.model.types import Byte, Offset, PartitionState, SegmentRow, Target, Time
from kafkalog.inspector.partition.goto import target_of
from kafkalog.inspector.partition.navigation import not_found

NOW = 1_700_000_000_000
STATE = PartitionState("t-0", Path("t-0"), log_start=100, log_end=1_000)


def typed(text: str) -> Target:
    return target_of(text, STATE, 64, Times("utc", lambda: NOW))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("1,042", Offset(1042)), ("start", Offset(100)), ("end", Offset(999)), ("end-10", Offset(990)),
        ("+0x10", Byte(16, 64)), ("end-2000", Offset(0)), ("@1769853600000", Time(1_769_853_600_000)),
        ("@20231114", Time(1_699_920_000_000)), ("@-1h", Time(NOW - 3_600_000)),
        ("@-5min", Time(NOW - 300_000)),
        ("@2023-11-14T22:13:20", Time(NOW)), (" @2023-11-14T23:13:20+01:00 ", Time(NOW)),
    ],
)  # fmt: skip
def test_offsets_ends_times_and_bytes_are_targets(text: str, target: Target) -> None:
    assert typed(text) == target


@pytest.mark.parametrize(
    "text", ["", "x", "end+1", "@-1y", "@2023-13-01", "+", "start-1", "@2023", "@1700000000", "@-5"]
)
def test_another_input_is_an_error_that_lists_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="expected an offset, start, end, end-10, @time"):
        typed(text)


def test_a_time_after_the_newest_record_is_answered_with_its_time_and_an_offset_with_the_offsets() -> None:
    rows = tuple(SegmentRow(base, Path("t-0/x.log"), 1, sealed=True, last_timestamp=NOW - base) for base in (0, 64))
    state = replace(STATE, segments=rows)
    times = Times("utc", lambda: NOW)
    assert not_found(Time(NOW + 1), state, times) == "no such time: the newest record is of 2023-11-14T22:13:20.000Z"
    assert not_found(Offset(-1), state, times) == "no such offset: the log has the offsets 100 to 999"
