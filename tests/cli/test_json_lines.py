"""The fast way to a line of JSON and the plain one give the same bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, RecordColumns, TopicPartition
from kafkalog._speedups.json_lines import json_lines
from kafkalog.cli.json_lines import JsonLines, for_terminal
from tests.reference.encode import PlainRecord, V2Batch

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\/\n\t\x00\x1f\x7f\x9bü√\U0001f600'))
payloads = st.none() | texts.map(str.encode)
any_payloads = payloads | st.binary(max_size=12)
places = st.none() | st.builds(TopicPartition, st.text('ab.-_"ü', max_size=5), st.integers(0, 2**31 - 1))


def made(key: bytes | None, value: bytes | None, offset: int = 0, timestamp: int = 1000) -> RecordColumns:
    return columns([PlainRecord(offset, timestamp, key, value)])


def columns(records: list[PlainRecord]) -> RecordColumns:
    (part,) = ByteBufferMessageSet(V2Batch(records).encoded()).columns()
    return part


def both(part: RecordColumns, place: TopicPartition | None = None) -> tuple[bytes, bytes]:
    lines = JsonLines(place, 'a "file"')
    return b"".join(lines.records(part)), b"".join(lines.record_list(list(part), control=False))


@given(st.lists(st.tuples(payloads, payloads), min_size=1, max_size=4), places)
def test_text_without_headers(pairs: list[tuple[bytes | None, bytes | None]], place: TopicPartition | None) -> None:
    part = columns([PlainRecord(i, 1000 + i, key, value) for i, (key, value) in enumerate(pairs)])
    quick, plain = both(part, place)
    assert quick == plain


@given(st.lists(st.tuples(any_payloads, any_payloads), min_size=1, max_size=4))
def test_any_bytes(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    part = columns([PlainRecord(i, 1000 + i, key, value) for i, (key, value) in enumerate(pairs)])
    quick, plain = both(part)
    assert quick == plain


@given(any_payloads, st.lists(st.tuples(texts.map(str.encode), any_payloads), max_size=3))
def test_headers(value: bytes | None, headers: list[tuple[bytes, bytes | None]]) -> None:
    quick, plain = both(columns([PlainRecord(0, 1000, None, value, headers)]))
    assert quick == plain


@given(st.lists(st.tuples(texts.map(str.encode), payloads), max_size=40))
def test_headers_of_text(headers: list[tuple[bytes, bytes | None]]) -> None:
    part = columns([PlainRecord(i, 1000, b"k", b"v", headers[i:]) for i in range(3)])
    quick, plain = both(part)
    assert quick == plain
    assert JsonLines(None, "file")._by_kernel(part, "CreateTime") is not None


def test_the_longest_escapes_of_headers_fit() -> None:
    for headers in ([(b"", b"")] * 2000, [(b"\x01" * 500, b"\x02" * 500)] * 20, [(b"\x01", None)] * 2000):
        quick, plain = both(columns([PlainRecord(0, 1000, None, None, headers)] * 3))
        assert quick == plain


@given(st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_numbers(offset: int, timestamp: int) -> None:
    quick, plain = both(made(None, None, offset, timestamp))
    assert quick == plain


def test_every_kind_of_character() -> None:
    for char in (*range(0x100), 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF):
        text = f"a{chr(char)}b"
        quick, plain = both(made(text.encode(), text.encode() * 40))
        assert quick == plain, hex(char)
        assert json.loads(quick)["key"] == text


def test_control_characters_are_escaped_for_a_terminal() -> None:
    (line,) = JsonLines(None, "file").records(made(b"\x7f\x1b[31m", "\x9b\u202eü\U000e0001".encode()))
    shown = for_terminal(line).decode()
    assert shown[:-1].isprintable()
    assert json.loads(shown) == json.loads(line)
    assert for_terminal(b'"plain"\n') == b'"plain"\n'


INVALID_UTF_8 = """
    80 bf c080 c1bf c2 c241 e0 e08080 e09fbf e18041 e182 eda080 edbfbf ee80
    f0808080 f08fbfbf f0908080f0 f18080 f1808041 f4908080 f5808080 fe ff
"""


def test_invalid_utf_8_becomes_base64() -> None:
    for bad in INVALID_UTF_8.split():
        quick, plain = both(made(b"k", b"text " + bytes.fromhex(bad)))
        assert quick == plain, bad
        assert json.loads(quick)["value_encoding"] == "base64"


PIECES = ("key", "value", "headers")


def test_a_piece_outside_the_buffer_is_refused() -> None:
    one, none = np.array([1]), np.array([-1])
    for start, length in [
        (np.array([3]), np.array([2])),
        (np.array([-1]), one),
        (one, np.array([2**62])),
        (one, one[:0]),
    ]:
        for name in PIECES:
            pieces = {f"{each}_start": one for each in PIECES} | {f"{each}_length": none for each in PIECES}
            pieces |= {f"{name}_start": start, f"{name}_length": length}
            with pytest.raises(ValueError, match=r"outside the buffer|lengths"):
                json_lines(b"abcd", one, one, **pieces, head=b"{", label=b"CreateTime")
    with pytest.raises(ValueError, match="timestamps"):
        json_lines(b"abcd", one, one[:0], one, none, one, none, one, none, b"{", b"CreateTime")
    no = one[:0]
    assert json_lines(b"", no, no, no, no, no, no, no, no, b"{", b"") == b""
