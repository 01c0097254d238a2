"""The fast way to a line of JSON and the plain one give the same bytes."""

from __future__ import annotations

import json
from base64 import b64encode

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, RecordColumns, TopicPartition
from kafkalog._speedups.json_lines import json_lines
from kafkalog.cli.json_lines import Array, JsonLines, _producers_of, for_terminal
from kafkalog.cli.output import LARGE_BYTES, PIECE_BYTES
from kafkalog.cli.text_lines import TextLines
from tests.helpers.strategies import CHARACTERS
from tests.reference.encode import PlainRecord, V2Batch

texts = st.text(CHARACTERS | st.sampled_from('"\\/\n\t\x00\x1f\x7f\x9bü√\U0001f600'))
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
    states = np.arange(len(part), dtype=np.uint8) % 5
    return b"".join(lines.records(part, states)), b"".join(lines.record_list(part, states))


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
    assert (
        JsonLines(None, "file")._by_kernel(part, "CreateTime", _producers_of(part, np.zeros(3, np.uint8))) is not None
    )


def test_the_longest_escapes_of_headers_fit() -> None:
    for headers in ([(b"", b"")] * 2000, [(b"\x01" * 500, b"\x02" * 500)] * 20, [(b"\x01", None)] * 2000):
        quick, plain = both(columns([PlainRecord(0, 1000, None, None, headers)] * 3))
        assert quick == plain


@given(st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_numbers(offset: int, timestamp: int) -> None:
    quick, plain = both(made(None, None, offset, timestamp))
    assert quick == plain


@given(st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1))
def test_producers(producer_id: int, epoch: int, sequence: int) -> None:
    records = [PlainRecord(i, 1000, None, b"v") for i in range(7)]
    batch = V2Batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    (part,) = ByteBufferMessageSet(batch.encoded()).columns()
    quick, plain = both(part)
    assert quick == plain
    assert (b"transaction_state" in quick) == (producer_id >= 0)


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


@pytest.mark.parametrize(
    "value",
    ['\x01"ü√\U0001f600'.encode() * (LARGE_BYTES // 10), b"\xff" * (LARGE_BYTES + 2), bytes(LARGE_BYTES) + b"\xff"],
)
def test_a_large_record_is_written_in_pieces_which_make_the_same_line(value: bytes) -> None:
    headers = [(b"k\n", value), (b"n", None), (b"e", b"")]
    part = columns([PlainRecord(i, 1000, b"key", value if i == 1 else b"v", headers[i:]) for i in range(3)])
    pieces = list(JsonLines(None, "file").records(part))
    assert max(map(len, pieces)) <= 8 * PIECE_BYTES
    lines = b"".join(pieces).splitlines(keepends=True)
    whole = [msgspec.json.encode(json.loads(line)) + b"\n" for line in lines]
    assert lines == whole
    encoding, text = ("base64", b64encode(value).decode()) if b"\xff" in value else (None, value.decode())
    second = json.loads(lines[1])
    assert (second["offset"], second["value"], second.get("value_encoding")) == (1, text, encoding)
    assert json.loads(lines[0])["headers"][0]["value"] == text
    array = Array()
    document = b"".join([*map(array.take, pieces), array.end()])
    assert json.loads(document) == list(map(json.loads, lines))
    for_a_terminal = b"".join(map(for_terminal, pieces))
    assert json.loads(for_a_terminal.splitlines()[1]) == second


@pytest.mark.slow
@pytest.mark.parametrize("value", ["ü\n√".encode() * LARGE_BYTES, b"\xff" * (LARGE_BYTES + 1)])
@pytest.mark.parametrize("max_width", [0, 10, 3 << 16, 1 << 21])
def test_a_large_record_as_text_is_what_a_small_one_would_be(value: bytes, max_width: int) -> None:
    part = columns([PlainRecord(i, 1000, None, value if i else b"v") for i in range(2)])
    pieces = list(TextLines("", max_width=max_width).records(part))
    assert max(map(len, pieces)) <= 8 * PIECE_BYTES
    text = value.hex() if value[:1] == b"\xff" else value.decode().replace("\n", "\\n")
    mark = "<hex> " if value[:1] == b"\xff" else ""
    cut = text[: max_width or None] + (f"… (+{len(text) - max_width})" if 0 < max_width < len(text) else "")
    assert (
        b"".join(pieces)
        .decode()
        .endswith(f"  value  v\noffset 1  1970-01-01T00:00:01.000Z CreateTime\n  key    <null>\n  value  {mark}{cut}\n")
    )


INVALID_UTF_8 = """
    80 bf c080 c1bf c2 c241 e0 e08080 e09fbf e18041 e182 eda080 edbfbf ee80
    f0808080 f08fbfbf f0908080f0 f18080 f1808041 f4908080 f5808080 fe ff
"""


def test_invalid_utf_8_becomes_base64() -> None:
    for bad in INVALID_UTF_8.split():
        quick, plain = both(made(b"k", b"text " + bytes.fromhex(bad)))
        assert quick == plain, bad
        assert json.loads(quick)["value_encoding"] == "base64"


PRODUCER = {
    "producer_id": np.array([-1]),
    "producer_epoch": np.array([-1]),
    "sequence": np.array([-1]),
    "state": np.array([0], np.uint8),
}
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
                json_lines(b"abcd", one, one, **pieces, head=b"{", label=b"CreateTime", **PRODUCER)
    with pytest.raises(ValueError, match="timestamps"):
        json_lines(b"abcd", one, one[:0], one, none, one, none, one, none, b"{", b"CreateTime", **PRODUCER)
    no = one[:0]
    with pytest.raises(ValueError, match="producer ids"):
        json_lines(b"", no, no, no, no, no, no, no, no, b"{", b"", **PRODUCER)
    with pytest.raises(ValueError, match="producer ids"):
        json_lines(
            b"", one, one, one, none, one, none, one, none, b"{", b"", **PRODUCER | {"state": np.zeros(2, np.uint8)}
        )
    absent = no, no, no, no.astype(np.uint8)
    assert json_lines(b"", no, no, no, no, no, no, no, no, b"{", b"", *absent) == b""


def test_columns_without_records_have_no_lines() -> None:
    assert list(JsonLines(TopicPartition("t", 0), "t-0").records(RecordColumns.empty())) == []
