"""Record headers gathered for Arrow: the same arrays as taken apart one by one, or both refuse them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kafkalog._speedups.headers import gather_headers
from tests.reference.codes import DamageError
from tests.reference.encode import varint
from tests.reference.headers import gather_headers as reference

Header = tuple[bytes, bytes | None]
some_headers = st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=70)), max_size=4)


def encoded(headers: list[Header]) -> bytes:
    return b"".join(
        varint(len(key)) + key + (varint(-1) if value is None else varint(len(value)) + value) for key, value in headers
    )


def gathered(buffer: bytes, starts: list[int], lengths: list[int]) -> Any:
    found: tuple[NDArray[Any], ...] = gather_headers(buffer, np.array(starts, np.int64), np.array(lengths, np.int64))
    return tuple(part.tobytes() if i in (2, 4) else part.tolist() for i, part in enumerate(found))


@given(st.lists(some_headers, max_size=5))
def test_headers_are_gathered_as_the_reference_does(records: list[list[Header]]) -> None:
    pieces = [encoded(headers) for headers in records]
    ends = np.cumsum([0, *map(len, pieces)]).tolist()
    buffer, lengths = b"".join(pieces), [len(piece) for piece in pieces]
    assert gathered(buffer, ends[:-1], lengths) == reference(buffer, ends[:-1], lengths)


@given(st.binary(max_size=12))
def test_any_bytes_give_what_the_reference_gives_or_are_refused_by_both(data: bytes) -> None:
    try:
        expected = reference(data, [0], [len(data)])
    except (DamageError, ValueError):
        with pytest.raises(ValueError, match="have changed"):
            gathered(data, [0], [len(data)])
    else:
        assert gathered(data, [0], [len(data)]) == expected


def test_records_without_headers_have_none() -> None:
    assert gathered(b"", [0, 0], [0, -1]) == ([0, 0, 0], [0], b"", [0], b"", [])


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (0, 9), (8, 1), (2**62, 1)])
def test_headers_outside_the_buffer_are_refused(start: int, length: int) -> None:
    with pytest.raises(ValueError, match="outside the buffer of 8 bytes"):
        gathered(bytes(8), [start], [length])


def test_as_many_lengths_as_starts_are_needed() -> None:
    with pytest.raises(ValueError, match="2 starts, 1 lengths"):
        gathered(bytes(8), [0, 1], [1])
