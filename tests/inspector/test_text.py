"""What is shown of sizes, times and other people's bytes: nothing that a terminal would obey, nothing made up."""

from __future__ import annotations

import base64
import json
import time
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.inspector import text
from tests.helpers.strategies import CHARACTERS


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, ""), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1024**2 - 1, "1.0 MiB"),
        (1024**3, "1.0 GiB"), (5 * 1024**4, "5.0 TiB"), (3 * 1024**5, "3.0 PiB"), (9000 * 1024**5, "9000.0 PiB"),
    ],
)  # fmt: skip
def test_sizes_are_in_the_largest_unit_that_fits(count: int | None, shown: str) -> None:
    assert text.size(count) == shown


def test_counts_have_their_thousands_apart() -> None:
    assert [text.number(each) for each in (None, 0, 1234567, -5000)] == ["", "0", "1,234,567", "-5,000"]


def test_rates_are_short() -> None:
    assert [text.rate(each) for each in (None, 0.0, 0.26, 12.6, 54321.0)] == ["", "0/s", "0.3/s", "13/s", "54,321/s"]


def test_times_are_shown_in_utc_in_the_zone_of_the_machine_relative_or_as_they_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        at = 1_700_000_000_007
        assert text.time(at) == "2023-11-14T22:13:20.007Z"
        assert text.time(at, "local") == "2023-11-15T03:43:20.007+05:30"
        assert text.time(at, "epoch") == "1700000000007"
        assert text.time(at, "relative", at + 200_000) == "3 min ago"
        assert text.time(at, "relative", at - 5_000) == "in 5 s"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("zone", get_args(text.Zone))
def test_no_time_is_too_far_away(zone: text.Zone) -> None:
    assert text.time(None, zone) == ""
    for timestamp in (0, -1, 2**63 - 1, -(2**63), 253_402_300_799_999, -62_135_596_800_000):
        assert text.time(timestamp, zone)


def test_durations_are_in_their_largest_unit() -> None:
    lengths = [None, 999, 59_999, 60_000, 3_600_000, 90_000_000]
    assert [text.duration(each) for each in lengths] == ["", "999 ms", "59 s", "1 min", "1 h", "1 d"]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, "(null)"), (b"null", "null"), (b"(null)", "\\(null)"), (b"(empty)", "\\(empty)"), (b"", ""),
        (b"plain", "plain"),
        ("größer".encode(), "größer"), (b"\x1b[31mred", "\\x1b[31mred"),
        (b"a\tb\nc\r", "a\\tb\\nc\\r"), (b"\xff\x00", "\\xff\\x00"), ("\u202eabc".encode(), "\\u202eabc"),
        ("\u2028".encode(), "\\u2028"), ("\U000e0001".encode(), "\\U000e0001"), (b"\xc2\x9b31m", "\\x9b31m"),
    ],
)  # fmt: skip
def test_control_characters_are_escaped(data: bytes | None, shown: str) -> None:
    assert text.printable(data) == shown


@given(
    data=st.binary(max_size=200)
    | st.text(CHARACTERS, max_size=200).map(lambda each: each.encode("utf-8", "surrogatepass"))
)
def test_no_view_has_a_character_that_cannot_be_printed(data: bytes) -> None:
    assert text.printable(data).isprintable()
    for view in text.VIEWS:
        assert all(line.isprintable() for line in text.shown(data, view))
    assert text.label(data, "auto")


def test_a_limit_cuts_the_text_and_adds_an_ellipsis() -> None:
    assert text.printable(b"abcdef", 4) == "abc…"
    assert text.printable(b"abcd", 4) == "abcd"
    assert len(text.printable(bytes(range(256)) * 1000, 50)) == 50


@pytest.mark.parametrize("mark", ["\u0301", "\u20dd", "\ufe0f", "\u1160"])
def test_accents_that_are_piled_up_are_escaped_but_the_first_few(mark: str) -> None:
    shown = text.printable(f"a{mark * 2}b{mark * 20_000}c".encode())
    assert shown.startswith(f"a{mark * 2}b{mark * text.MOST_PILED}\\u{ord(mark):04x}\\u")
    assert shown.count(mark) == 2 + text.MOST_PILED
    assert shown.endswith("c")


def test_json_is_broken_into_lines_and_nothing_else() -> None:
    data = b'{"n":1.10,"n":123456789012345678901234567890,"s":"\\u0041 \xc3\xa9","e":[],"t":true}'
    assert text.shown(data, "json") == [
        "{", '  "n": 1.10,', '  "n": 123456789012345678901234567890,', '  "s": "\\u0041 é",', '  "e": [],',
        '  "t": true', "}",
    ]  # fmt: skip
    assert text.label(data, "json") == "JSON, pretty; raw: v"
    assert text.shown(data, "utf8") == [data.decode()]


@given(
    value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(CHARACTERS), st.lists)
    | st.dictionaries(st.text(CHARACTERS), st.integers())
)
def test_pretty_json_means_what_the_bytes_mean(value: object) -> None:
    data = json.dumps(value, ensure_ascii=True).encode()
    assert json.loads("\n".join(text.shown(data, "json"))) == value


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"a": 1} x', b"nothing", b'{"a": "\xff"}', b"[" * 5000 + b"]" * 5000, b"12"]
)
def test_invalid_json_is_shown_as_text_and_labelled_so(data: bytes) -> None:
    assert text.label(data, "json") == "not JSON; as text"
    assert text.shown(data, "json") == text.shown(data, "utf8")


def test_a_value_too_long_for_json_is_labelled_so() -> None:
    data = b'["' + b"x" * text.JSON_BYTES + b'"]'
    assert text.label(data, "json") == "longer than 4.0 MiB, not looked at as JSON; as text"
    assert text.label(data[1:], "json") == "not JSON; as text"


def test_json_that_indenting_would_blow_up_is_left_as_it_is() -> None:
    deep = b"[" * 900 + b"1," * 300_000 + b"1" + b"]" * 900
    assert sum(map(len, text.shown(deep, "json", limit=2**30))) < 2 * len(deep)


def test_auto_is_json_then_text_then_hex() -> None:
    assert [text.resolved(each, "auto") for each in (b"[1]", b"a\nb", b"\x00\x01", b"")] == [
        "json",
        "utf8",
        "hex",
        "utf8",
    ]


def test_text_keeps_its_lines() -> None:
    assert text.shown(b"one\ntwo\r\n", "utf8") == ["one", "two\\r", ""]


def test_hex_has_positions_bytes_and_characters() -> None:
    assert text.shown(bytes(range(0x3E, 0x50)), "hex") == [
        "00000000  3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d  >?@ABCDEFGHIJKLM",
        "00000010  4e 4f                                            NO",
    ]
    assert text.hex_lines(b"\x1b", 0x1F0)[0].startswith("000001f0  1b ")


@given(data=st.binary(min_size=1, max_size=500))
def test_base64_is_the_bytes_again(data: bytes) -> None:
    assert base64.b64decode("".join(text.shown(data, "base64"))) == data


@pytest.mark.parametrize("view", ["utf8", "hex", "base64"])
def test_a_long_value_is_cut_and_the_rest_counted(view: text.View) -> None:
    lines = text.shown(b"x" * 1_000_000, view, limit=1000)
    assert lines[-1] == "… 999,000 bytes more are not shown"
    assert sum(map(len, lines)) < 10_000


def test_null_the_text_null_and_no_bytes_differ_in_every_view() -> None:
    for view in text.VIEWS:
        assert [text.shown(None, view), text.shown(b"", view)] == [["(null)"], ["(empty)"]]
    assert text.shown(b"null") == ["null"]


@pytest.mark.parametrize(
    ("data", "is_text"),
    [
        (b"red \x1b[31m", True), (b"a\x07bc", True), (b"\x07", False), (b"abcdefgh\0", False),
        (b"\x01\x02\x03abc", False),
    ],
)  # fmt: skip
def test_text_with_few_unprintable_characters_stays_text(data: bytes, is_text: bool) -> None:
    assert text.resolved(data, "auto") == ("utf8" if is_text else "hex")


@pytest.mark.parametrize(
    ("data", "label"),
    [
        ("größer\n".encode(), "UTF-8"), (b"", "UTF-8"), (b"a\x00\x1b", "UTF-8, control characters are escaped"),
        (b"a\tb", "UTF-8, control characters are escaped"), (b"a\xff", "not UTF-8: invalid bytes are escaped"),
        (b"a" * (1 << 20) + b"\xc3", "not UTF-8: invalid bytes are escaped"),
    ],
)  # fmt: skip
def test_the_text_view_tells_control_characters_from_invalid_utf8(data: bytes, label: str) -> None:
    assert text.label(data, "utf8") == label


def test_base64_is_one_line_that_the_screen_breaks() -> None:
    assert text.shown(bytes(300), "base64") == ["A" * 400]
