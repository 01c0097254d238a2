"""`RecordsEncoder`: the bytes of its plain twin, and no memory but its own, whatever it is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, Record
from kafkalog._speedups.encoder import RecordsEncoder
from tests.helpers.strategies import CHARACTERS
from tests.reference.encode import PlainRecord, V2Batch, entries

payloads = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(CHARACTERS, max_size=5), payloads), max_size=3).map(tuple)
rows = st.lists(st.tuples(payloads, payloads, headers, st.integers(-1, 2**62)), min_size=1, max_size=20)


@given(rows=rows, base_offset=st.integers(0, 2**40))
def test_v2_records_are_those_of_the_plain_encoder(
    rows: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]], base_offset: int
) -> None:
    encoder, plain = RecordsEncoder(2, base_offset), []
    for i, (key, value, pairs, timestamp) in enumerate(rows):
        size = encoder.size
        expected = encoder.size_of(value, key, pairs, timestamp)
        encoder.append(value, key, pairs, timestamp)
        assert encoder.size - size == expected
        named = tuple((name.encode(), content) for name, content in pairs)
        plain.append(PlainRecord(base_offset + i, timestamp, key, value, named))
    assert encoder.take() == V2Batch(tuple(plain)).encoded()[61:]
    extended = RecordsEncoder(2, base_offset)
    extended.extend([Record(value, key, pairs, timestamp) for key, value, pairs, timestamp in rows])
    assert extended.take() == encoder.take()


@pytest.mark.parametrize("magic", [0, 1])
@given(rows=rows)
def test_messages_are_those_of_the_plain_encoder(
    magic: int, rows: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]]
) -> None:
    encoder, plain = RecordsEncoder(magic), []
    for i, (key, value, _, timestamp) in enumerate(rows):
        encoder.append(value, key, (), timestamp)
        plain.append(PlainRecord(i, timestamp, key, value))
    assert encoder.take() == entries(tuple(plain), magic)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda encoder: encoder.extend([None]), TypeError),
        (lambda encoder: encoder.append(b"", timestamp=1.9), TypeError),
        (lambda encoder: encoder.append(b"", timestamp=-2), ValueError),
        (lambda encoder: encoder.append(b"", offset=3.0), TypeError),
        (lambda encoder: encoder.append(b"", offset=0), ValueError),
        (lambda encoder: encoder.append(b"", offset=2**31), ValueError),
        (lambda encoder: encoder.append("text"), TypeError),
        (lambda encoder: encoder.append(b"", headers=[(b"key", None)]), TypeError),
    ],
)
def test_refused_arguments_change_nothing(call: Callable[[RecordsEncoder], object], error: type[Exception]) -> None:
    encoder = RecordsEncoder(2)
    encoder.append(b"first")
    before = (encoder.take(), encoder.records_count, encoder.last_offset, encoder.max_timestamp)
    with pytest.raises(error):
        call(encoder)
    assert (encoder.take(), encoder.records_count, encoder.last_offset, encoder.max_timestamp) == before


def test_an_encoder_that_is_made_again_begins_again() -> None:
    encoder = RecordsEncoder(2)
    encoder.append(b"v2")
    encoder.__init__(1)  # type: ignore[misc]
    encoder.append(b"v1")
    assert [record.value for record in ByteBufferMessageSet(encoder.take())] == [b"v1"]


def test_threads_that_share_an_encoder_do_not_write_into_what_is_gone() -> None:
    """The checksum is computed without the GIL, and room is moved when it grows."""
    encoder = RecordsEncoder(1)

    def append() -> None:
        for _ in range(100):
            encoder.append(bytes(200_000), offset=None)

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    messages = ByteBufferMessageSet(encoder.take())
    assert (messages.valid_bytes, len(messages.headers())) == (encoder.size, 400)
    messages.ensure_valid()
