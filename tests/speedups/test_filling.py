"""`RecordsEncoder.fill` and `to_batch` beside their plain twins: the same records go in, the same bytes come out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import Record
from kafkalog._speedups.encoder import RecordsEncoder
from tests.helpers.strategies import CHARACTERS
from tests.reference.encode import PlainRecord
from tests.reference.filling import batch, filled

HEADER = bytes(range(61))
payloads = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(CHARACTERS, max_size=5), payloads), max_size=2).map(tuple)
records = st.lists(
    st.builds(Record, payloads, payloads, headers, st.sampled_from([-1, 0, 10**12]) | st.integers(-1, 2**62)),
    max_size=20,
)


def plain(record: Record, magic: int) -> PlainRecord:
    named = tuple((name.encode(), content) for name, content in record.headers)
    return PlainRecord(-1, record.timestamp, record.key, record.value, named if magic == 2 else ())


@given(
    rows=records,
    magic=st.integers(0, 2),
    room=st.integers(-100, 3000),
    ratio=st.floats(0.0, 3.0),
    default_timestamp=st.sampled_from([-1, 0, 1_700_000_000_000]),
    base_offset=st.integers(0, 2**40),
)
def test_batch_after_batch_takes_the_records_that_the_plain_twin_takes(
    rows: list[Record], magic: int, room: int, ratio: float, default_timestamp: int, base_offset: int
) -> None:
    rows = rows if magic == 2 else [Record(each.value, each.key, (), each.timestamp) for each in rows]
    twins, waiting, left = [plain(record, magic) for record in rows], iter(rows), None
    encoder = RecordsEncoder(magic, base_offset)
    while True:
        taken: list[Record] = []
        left = encoder.fill(waiting, room, first=left, ratio=ratio, taken=taken, default_timestamp=default_timestamp)
        count, data = filled(
            twins, magic, room, ratio=ratio, default_timestamp=default_timestamp, base_offset=base_offset
        )
        assert (encoder.records_count, bytes(encoder.take())) == (count, data)
        assert taken == rows[:count]
        rows, twins, base_offset = rows[count:], twins[count:], base_offset + count
        assert left is (rows[0] if rows else None)
        if left is None:
            break
        encoder.restart(base_offset)


@given(
    timestamps=st.lists(st.integers(-1, 2**62), min_size=1, max_size=5),
    base_offset=st.integers(0, 2**62),
    base_sequence=st.integers(-1, 2**31 - 1),
    payload=st.none() | st.binary(max_size=50),
)
def test_the_header_of_a_batch_is_that_of_the_plain_twin(
    timestamps: list[int], base_offset: int, base_sequence: int, payload: bytes | None
) -> None:
    encoder = RecordsEncoder(2, base_offset)
    encoder.extend([Record(b"value", timestamp=timestamp) for timestamp in timestamps])
    stored = bytes(encoder.take()) if payload is None else payload
    expected = batch(HEADER, base_offset, timestamps, base_sequence, stored)
    assert encoder.to_batch(HEADER, base_sequence, payload) == expected


def test_a_given_base_timestamp_and_an_append_time_outlast_the_batch() -> None:
    encoder = RecordsEncoder(2, timestamp_type=1, log_append_time=77, base_timestamp=5)
    for base_offset in (0, 9):
        encoder.restart(base_offset)
        encoder.append(b"", timestamp=6)
        made = encoder.to_batch(HEADER)
        assert (bytes(made[27:35]), bytes(made[35:43])) == ((5).to_bytes(8, "big"), (77).to_bytes(8, "big"))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda encoder: encoder.to_batch(HEADER[:60]), ValueError),
        (lambda encoder: encoder.to_batch(HEADER + b"x"), ValueError),
        (lambda encoder: encoder.to_batch(None), TypeError),
        (lambda encoder: encoder.fill(iter([None]), 100), TypeError),
        (lambda encoder: encoder.fill(iter([]), 100, first=b"x"), TypeError),
        (lambda encoder: encoder.fill(iter([Record(timestamp=-1)]), 100, default_timestamp=-2), ValueError),
    ],
)
def test_refused_arguments_change_nothing(call: Callable[[RecordsEncoder], object], error: type[Exception]) -> None:
    encoder = RecordsEncoder(2)
    encoder.append(b"first")
    before = encoder.to_batch(HEADER)
    with pytest.raises(error):
        call(encoder)
    assert encoder.to_batch(HEADER) == before
    with pytest.raises(ValueError, match="format 1"):
        RecordsEncoder(1).to_batch(HEADER)
